"""Two apps in one process: each has its own running event, and what goes from one to the other across a cut fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapkafka.protocol import MIXED, Cause
from tests.unit.drivers.test_reads import INPUT, Worker, aborted

EVENT = Cause("a", INPUT, 0, 0)


@pytest.fixture
async def apps() -> tuple[Worker, Worker]:
    return await Worker().start(), await Worker().start()


async def test_an_event_of_one_app_is_none_of_the_other_whatever_it_is_called(
    apps: tuple[Worker, Worker],
) -> None:
    """Both read the same record in an agent of the same name. What the event of one sends through the other has the
    colour of that one's process, and no cause."""
    one, two = apps
    in_one, _ = one.event(0), two.event(0)
    assert in_one(one.driver.events.cause) == EVENT
    assert in_one(two.driver.events.cause) is None
    two.cut()
    assert two.driver.machine.colours.running == {EVENT: 0}
    assert two.driver.machine.send_entered(in_one(two.driver.events.cause_of_send)).epoch == two.epoch


@pytest.mark.parametrize("red", [0, 1])
async def test_an_event_of_one_app_in_another_one_of_another_colour_fails_the_snapshot(
    apps: tuple[Worker, Worker], red: int
) -> None:
    """What it sends would be white, and caused by red; or red, and lost with an event that counts as done."""
    one, two = apps
    white = one.event(0)
    apps[red].cut()
    within = white if red else one.event(1)
    for _ in range(2):  # once is enough
        within(two.driver.events.cause_of_send)
    assert aborted(apps[red]) == [(apps[red].epoch, MIXED, "app looks")]
    assert aborted(apps[1 - red]) == []


async def test_apps_of_two_namespaces_share_no_snapshot(apps: tuple[Worker, Worker]) -> None:
    one, two = apps
    two.driver.config = replace(two.driver.config, namespace="other")
    one.cut()
    one.event(1)(two.driver.events.cause_of_send)
    assert aborted(one) == aborted(two) == []
