"""Two runs that create one fork at the same time, on a real broker: one fork comes of it, with every row once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.errors import ForkFailedError, ForkRefusedError, OvertakenError, PlanChangedError
from snapkafka.kafka import Connection
from snapkafka.testing import Broker
from tests.features.harness import read_topics

from .cycles import assembled_cut, cycle_at_cut
from .recovering import Operator, forked

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

Rows = dict[str, list[tuple[int, bytes | None, bytes | None, object]]]


def rows(kafka: Broker, fork: str) -> Rows:
    """Every record of a fork: partition, key, value and headers, in the order of the log; none is a marker."""
    return {
        topic: [(it.partition, it.key, it.value, it.headers) for it in records]
        for topic, records in read_topics(kafka.bootstrap, f"fork.{fork}.").items()
    }


@contextmanager
def snapshot(kafka: Broker, folder: Path) -> Iterator[tuple[Connection, str]]:
    """A system of two services with the snapshot `cut`; it has stopped."""
    with cycle_at_cut(kafka, folder, 1991) as (cycle, connection, _):
        cycle.kill()
        assembled_cut(connection, cycle.observer.namespace)
        yield connection, cycle.observer.namespace


@pytest.mark.parametrize("first_wakes_up", ["when the second is done", "while the second waits"])
def test_of_two_runs_of_one_fork_one_creates_it(kafka: Broker, tmp_path: Path, first_wakes_up: str) -> None:
    """The first run is suspended when it has appended the messages; the other ends by name, and has changed nothing."""
    with snapshot(kafka, tmp_path) as (connection, namespace):
        right, name = f"{namespace}-right", f"{namespace}-night"
        forked(connection, namespace, right, with_inputs=True)
        create = ("fork", "create", name, "--from", "cut", "--with-inputs")
        first = Operator(kafka.bootstrap, namespace, *create)
        second = None
        try:
            first.suspend_at("state")
            begun = rows(kafka, name)
            assert sum(map(len, begun.values())) > 0, "it is in the midst of appending"
            second = Operator(kafka.bootstrap, namespace, *create)
            if first_wakes_up == "when the second is done":
                second.finish()
                status, err = first.resume()
                assert status == OvertakenError.exit_status, err
            else:
                second.prints("waiting for another run to end")
                status, err = first.resume()
                assert status == 0, err
                status, _, err = second.ended()
                refused = (ForkRefusedError, PlanChangedError, ForkFailedError)
                assert status in {it.exit_status for it in refused}, (status, err)
            assert "Traceback" not in err
            assert rows(kafka, name) == rows(kafka, right)
            (fork,) = (it for it in asyncio.run(ops.list_forks(connection)) if it.fork == name)
            assert fork.stage == "ready"
        finally:
            first.end()
            if second is not None:
                second.end()
