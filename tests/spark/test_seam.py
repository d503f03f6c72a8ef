"""Where the parent's state ends and the delta begins: the same log as then, and nothing missing in between."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import main
from snapkafka.testing import EmbeddedKafka

from .scene import Stage, play, play_on

pytestmark = pytest.mark.nightly


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
