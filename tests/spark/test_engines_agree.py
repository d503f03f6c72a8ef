"""On a real broker both engines give the same rows, findings, verdicts and digests: two clients of Kafka."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import Invariant
from snapkafka.manifest import Manifest
from snapkafka.testing import Broker
from tests.spark.engines import Engine, rows
from tests.spark.scene import play, play_on
from tests.worlds.stores import LocalStore

pytestmark = [pytest.mark.timeout(1200), pytest.mark.nightly]

SCENES: Final[dict[str, dict[str, Any]]] = {
    "sound": {},
    "calm": {"calm": True},
    "red": {"red_received": True},
    "cause": {"later_cause": True},
    "lost": {"calm": True, "lost": 1},
    "ours": {"calm": True, "external": False, "declared": False},
    "hangs": {"calm": True, "external": False, "relay": "hangs"},
    "refused": {"calm": True, "external": False, "relay": "refused"},
    "split": {"calm": True, "split": True},
    "split and refused": {"calm": True, "split": True, "external": False, "relay": "refused"},
    "shared": {"calm": True, "shared": True},
}
INVARIANTS: Final = (
    Invariant(name="holds", sql='SELECT * FROM messages WHERE "offset" < 0'),
    Invariant(name="fails", sql='SELECT topic, "partition", "offset", sender, NULL AS nothing FROM messages'),
    Invariant(
        name="counts", sql="SELECT count(*) AS n, sum(messages) AS held FROM channels HAVING count(*) > 0"
    ),
)
#: Hold, or fail, only if the whole state of a chain is seen.
WHOLE: Final = (
    Invariant(name="everything", sql="SELECT key, value FROM state"),
    Invariant(name="gone", sql="SELECT * FROM state WHERE key = 'old'"),
)


@pytest.mark.parametrize("scene", SCENES)
def test_manifests_are_the_same_but_for_the_engine(
    spark: SparkSession, kafka: Broker, tmp_path: Path, scene: str
) -> None:
    """Tables, `around` and `inputs` too, findings, witnesses, verdicts, digests."""
    stage = play(kafka.bootstrap, f"agree{os.getpid()}-{scene.replace(' ', '-')}", **SCENES[scene])
    isolation = "read_committed" if sorted(SCENES).index(scene) % 2 else "read_uncommitted"
    options: dict[str, Any] = {"isolation": isolation, "around": 50, "with_inputs": True}
    in_spark, embedded = (
        engine.assemble(stage, LocalStore(tmp_path / engine.name), wanted=INVARIANTS, sinks=(), **options)
        for engine in (Engine("spark", spark), Engine("embedded"))
    )
    assert comparable(embedded) == comparable(in_spark)
    assert len(embedded.tables) == 7
    apps = {"hangs": ["relay"], "refused": [""]}.get(SCENES[scene].get("relay", ""), [])
    assert [(it.app, it.topic) for it in embedded.outsiders] == [(app, stage.topic("orders")) for app in apps]
    assert not apps or {it.status for it in embedded.checks if "V6" not in it.name} == {"passed"}
    notes = [note.kind for check in embedded.checks for note in check.notes]
    assert ("state-split" in notes) == SCENES[scene].get("split", False)
    found = {witness.kind for check in embedded.checks for witness in check.witnesses}
    assert ("state-unordered" in found) == (scene == "shared")
    if scene == "shared":
        state = rows(LocalStore(tmp_path / "embedded"), embedded, "state")
        assert {row["key"]: row["value"] for row in state if row["partition"] == 1} == {
            "x": "6",
            "y": "7",
            "w": "2",
            "v": "8",
        }, "the last white write of either process, whatever is red between them"


def test_a_chain_is_the_same_but_for_the_engine(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    """Deltas, with keys that were deleted and keys that were red for the parent, and invariants over the whole; each
    engine builds on what the other one has written."""
    stage = play(kafka.bootstrap, f"chains{os.getpid()}", calm=True)
    engines, stores = [Engine("spark", spark), Engine("embedded")], [LocalStore(tmp_path / n) for n in "ab"]

    def assembled(name: str, wanted: tuple[Invariant, ...] = ()) -> Manifest:
        one, other = (
            engine.assemble(stage, store, name, wanted=wanted, sinks=(), isolation="read_uncommitted")
            for engine, store in zip(engines, stores, strict=True)
        )
        assert comparable(one) == comparable(other)
        return one

    assembled("snap")
    written = ([(b'"old"', None), (b'"new"', b"7")], [(b'"new"', b"8"), (b'"late"', None)])
    for parent, name, changes in zip(("snap", "next"), ("next", "last"), written, strict=True):
        parent_id = f"{stage.namespace}-{parent}"
        play_on(stage, f"{stage.namespace}-{name}", parent=parent_id, written=changes)
        engines.reverse()
        manifest = assembled(name, () if name == "next" else WHOLE)
        assert [entry.id for entry in manifest.parents][-1] == parent_id
    checks = {it.name: it for it in manifest.checks}  # the keys: x, poison, late, red, new
    assert (checks["V6 everything"].found, checks["V6 gone"].status) == (5, "passed")


def comparable(manifest: Manifest) -> Manifest:
    """A manifest without times, files and the engine's versions."""
    return replace(
        manifest,
        engine="",
        times=replace(manifest.times, assembled_at="", verified_at="", seconds={}),
        tables=tuple(replace(table, path="", files=()) for table in manifest.tables),
        parents=tuple(replace(parent, path="") for parent in manifest.parents),
        versions={},
    )
