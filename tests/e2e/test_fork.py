"""A fork of a running system ends like it, and leaves every record, end, commit and group of it as they were."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from snapkafka import ops
from snapkafka.protocol.forking import prefixed
from snapkafka.testing import Broker, wait_until
from tests.e2e.parts import settled
from tests.e2e.recovering import recovered
from tests.features import production
from tests.observing import Observer

from .cycles import AT_CUT, ITEMS, Cycle, assembled, assembled_cut, cycle_at_cut, outputs_kept, take

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

FORK = "night"


def fingerprint(cycle: Cycle) -> object:
    """All that a fork must leave as it was: production, and the groups that show its positions."""
    observer = cycle.observer
    shown = [f"snapkafka.{observer.namespace}.{cycle.prefix}{app}" for app in ("left", "right")]
    commits = [observer.call(observer.admin.committed(group)) for group in shown]
    return commits, production.fingerprint(cycle.system.bootstrap, cycle.prefix)


def groups_of_forks(observer: Observer) -> set[str]:
    """Return every consumer group of any fork."""
    return {it.name for it in observer.call(observer.admin.groups()) if "fork." in it.name}


def test_a_fork_ends_like_production_and_leaves_it_as_it_was(kafka: Broker, tmp_path: Path) -> None:
    with cycle_at_cut(kafka, tmp_path, 1962) as (cycle, connection, storage):
        observer, namespace = cycle.observer, cycle.observer.namespace
        forked = Cycle.__new__(Cycle)
        forked.__dict__ |= cycle.__dict__ | {"prefix": prefixed(FORK, cycle.prefix)}
        cycle.feed(ITEMS // 2)
        cycle.await_tables()
        cut = assembled_cut(connection, namespace)
        before = settled(lambda: fingerprint(cycle), cycle.system)

        done = recovered(connection, namespace, fork=FORK, with_inputs=True, expires_ms=60_000)
        assert done.messages > 0
        assert done.inputs > 0
        assert done.state > 0
        assert forked.tables() != forked.expected()
        for role in ("left", "right"):
            env = {"CYCLE_ROLE": role, "CYCLE_PREFIX": cycle.prefix, "SNAPKAFKA_FORK": FORK}
            cycle.system.start_worker(f"fork-{role}", env, module="tests.e2e.cycling")
        forked.await_tables()
        ids = outputs_kept(forked.records()["out"])
        assert set(ids.values()) == {1}, "each once"
        assert 0 < len(ids) <= ITEMS - AT_CUT, "only what had not come out at the cut"
        take(connection, done.plan.namespace, "end", storage)
        assembled(connection, done.plan.namespace, "end")
        changed = asyncio.run(ops.diff(connection, namespace, fork=FORK, keys=1))
        for worker in [it for it in cycle.system.workers if it.app.startswith("fork-")]:
            cycle.system.interrupt(worker)
        wait_until(
            "the groups of the fork to be empty",
            lambda: not any(observer.call(observer.admin.group_members(app)) for app in done.plan.apps),
            timeout_s=60,
        )
        assert fingerprint(cycle) == before
        apps = {f"{cycle.prefix}left", f"{cycle.prefix}right"}
        assert {it.app for it in changed.tables} == apps, "by the names of production"
        totals = {it.table: it.added + it.changed + it.unchanged for it in changed.tables}
        assert totals["counts"] == totals["back"] == totals["sums"] == len(cycle.expected()["counts"])
        assert not any(it.removed for it in changed.tables)
        assert sum(it.messages_before for it in changed.channels) == cut.tables["messages"]
        assert sum(it.messages_after for it in changed.channels) == 0, "all of it was processed"
        groups = groups_of_forks(observer)
        assert len(groups) == 2 * len(apps), "of each app its own, and the one that shows its positions"
        planned = asyncio.run(ops.plan_drop(connection, namespace, FORK))
        (dropped,) = asyncio.run(ops.drop_forks(connection, planned))
        assert not groups_of_forks(observer)
        assert set(done.topics) <= dict(dropped.topics).keys()
        left = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).topics
        assert not [name for name in left if name.startswith(("fork.", "_snapkafka.fork."))]
        assert fingerprint(cycle) == before
