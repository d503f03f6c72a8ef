"""A system that is killed, restored from a snapshot and run to the end of its input ends as if nothing had happened,
whatever a broker has deleted meanwhile, and whoever else restores it. `chaos/test_restores` kills it at any moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.errors import OvertakenError
from snapkafka.kafka import Connection
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, wait_until
from tests.altering import alter_settings
from tests.observing import Observer

from .cycles import END_S, ITEMS, Cycle, assembled_cut, cycle_at_cut, outputs_kept
from .cycling_names import PARTITIONS, TABLES
from .recovering import Operator, recovered

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

#: So many more have come out when all workers are killed.
SINCE_CUT = 50


@dataclass
class Killed:
    """A system of two services with an assembled snapshot, killed some time later. `outputs`: those since."""

    cycle: Cycle
    connection: Connection
    outputs: list[ops.Irrevocable] = field(default_factory=list)
    sleeper: Operator | None = None

    @property
    def observer(self) -> Observer:
        return self.cycle.observer

    def plan(self) -> ops.RecoveryPlan:
        request = ops.RecoveryRequest(namespace=self.observer.namespace, name="cut")
        return asyncio.run(ops.plan_recovery(self.connection, request))

    def operator(self) -> Operator:
        return Operator(self.connection.bootstrap, self.observer.namespace, "cut")

    def asleep_at(self, phase: str) -> Operator:
        """Suspend the command at a step."""
        self.sleeper = self.operator()
        self.sleeper.suspend_at(phase)
        return self.sleeper

    def committed(self) -> dict[str, object]:
        admin, call = self.observer.admin, self.observer.call
        return {app: call(admin.committed(f"{self.cycle.prefix}{app}")) for app in ("left", "right")}

    def lengths(self) -> dict[str, int]:
        return {topic: len(records) for topic, records in self.cycle.records().items()}

    def runs_to_its_end(self) -> None:
        self.cycle.start()
        self.cycle.await_tables()
        self.cycle.await_outputs(self.outputs)

    def stops_in_order(self) -> None:
        for worker in list(self.cycle.system.workers):
            self.cycle.system.interrupt(worker)
        members, apps = self.observer.admin.group_members, ("left", "right")
        wait_until(
            "the groups to be empty",
            lambda: not any(self.observer.call(members(f"{self.cycle.prefix}{app}")) for app in apps),
            timeout_s=90,
        )


@pytest.fixture
def killed(kafka: Broker, tmp_path: Path) -> Iterator[Killed]:
    with cycle_at_cut(kafka, tmp_path, 1985) as (cycle, connection, _):
        at_cut = cycle.sent()
        cycle.feed(ITEMS // 2)
        wait_until(
            "more outputs", lambda: cycle.sent() > at_cut + SINCE_CUT, timeout_s=END_S, system=cycle.system
        )
        cycle.kill()
        assembled_cut(connection, cycle.observer.namespace)
        it = Killed(cycle, connection)
        it.outputs = [out for out in it.plan().irrevocable if out.topic == f"{cycle.prefix}out"]
        assert it.outputs, "nothing came out between the cut and the kill: the test shows nothing"
        try:
            yield it
        finally:
            if it.sleeper is not None:
                it.sleeper.end()


def delete_changelogs(it: Killed) -> None:
    """DeleteRecords up to the end of each changelog, as retention would do it: no record names a key any more."""
    call, admin = it.observer.call, it.observer.admin
    topics = [f"{it.cycle.prefix}{app}-{table}-changelog" for app, table in TABLES]
    tps = [TopicPartition(topic, partition) for topic in topics for partition in range(PARTITIONS)]
    ends = call(admin.log_ends(tps))
    for topic in topics:  # a broker deletes records only where the policy says so, as it was for a while
        before = call(admin.topic_settings(topic))[1].get("cleanup.policy")
        alter_settings(it.observer.connection.bootstrap, topic, {"cleanup.policy": "compact,delete"})
        for tp in (tp for tp in tps if tp.topic == topic and ends[tp]):
            call(admin.delete_records(tp, ends[tp]))
        alter_settings(it.observer.connection.bootstrap, topic, {"cleanup.policy": before})
    assert call(admin.log_starts(tps)) == ends


def test_without_its_changelogs_a_killed_system_ends_as_if_undisturbed(killed: Killed) -> None:
    delete_changelogs(killed)
    rows = killed.plan().state
    done = recovered(killed.connection, killed.observer.namespace, name="cut", wait_s=90)
    assert done.messages > 0
    assert done.state >= rows > 0, "rows that nobody has touched since as well"
    assert asyncio.run(ops.check_restored(killed.connection, killed.observer.namespace, "cut")).equal
    killed.runs_to_its_end()
    killed.cycle.system.stop()
    assert killed.cycle.tables() == killed.cycle.expected(), "nothing came after the end"
    assert outputs_kept(killed.cycle.records()["out"], killed.outputs) == Counter(range(ITEMS))


@pytest.mark.parametrize("phase", ["state", "groups"])
def test_a_suspended_restore_is_overtaken_and_changes_nothing_more(killed: Killed, phase: str) -> None:
    """The first operator's command sleeps at a step; the second finishes; workers run to the end; then it wakes up."""
    first = killed.asleep_at(phase)
    killed.operator().finish()
    killed.runs_to_its_end()
    killed.stops_in_order()
    before = killed.committed(), killed.lengths()
    status, _, err = first.ends(resumed=True)
    assert status == OvertakenError.exit_status, err
    assert "Traceback" not in err
    assert (killed.committed(), killed.lengths()) == before, "no offset was set back, no record appended"
