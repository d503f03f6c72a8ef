"""Restores by the command that are suspended by SIGSTOP, with a second operator, and a worker without snapkafka."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.demo import Observer, wait_until
from snapkafka.errors import OvertakenError
from snapkafka.kafka import Connection
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics

from .cycles import END_S, ITEMS, Cycle, assembled_cut, cycle_at_cut
from .cycling_names import PARTITIONS, TABLES
from .recovering import Operator, restored

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

#: A second run waits until the sessions of the first are over.
RESTORE_S = 180.0


def restoring(kafka: Broker, namespace: str) -> Operator:
    """An operator who restores the snapshot `cut`, when its workers have left."""
    return Operator(kafka.bootstrap, namespace, "restore", "cut", "--wait", "90")


@contextmanager
def killed_cycle(kafka: Broker, folder: Path) -> Iterator[tuple[Cycle, Observer, Connection, str]]:
    """A system of two services, with a snapshot that is assembled, killed some time later."""
    with cycle_at_cut(kafka, folder, 1985) as (cycle, connection, _):
        at_cut = cycle.sent()
        cycle.feed(ITEMS // 2)
        wait_until("more outputs", lambda: cycle.sent() > at_cut + 50, timeout_s=END_S, system=cycle.system)
        cycle.kill()
        assembled_cut(connection, cycle.observer.namespace)
        yield cycle, cycle.observer, connection, cycle.observer.namespace


def committed(observer: Observer, cycle: Cycle) -> dict[str, object]:
    return {app: observer.call(observer.admin.committed(f"{cycle.prefix}{app}")) for app in ("left", "right")}


@pytest.mark.parametrize("phase", ["state", "groups"])
def test_a_suspended_restore_is_overtaken_and_changes_nothing_more(
    kafka: Broker, tmp_path: Path, phase: str
) -> None:
    """The first operator's command sleeps at a step; the second finishes; workers run to the end; then it wakes up."""
    with killed_cycle(kafka, tmp_path) as (cycle, observer, connection, namespace):
        planned = asyncio.run(
            ops.plan_recovery(connection, ops.RecoveryRequest(namespace=namespace, name="cut"))
        )
        first = restoring(kafka, namespace)
        try:
            first.suspend_at(phase)
            restoring(kafka, namespace).finish()
            outputs = [it for it in planned.irrevocable if it.topic == f"{cycle.prefix}out"]
            cycle.start()
            cycle.await_tables()
            cycle.await_outputs(outputs)
            for worker in list(cycle.system.workers):
                cycle.system.interrupt(worker)
            wait_until(
                "the groups to be empty",
                lambda: (
                    not any(
                        observer.call(observer.admin.members(f"{cycle.prefix}{app}"))
                        for app in ("left", "right")
                    )
                ),
                timeout_s=90,
            )
            at_stop, logs = committed(observer, cycle), {t: len(r) for t, r in cycle.records().items()}
            status, err = first.resume()
            assert status == OvertakenError.exit_status, err
            assert "Traceback" not in err
            assert committed(observer, cycle) == at_stop, "no offset was set back"
            assert {t: len(r) for t, r in cycle.records().items()} == logs, "no record was appended"
        finally:
            first.end()


def test_a_worker_without_snapkafka_is_not_let_in_during_a_restore(kafka: Broker, tmp_path: Path) -> None:
    with killed_cycle(kafka, tmp_path) as (cycle, observer, _, namespace):
        operator = restoring(kafka, namespace)
        try:
            operator.suspend_at("state")
            before, logs = committed(observer, cycle), {t: len(r) for t, r in cycle.records().items()}
            cycle.start({"SNAPKAFKA": "off"})
            workers = list(cycle.system.workers)
            wait_until(
                "both workers to be refused by their groups",
                lambda: all("InconsistentGroupProtocol" in it.log.read_text() for it in workers),
                timeout_s=25,  # the operator's session lasts 30 s while it is suspended
            )
            cycle.kill()
            assert committed(observer, cycle) == before
            assert {t: len(r) for t, r in cycle.records().items()} == logs, "they have processed nothing"
            status, err = operator.resume()
            if status:  # it was suspended for longer than its session
                assert status == OvertakenError.exit_status, err
                restoring(kafka, namespace).finish()
            cycle.start()
            cycle.await_tables()
        finally:
            operator.end()


