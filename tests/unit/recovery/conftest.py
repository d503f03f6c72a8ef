"""The worlds that tests of a recovery share."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from snapkafka.protocol import Captured, Hello, InputCut, InputTopic, Position, ProcessCut
from tests.worlds.forks import Fork, beside_production
from tests.worlds.new_cluster import New, after_a_loss
from tests.worlds.recovery import (
    EPOCH,
    IN,
    OUT,
    WINDOWS,
    World,
    captured,
    save,
    stopped_app,
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return stopped_app(tmp_path)


@pytest.fixture
def fork(world: World) -> Fork:
    return beside_production(world)


@pytest.fixture
def new(world: World) -> New:
    return after_a_loss(world)


@pytest.fixture
def two(world: World) -> World:
    """A second app, `other`, which reads `out` and has sent to `in` before and since the cut."""
    other = world.cluster.the_ledger.put(
        Hello(n=3, app="other", inputs=(InputTopic(topic="out", partitions=1),))
    )
    world.log.put(IN, b"k", b"seven, of other", by=other, epoch=EPOCH)
    world.log.put(IN, b"_sk:2", None, by=other, epoch=EPOCH)
    world.log.put(IN, b"k", b"nine, red", by=1, epoch=EPOCH)
    cut = captured()
    reads = InputCut(
        app="other", topic="out", topic_id="", partition=0, position=1, noted=1, low=0, log_end=1, receiver=other,
        agents=(Position(agent="o", topic="out", partition=0, offset=1),),
    )  # fmt: skip
    both = dataclasses.replace(
        cut, inputs=(*cut.inputs, reads), processes=(*cut.processes, ProcessCut(process=other, app="other"))
    )
    world.admin.commits["other"] = {OUT: 3}
    world.manifest = dataclasses.replace(world.manifest, captured=both)
    save(world, world.manifest)
    return world


@pytest.fixture
def cut() -> Captured:
    found = captured()
    windowed = dataclasses.replace(found.changelogs[0], table="w", topic=WINDOWS.topic, windowed=True)
    return dataclasses.replace(found, changelogs=(*found.changelogs, windowed))
