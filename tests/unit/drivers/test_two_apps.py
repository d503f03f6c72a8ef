"""Two apps in one process: each has its own running event, and none sends through the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapkafka.protocol import Cause
from tests.unit.drivers.test_reads import INPUT, Worker

EVENT = Cause("a", INPUT, 0, 0)


@pytest.fixture
async def apps() -> tuple[Worker, Worker]:
    return await Worker().start(), await Worker().start()


async def test_an_event_of_one_app_is_none_of_the_other_whatever_it_is_called(
    apps: tuple[Worker, Worker],
) -> None:
    """Both read the same record in an agent of the same name."""
    one, two = apps
    in_one, _ = one.event(0), two.event(0)
    assert in_one(one.driver.events.cause) == EVENT
    assert in_one(two.driver.events.cause) is None
    assert two.driver.machine.colours.running == {EVENT: 0}


@pytest.mark.parametrize("namespace", ["n", "other"])
async def test_an_app_through_which_an_event_of_another_one_sends_stands_down(
    apps: tuple[Worker, Worker], namespace: str
) -> None:
    """What it sends would be white, and caused by red; or red, and lost with an event that counts as done. Apps of two
    namespaces share no snapshot."""
    one, two = apps
    for worker, its in ((one, namespace), (two, "n")):
        worker.driver.config = replace(worker.driver.config, namespace=its)
    one.event(0)(two.driver.events.cause_of_send)
    assert not one.driver.absent
    assert ("app looks sends through app looks" in two.driver.absent) == (namespace == "n")
