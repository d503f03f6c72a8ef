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


async def test_one_colour_on_both_sides_fails_nothing(apps: tuple[Worker, Worker]) -> None:
    one, two = apps
    one.event(0)(two.driver.events.cause_of_send)
    for app in apps:
        app.cut()
    one.event(1)(two.driver.events.cause_of_send)
    assert aborted(one) == aborted(two) == []


async def test_a_red_event_of_one_app_in_a_white_one_fails_the_snapshot(apps: tuple[Worker, Worker]) -> None:
    """What it sends would be white, and caused by red."""
    one, two = apps
    one.cut()
    one.event(1)(two.driver.events.cause_of_send)
    assert aborted(one) == [(one.epoch, MIXED, "app looks")]
    assert aborted(two) == []


async def test_a_white_event_of_one_app_in_a_red_one_fails_the_snapshot(apps: tuple[Worker, Worker]) -> None:
    """What it sends would be red: it would be lost with an event that counts as done."""
    one, two = apps
    white = one.event(0)
    two.cut()
    white(two.driver.events.cause_of_send)
    assert aborted(two) == [(two.epoch, MIXED, "app looks")]
    assert aborted(one) == []
    white(two.driver.events.cause_of_send)
    assert len(aborted(two)) == 1, "once is enough"


async def test_apps_of_two_namespaces_share_no_snapshot(apps: tuple[Worker, Worker]) -> None:
    one, two = apps
    two.driver.config = replace(two.driver.config, namespace="other")
    one.cut()
    one.event(1)(two.driver.events.cause_of_send)
    assert aborted(one) == aborted(two) == []
