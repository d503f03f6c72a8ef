"""The functions of snapkafka that a record passes on its way through a real Faust worker, on a real broker."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

import pytest

from tests.driver.live import Live
from tests.observing import Place

#: From fetch to commit, of a record with a header of ours.
OF_AN_EVENT_MAX: Final = 10
#: Besides those of its event: from the write in the agent until it is acknowledged.
OF_A_TABLE_WRITE_MAX: Final = 8
#: Besides those of its writes: from the first of them until all are acknowledged.
OF_A_BATCH_MAX: Final = 5


@pytest.mark.timeout(150)
def test_events_and_writes_pass_few_functions(place: Place) -> None:
    """Each function on the hot path costs every event of a service, and every reader of the code."""
    file = place.folder / "hops.json"
    with Live.running(place, topics=("read", "write"), partitions=1) as run:
        run.start("tests.driver.hops_app", HOPS_FILE=str(file))
        run.until("the worker to write what it traced", file.exists, 100)
        run.system.check_alive()
    passed: dict[str, dict[str, int]] = json.loads(file.read_text("utf-8"))
    event, both = passed["read"], Counter(passed["write"]) - Counter(passed["read"])
    assert len(passed["write"]) == len(event) + len(both), "a write comes on top of an event"
    assert {*both.values()} == {1, 2}, "two writes, and one batch"
    write, batch = ([function for function in both if both[function] == calls] for calls in (2, 1))
    for functions, most in ((event, OF_AN_EVENT_MAX), (write, OF_A_TABLE_WRITE_MAX), (batch, OF_A_BATCH_MAX)):
        print(len(functions), *functions, sep="\n  ")
        assert len(functions) <= most, "\n".join(functions)
    assert any(function.endswith(" Work.event_started") for function in event), "else nothing was traced"
    assert any(function.endswith(" Work.settled") for function in batch), "or not to its end"
