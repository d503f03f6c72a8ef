"""VERIFIED_OPEN: groups without snapkafka read outputs, and inputs hold records that nobody with snapkafka sent."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from snapkafka.assembly import main
from snapkafka.manifest import ExternalEntry, OpenEntry
from snapkafka.testing import Broker
from tests.spark.at_hand import spec_file
from tests.spark.engines import Engine
from tests.spark.scene import Stage, play
from tests.worlds.stores import LocalStore


@pytest.fixture(scope="module")
def stage(kafka: Broker) -> Stage:
    """Groups of clients have read an output, and a changelog: what is read there is nobody's message."""
    stage = play(kafka.bootstrap, f"str{os.getpid()}", calm=True, declared=False)
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
        named = spec_file(tmp_path, sinks=sinks, sources=sources)
        status = main(
            ["--bootstrap", stage.bootstrap, "--manifest", str(place), "--engine", engine.name, *named]
        )
        (found,) = json.loads(capsys.readouterr().out)["snapshots"]
        return status, found["verdict"], [it["group"] for it in found["open"]]

    assert verify() == (0, "VERIFIED_OPEN", ["long-gone", bank.group])
    assert verify(bank.group) == (0, "VERIFIED_OPEN", ["long-gone"])
    assert verify(bank.group, "long-gone") == (0, "VERIFIED_OPEN", [])
    assert verify("*") == (0, "VERIFIED_OPEN", [])
    assert verify(declared=True) == (0, "VERIFIED", [])
