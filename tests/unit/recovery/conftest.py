"""The worlds that tests of a recovery share."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from snapkafka.protocol import Captured
from tests.worlds.forks import Fork, beside_production
from tests.worlds.new_cluster import New, after_a_loss
from tests.worlds.recovery import (
    WINDOWS,
    World,
    captured,
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
def cut() -> Captured:
    found = captured()
    windowed = dataclasses.replace(found.changelogs[0], table="w", topic=WINDOWS.topic, windowed=True)
    return dataclasses.replace(found, changelogs=(*found.changelogs, windowed))
