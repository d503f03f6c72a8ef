"""VERIFIED_OPEN: groups without snapkafka read outputs, and inputs hold records that nobody with snapkafka sent."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from snapkafka.assembly import main
from snapkafka.manifest import ExternalEntry, Manifest, OpenEntry
from snapkafka.testing import Broker
from tests.spark.engines import Engine
from tests.spark.reading import spec_file
from tests.spark.scene import Stage, play
from tests.worlds.stores import LocalStore


def read_as(group: str, stage: Stage, name: str) -> None:
    """A group of clients has read this topic, and is away."""
    consumer = Consumer({"bootstrap.servers": stage.bootstrap, "group.id": group, "log_level": 0})
    deadline = time.monotonic() + 60
    while True:
        try:
            consumer.commit(offsets=[KafkaPartition(stage.topic(name), 0, 1)], asynchronous=False)
            break
        except KafkaException:  # the broker's coordinator of groups is still loading
            assert time.monotonic() < deadline, "no coordinator of groups within 60 s"
            time.sleep(0.2)
    consumer.close()


@pytest.fixture(scope="module")
def stage(kafka: Broker) -> Stage:
    stage = play(kafka.bootstrap, f"str{os.getpid()}", calm=True, declared=False)
    read_as(f"{stage.namespace}-bank", stage, "credits")
    read_as(
        f"{stage.namespace}-audit", stage, "balances"
    )  # a changelog: what is read there is nobody's message
    return stage


def assembled(
    engine: Engine,
    stage: Stage,
    folder: Path,
    *sinks: str,
    sources: tuple[str, ...] = (),
    strict: bool = False,
) -> Manifest:
    return engine.assemble(stage, LocalStore(folder), sinks=sinks, sources=sources, strict=strict)


def test_a_path_that_nobody_can_see_is_named(engine: Engine, stage: Stage, tmp_path: Path) -> None:
    manifest = assembled(engine, stage, tmp_path)
    bank = OpenEntry(group=f"{stage.namespace}-bank", topics=(stage.topic("credits"),))
    assert (manifest.verdict, manifest.open) == ("VERIFIED_OPEN", (bank,))
    assert manifest.external == (ExternalEntry(topic=stage.topic("orders"), mixed=True),)


def test_verification_looks_for_them_again_and_remembers_those_of_then(
    engine: Engine, stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group that has ended is forgotten by the broker some day; what it read before was read all the same."""
    manifest = assembled(engine, stage, tmp_path)
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

    bank = f"{stage.namespace}-bank"
    assert verify() == (0, "VERIFIED_OPEN", ["long-gone", bank])
    assert verify(bank) == (0, "VERIFIED_OPEN", ["long-gone"])
    assert verify(bank, "long-gone") == (0, "VERIFIED_OPEN", [])
    assert verify("*") == (0, "VERIFIED_OPEN", [])
    assert verify(declared=True) == (0, "VERIFIED", [])
