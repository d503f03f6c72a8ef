"""R15: how far an app is rolled out. Whatever the mode, it does what it did without us."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.errors import TriggerRefusedError
from snapkafka.kafka import Connection
from snapkafka.testing import Broker

from .harness import quick_and_slow
from .judging import Judge, Row

pytestmark = pytest.mark.timeout(300)

ROW = Row("mode", ("quick",), ("quick-out",), tables=("quick",))
COUNT = 100


@pytest.mark.parametrize("mode", ["observe", "stamp"])
def test_r15_each_mode_leaves_the_app_as_it_is(
    kafka: Broker, namespace: str, tmp_path: Path, mode: str
) -> None:
    """Outputs, changelogs, headers and exceptions are those of an app without us. `observe` writes nothing anywhere and
    says what a snapshot would hold; `stamp` puts a header on every record, joins, and refuses snapshots."""
    with quick_and_slow(
        kafka.bootstrap,
        namespace,
        tmp_path,
        env={"FEATURES_MODE": mode},
        joins=mode == "stamp",
    ) as pair:
        pair.send({"quick": [(f"k{n % 7}", b"{}", None) for n in range(COUNT)]}, seconds=2.0)
        pair.wait_for({"quick-out": COUNT})
        if mode == "stamp":
            with pytest.raises(TriggerRefusedError):
                asyncio.run(ops.trigger(Connection(bootstrap=kafka.bootstrap), namespace))
        hellos = [view.hello.mode for view in pair.observer.state.processes.values()]
        pair.end()
        judge = Judge(pair)
        judge.same(ROW)
        judge.same_errors()
        stamped = [record.stamp is not None for records in pair.ours.records.values() for record in records]
        assert len(stamped) >= 2 * COUNT
        if mode == "observe":
            assert hellos == []
            assert not any(stamped)
            assert f"snapkafka observes: a snapshot of {pair.ours.id} would hold" in pair.ours.log
        else:
            assert hellos == ["stamp"]
            assert all(stamped)
