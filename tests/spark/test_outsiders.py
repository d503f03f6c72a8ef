"""Processes that are no part of a snapshot and may have passed on what is red: the verdict names them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from snapkafka.assembly import main
from snapkafka.manifest_entries import OutsiderEntry
from snapkafka.testing import Broker
from tests.spark.engines import Engine
from tests.spark.scene import Stage, play
from tests.worlds.stores import LocalStore


def passed_on_unsent(stage: Stage) -> bool:
    """The oracle, which knows no headers: has alpha received a record that was passed on of what beta had not sent?

    Beta sends one record to `side`, the relay passes it on to `orders` at offset 8.
    """
    assert stage.captured is not None
    (source,) = (s for s in stage.captured.inputs if (s.topic, s.partition) == stage.tp("orders"))
    ends = (e for e in stage.captured.senders if e.topic == stage.topic("side"))
    sent_by_then = sum(end.last_seq + 1 for end in ends)
    return source.position > 8 and sent_by_then < 1


@pytest.mark.parametrize("relay", ["hangs", "refused"])
def test_a_relay_that_did_not_cut_is_named(
    relay: str, engine: Engine, kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = play(
        kafka.bootstrap, f"out{os.getpid()}{engine.name}{relay}", calm=True, external=False, relay=relay
    )
    assert passed_on_unsent(stage)
    manifest = engine.assemble(stage, LocalStore(tmp_path), sinks=())
    assert manifest.verdict == "VERIFIED_OPEN"
    (entry,) = manifest.outsiders
    assert (entry.app, entry.topic) == ("relay" if relay == "hangs" else "", stage.topic("orders"))
    place = tmp_path / f"{manifest.id}.json"
    assert main(["--bootstrap", stage.bootstrap, "--manifest", str(place), "--engine", engine.name]) == 0
    (again,) = json.loads(capsys.readouterr().out)["snapshots"]
    assert again["verdict"] == "VERIFIED_OPEN", "verification says the same"
    assert again["outsiders"] == [{"process": entry.process, "app": entry.app, "topic": entry.topic}]


def test_a_relay_that_turned_red_as_well_leaves_nothing_open(
    engine: Engine, kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = play(kafka.bootstrap, f"outc{os.getpid()}", calm=True, external=False, relay="cuts")
    assert not passed_on_unsent(stage)
    manifest = engine.assemble(stage, LocalStore(tmp_path), sinks=())
    outsiders: tuple[OutsiderEntry, ...] = ()
    assert (manifest.verdict, manifest.outsiders) == ("VERIFIED", outsiders)
    place = tmp_path / f"{manifest.id}.json"
    assert main(["--bootstrap", stage.bootstrap, "--manifest", str(place), "--engine", engine.name]) == 0
    (again,) = json.loads(capsys.readouterr().out)["snapshots"]
    assert again["verdict"] == "VERIFIED"