def test_an_interrupted_restore_that_has_appended_is_not_given_up_and_is_replaced(
    kafka: Broker, tmp_path: Path
) -> None:
    """Killed at `ready`: `--abort` refuses and names the topics; finished, tables and outputs are right."""
    with killed_cycle(kafka, tmp_path) as (cycle, _, connection, namespace):
        operator = restoring(kafka, namespace)
        operator.suspend_at("ready")
        operator.end()
        abort = subprocess.run(
            [sys.executable, "-m", "snapkafka", "restore", "--abort", "--json", "--bootstrap", kafka.bootstrap,
             "--namespace", namespace],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert abort.returncode == 14, abort.stderr
        error = json.loads(abort.stdout)["error"]
        assert f"{cycle.prefix}left-counts-changelog" in error["message"]
        assert "finish it: snapkafka restore cut" in error["hint"]
        planned = asyncio.run(
            ops.plan_recovery(connection, ops.RecoveryRequest(namespace=namespace, name="cut"))
        )
        outputs = [it for it in planned.irrevocable if it.topic == f"{cycle.prefix}out"]
        restoring(kafka, namespace).finish()
        cycle.start()
        cycle.await_tables()
        cycle.await_outputs(outputs)


def test_where_every_changelog_was_deleted_since_the_snapshot_every_row_is_written(
    kafka: Broker, tmp_path: Path
) -> None:
    """DeleteRecords up to the end of each changelog, as retention would do it: no record names a key any more."""
    with killed_cycle(kafka, tmp_path) as (cycle, observer, connection, namespace):
        planned = asyncio.run(
            ops.plan_recovery(connection, ops.RecoveryRequest(namespace=namespace, name="cut"))
        )
        topics = [f"{cycle.prefix}{app}-{table}-changelog" for app, table in TABLES]
        tps = [TopicPartition(topic, partition) for topic in topics for partition in range(PARTITIONS)]
        ends = observer.call(observer.admin.log_ends(tps))
        for topic in topics:  # a broker deletes records only where the policy says so, as it was for a while
            before = observer.call(observer.admin.topic_settings(topic))[1].get("cleanup.policy")
            observer.call(observer.admin.alter_settings(topic, {"cleanup.policy": "compact,delete"}))
            for tp in (tp for tp in tps if tp.topic == topic and ends[tp]):
                observer.call(observer.admin.delete_records(tp, ends[tp]))
            observer.call(observer.admin.alter_settings(topic, {"cleanup.policy": before}))
        assert observer.call(observer.admin.log_starts(tps)) == ends
        done = restored(connection, namespace, "cut", wait_s=90)
        assert done.state >= planned.state, "rows that nobody has touched since as well"
        outputs = [it for it in planned.irrevocable if it.topic == f"{cycle.prefix}out"]
        cycle.start()
        cycle.await_tables()
        cycle.await_outputs(outputs)


def test_where_events_from_outside_were_deleted_since_a_restore_is_refused(
    kafka: Broker, tmp_path: Path
) -> None:
    """DeleteRecords in the topic of a producer, whose events had all been read: the restore needs them once more."""
    with killed_cycle(kafka, tmp_path) as (_, observer, connection, namespace):
        request = ops.RecoveryRequest(namespace=namespace, name="cut")
        planned = asyncio.run(ops.plan_recovery(connection, request))
        again = max((move for move in planned.moves if move.after is not None), key=lambda move: move.again)
        left = {"group-has-members"}  # sessions of the killed workers
        assert {it.code for it in planned.refusals} <= left
        assert again.after is not None and again.again > 1
        observer.call(
            observer.admin.delete_records(TopicPartition(again.topic, again.partition), again.after + 1)
        )
        refused = asyncio.run(ops.plan_recovery(connection, request)).refusals
        assert [it.forceable for it in refused if it.code == "offsets-gone"] == [False]
        fork = ops.RecoveryRequest(namespace=namespace, name="cut", fork="copy", with_inputs=True)
        assert "offsets-gone" in {it.code for it in asyncio.run(ops.plan_recovery(connection, fork)).refusals}


def test_where_an_input_was_recreated_since_the_restore_all_of_it_is_read(
    kafka: Broker, tmp_path: Path
) -> None:
    """The restore has put each agent far behind the end of the new topic; nothing of that is skipped."""
    again = 40
    with killed_cycle(kafka, tmp_path) as (cycle, observer, connection, namespace):
        restored(connection, namespace, "cut", wait_s=90)
        topic, tables = f"{cycle.prefix}work", cycle.tables()
        skipped = [at for tp, (at, _) in observer.call(observer.admin.committed(f"{cycle.prefix}left")).items()
                   if tp.topic == topic]  # fmt: skip
        assert sum(skipped) > again, "else there would be nothing to skip"
        expected = Counter({key: n for key, n in tables["counts"].items() if isinstance(n, int)})
        for key, item in cycle.items[:again]:
            expected[key] += item["n"]
        observer.call(observer.admin.delete_topics(topic))
        wait_until(
            "the input to be deleted",
            lambda: topic not in observer.call(observer.admin.describe_topics([topic])),
            timeout_s=60,
        )
        create_topics(kafka.bootstrap, topic, partitions=PARTITIONS)
        cycle.feed(0, again)
        cycle.start()
        wait_until(
            "all of the new input, and what was in flight, to be processed",
            lambda: all(cycle.tables()[table] == expected for table in ("counts", "sums", "back")),
            timeout_s=END_S,
            period_s=2.0,
            system=cycle.system,
        )
        seen: defaultdict[str, set[object]] = defaultdict(set)
        for key, members in tables["seen"].items():
            assert isinstance(members, set)
            seen[key] |= members
        for key, item in cycle.items[:again]:
            seen[key].add(item["id"])
        wait_until(
            "the slower agent, too", lambda: cycle.tables()["seen"] == seen, timeout_s=60, system=cycle.system
        )
