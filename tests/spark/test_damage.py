"""Damage on real topics: whoever verifies with only the captured snapshot and the broker finds the very offset.
And VERIFIED_OPEN: groups without snapkafka read outputs, and inputs hold records that nobody with snapkafka sent."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from snapkafka.assembly import main
from snapkafka.checks import Status
from snapkafka.manifest import ExternalEntry, OpenEntry
from snapkafka.testing import Broker
from tests.altering import alter_settings
from tests.spark.at_hand import spec_file
from tests.spark.engines import Engine
from tests.spark.scene import Sender, Stage, play
from tests.worlds.stores import LocalStore

Place = tuple[str, int, int]


def a_white_record_after_the_marker(stage: Stage) -> list[Place]:
    """In the name of beta's process, behind its marker."""
    tp = stage.tp("orders")
    return [(*tp, Sender(stage, 2, "beta").send(tp, b"forged", b"{}", seq=77))]


def a_record_in_flight_is_gone(stage: Stage) -> list[Place]:
    stage.trim(tp := stage.tp("orders"), 3)
    return [(*tp, 2)]


def what_was_received_or_changed_is_gone(stage: Stage) -> list[Place]:
    """A partition all of which was read at the cut, and is empty by now; the first record of a changelog."""
    settings = {"cleanup.policy": "compact,delete"}  # of what is only compacted nothing may be deleted
    alter_settings(stage.bootstrap, stage.topic("balances"), settings)
    stage.trim(read := stage.tp("credits", 1), 2)
    stage.trim(written := stage.tp("balances"), 1)
    return [(*read, 0), (*written, 1)]


@pytest.mark.parametrize(
    ("checks", "status", "options", "damage"),
    [
        ([], Status.PASSED, {}, lambda stage: []),
        (["V1"], Status.FAILED, {}, a_white_record_after_the_marker),
        (["V2"], Status.FAILED, {"red_received": True}, lambda stage: [(*stage.tp("orders"), 8)]),
        (["V4"], Status.FAILED, {}, a_record_in_flight_is_gone),
        (["V5"], Status.FAILED, {"later_cause": True}, lambda stage: [(*stage.tp("balances"), 2)]),
        (["V2", "V3"], Status.UNVERIFIABLE, {}, what_was_received_or_changed_is_gone),
    ],
)
def test_each_damage_is_found_by_its_check_at_its_offset(
    engine: Engine,
    kafka: Broker,
    namespace: str,
    checks: list[str],
    status: Status,
    options: dict[str, Any],
    damage: Callable[[Stage], list[Place]],
) -> None:
    """By an effect of an event past the cut, too; and the other checks have nothing to say."""
    stage = play(kafka.bootstrap, namespace, **options)
    expected = damage(stage)
    found = {it.name: it for it in engine.verify(stage)[1].outcomes}
    worst = {name: it for name, it in found.items() if it.status is status}
    assert [*worst] == (checks or [*found])
    places = [(it.topic, it.partition, it.offset) for one in worst.values() for it in one.witnesses]
    assert places == expected


# -- what leaves a snapshot open -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stage(kafka: Broker) -> Stage:
    """Groups of clients have read an output, and a changelog: what is read there is nobody's message."""
    stage = play(kafka.bootstrap, f"str{os.getpid()}", declared=False)
    for group, topic in (("bank", "credits"), ("audit", "balances")):
        read, name = {stage.tp(topic): 1}, f"{stage.namespace}-{group}"
        stage.ask(lambda admin, name=name, read=read: admin.commit_positions(name, read, ""))  # type: ignore[misc]
    return stage


def test_a_path_that_nobody_can_see_is_named_and_remembered(
    engine: Engine, stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group that has ended is forgotten by the broker some day; what it read before was read all the same."""
    manifest = engine.assemble(stage, LocalStore(tmp_path), sinks=())
    bank = OpenEntry(group=f"{stage.namespace}-bank", topics=(stage.topic("credits"),))
    assert (manifest.verdict, manifest.open) == ("VERIFIED_OPEN", (bank,))
    assert manifest.external == (ExternalEntry(topic=stage.topic("orders"), mixed=True),)
    long_gone = OpenEntry(group="long-gone", topics=(stage.topic("credits"),))
    store, place = LocalStore(tmp_path), tmp_path / f"{manifest.id}.json"
    text = json.loads(place.read_text())
    text["open"] = [{"group": "long-gone", "topics": [*long_gone.topics]}]
    place.write_text(json.dumps(text))
    assert store.read(manifest.id).open == (long_gone,)

    def verify(*sinks: str, declared: bool = False) -> tuple[int, str, list[str]]:
        capsys.readouterr()
        sources = (stage.topic("orders"),) if declared else ()
        named = [*spec_file(tmp_path, sinks=sinks, sources=sources), "--engine", engine.name]
        status = main(["--bootstrap", stage.bootstrap, "--manifest", str(place), *named])
        (found,) = json.loads(capsys.readouterr().out)["snapshots"]
        return status, found["verdict"], [it["group"] for it in found["open"]]

    assert verify() == (0, "VERIFIED_OPEN", ["long-gone", bank.group])
    assert verify(bank.group) == (0, "VERIFIED_OPEN", ["long-gone"])
    assert verify(bank.group, "long-gone") == (0, "VERIFIED_OPEN", [])
    assert verify("*") == (0, "VERIFIED_OPEN", [])
    assert verify(declared=True) == (0, "VERIFIED", [])
