"""Where the parent's state ends and the delta begins: the same log as then, and nothing missing in between."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import local_frame, main, stamps
from snapkafka.assembly.spark.verify import rules, v3_state
from snapkafka.checks import CutView, reading_ranges
from snapkafka.checks.v3_state import facts_of, judge
from snapkafka.protocol import SenderEnd
from snapkafka.testing import EmbeddedKafka

from .growing_logs import RECORDS_SCHEMA, Logs, logs
from .in_spark import frames, nothing_there
from .scene import Stage, play, play_on

pytestmark = pytest.mark.nightly

WORLDS = 300


def test_spark_and_lists_see_the_same_at_the_seam(spark: SparkSession) -> None:
    """Also where nothing stands there any more, a stranger's record, or another one of the same process."""
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    all_ = logs(rng, WORLDS)
    view = _with_seams(rng, all_)
    ranges = {item[:2]: item for item in reading_ranges(view, starts=view.starts)}
    read = [
        item
        for item in all_.written
        if (of := ranges.get(item.record[:2])) is not None and of.start <= item.record.offset < of.end
    ]
    records = local_frame(spark, RECORDS_SCHEMA, [item.as_row() for item in read])
    log = frames(spark, view, stamps(records), read=list(ranges.values()), still_there=nothing_there)
    look = rules.look_at(log)
    held = look.held
    by_place = {tp: [item.record for item in read if item.record.tp == tp] for tp in held}
    assert held == {tp: facts_of(view, lines) for tp, lines in by_place.items()}, f"seed {seed}"
    stands = {tp for tp in view.seams if tp in held and held[tp].at_seam is not None}
    other = {finding[1:3] for finding in judge(view, held)[0] if finding.kind == "state-seam"}
    assert 0 < len(other) < len(stands) < len(view.seams), "each of these has to be there"
    found, _ = v3_state.find(log, look)
    assert {finding[1:3] for finding in found if finding.kind == "state-seam"} == other


def _with_seams(rng: random.Random, all_: Logs) -> CutView:
    """The second snapshot, each changelog with a seam: mostly at a record that is there, and mostly its own."""
    seams, starts = {}, {}
    for tp in all_.ends:
        ours = [item.record for item in all_.written if item.record.tp == tp and item.record.process >= 0]
        if not ours:
            continue
        record = rng.choice(ours)
        offset = record.offset + (rng.random() < 0.2)
        seams[tp] = SenderEnd(
            process=record.process,
            topic=tp.topic,
            partition=tp.partition,
            white_end=offset + 1,
            last_seq=record.seq + (rng.random() < 0.2),
        )
        starts[tp] = offset + rng.choice((-1, 1, 1, 3))
    of_child = all_.view(1)
    return CutView(of_child.captured, of_child.bounds, starts, seams)


# -- On a real broker ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


def _as_it_was(broker: EmbeddedKafka, stage: Stage) -> None:
    """Nothing happens."""


def _cut_short(broker: EmbeddedKafka, stage: Stage) -> None:
    """The broker comes back without the end of a changelog, from offset 6 on, and alpha writes on."""
    tp = stage.tp("balances")
    broker.stop()
    data = broker.folder / "data"
    partition = data / f"{tp.topic}-{tp.partition}"
    segment = partition / f"{0:020}.log"
    content, at = segment.read_bytes(), 0
    while struct.unpack_from(">q", content, at)[0] < 6:
        at += 12 + struct.unpack_from(">i", content, at + 8)[0]
    segment.write_bytes(content[:at])
    # It is to look at its log anew, as after a crash.
    stale = [*partition.glob("*.index"), *partition.glob("*.timeindex"), *partition.glob("*.snapshot")]
    for path in (*stale, *data.glob(".kafka_cleanshutdown"), *data.glob("re*-offset-checkpoint")):
        path.unlink()
    broker.start()
    alpha, _ = stage.players
    for offset, key in ((6, b'"other"'), (7, b'"more"')):
        assert alpha.send(tp, key, b"1", epoch=stage.epoch) == offset


@pytest.mark.parametrize(
    ("lost", "happens", "failed"),
    [
        pytest.param(1, _as_it_was, {"V1": 7}, id="lost"),
        pytest.param(0, _as_it_was, {}, id="as-it-was"),
        pytest.param(0, _cut_short, {"V3": 6}, id="cut-short"),
    ],
)
def test_a_delta_that_does_not_follow_on_its_parent(
    broker: EmbeddedKafka,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    lost: int,
    happens: Callable[[EmbeddedKafka, Stage], None],
    failed: dict[str, int],
) -> None:
    """The delta begins at offset 7, past the last record of the parent's state: nothing below it is new."""
    stage = play(broker.bootstrap, f"seam{os.getpid()}-{tmp_path.name[:40]}", calm=True, lost=lost)

    def assembled(name: str) -> dict[str, Any]:
        where = ["--bootstrap", stage.bootstrap, "--namespace", stage.namespace, "--storage", str(tmp_path)]
        capsys.readouterr()
        main([*where, "--snapshot", f"{stage.namespace}-{name}"])
        (reported,) = json.loads(capsys.readouterr().out)["snapshots"]
        return dict(reported)

    assert assembled("snap")["verdict"] == "VERIFIED"
    manifest = json.loads((tmp_path / f"{stage.namespace}-snap.json").read_text())
    assert {entry["partition"]: entry["offset"] for entry in manifest["settled"]} == {0: 7, 1: 0}
    happens(broker, stage)
    play_on(stage, f"{stage.namespace}-next", parent=f"{stage.namespace}-snap", written=[(b'"new"', b"7")])
    reported = assembled("next")
    assert reported["verdict"] == ("INCONSISTENT" if failed else "VERIFIED"), reported["checks"]
    found = {
        check["name"]: check["witnesses"] for check in reported["checks"] if check.get("status") == "failed"
    }
    places = {name: [(w["topic"], w["offset"]) for w in witnesses] for name, witnesses in found.items()}
    assert places == {name: [(stage.topic("balances"), offset)] for name, offset in failed.items()}
