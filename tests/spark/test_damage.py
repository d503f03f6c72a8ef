"""Damage on real topics: whoever verifies with only the captured snapshot and the broker finds the very offset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from snapkafka.checks import Status
from snapkafka.manifest import CheckEntry
from snapkafka.testing import Broker
from tests.spark.engines import Engine
from tests.spark.scene import Sender, Stage, play

Place = tuple[str, int, int]


def no_damage(stage: Stage) -> None:
    """Nothing happens."""


def a_white_record_after_the_marker(stage: Stage) -> Place:
    """In the name of beta's process, behind its marker."""
    tp = stage.tp("orders")
    return (*tp, Sender(stage, 2, "beta").send(tp, b"forged", b"{}", seq=77))


def a_record_in_flight_is_gone(stage: Stage) -> Place:
    tp = stage.tp("orders")
    stage.trim(tp, 3)
    return (*tp, 2)


@pytest.mark.parametrize(
    ("check", "options", "damage"),
    [
        ("", {}, no_damage),
        ("V1", {}, a_white_record_after_the_marker),
        ("V2", {"red_received": True}, lambda stage: (*stage.tp("orders"), 8)),
        ("V4", {}, a_record_in_flight_is_gone),
        ("V5", {"later_cause": True}, lambda stage: (*stage.tp("balances"), 2)),
    ],
)
def test_each_damage_is_found_by_its_check_at_its_offset(
    engine: Engine,
    kafka: Broker,
    namespace: str,
    check: str,
    options: dict[str, Any],
    damage: Callable[[Stage], Place | None],
) -> None:
    """By an effect of an event past the cut, too; and the other checks have nothing to say."""
    stage = play(kafka.bootstrap, namespace, **options)
    place = damage(stage)
    found = {it.name: it for it in engine.verify(stage).outcomes}
    failed = {name for name, it in found.items() if it.status is Status.FAILED}
    assert failed == ({check} if check else set())
    assert check or {it.status for it in found.values()} == {Status.PASSED}
    if check:
        assert places(found[check]) == [place]


def places(outcome: CheckEntry) -> list[Place]:
    return [(w.topic, w.partition, w.offset) for w in outcome.witnesses]
