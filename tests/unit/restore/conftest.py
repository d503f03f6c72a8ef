"""The systems that tests of a recovery share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from snapkafka.protocol import Captured
from tests.worlds.copies import Fork, New, after_a_loss
from tests.worlds.restore import WINDOWS, System, World, captured, stopped_app

#: What `system` is: the app itself, in place, in another cluster, or as a fork.
KINDS: Final[dict[str, Callable[[World], System]]] = {
    "in-place": lambda world: world,
    "cluster": after_a_loss,
    "fork": Fork,
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return stopped_app(tmp_path)


@pytest.fixture
def fork(world: World) -> Fork:
    return Fork(world)


@pytest.fixture
def new(world: World) -> New:
    return after_a_loss(world)


@pytest.fixture(params=KINDS)
def system(request: pytest.FixtureRequest, world: World) -> System:
    return KINDS[request.param](world)


@pytest.fixture
def cut() -> Captured:
    found = captured()
    windowed = dataclasses.replace(found.changelogs[0], table="w", topic=WINDOWS.topic, windowed=True)
    return dataclasses.replace(found, changelogs=(*found.changelogs, windowed))
