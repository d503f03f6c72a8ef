"""A world, and two processes in it."""

from __future__ import annotations

import pytest

from .world import A, B, Process, World, settle


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def pair(world: World) -> tuple[Process, Process]:
    """A cycle: p reads A and writes B, q reads B and writes A."""
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    settle(p, q)
    return p, q


@pytest.fixture
def p(pair: tuple[Process, Process]) -> Process:
    return pair[0]


@pytest.fixture
def q(pair: tuple[Process, Process]) -> Process:
    return pair[1]
