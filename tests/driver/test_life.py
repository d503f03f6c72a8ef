"""What can befall a running system of real workers: each failure has a name, and none stands in the way of the next
snapshot."""

from __future__ import annotations

import pytest

from snapkafka.demo import Observer, wait_until
from snapkafka.kafka import SETTINGS
from snapkafka.protocol import LedgerState, SnapshotView, Status
from tests.e2e.parts import Live, live

pytestmark = pytest.mark.timeout(300)


@pytest.mark.nightly
def test_a_deleted_and_recreated_ledger_is_noticed_and_the_next_snapshot_works(namespace: str) -> None:
    with live(namespace) as system:
        system.take("before")
        observer = system.observer
        ids_before = set(observer.state.processes)
        assert len(ids_before) == 4
        observer.call(observer.admin.delete_topics(observer.ledger.topic))
        observer.call(observer.admin.create_topic(observer.ledger.topic, settings=SETTINGS))
        _read_anew(observer)
        wait_until(
            "all workers to join the new ledger and to name their inputs again",
            lambda: len([v for v in observer.state.living() if v.assigned >= 0]) == 4,
            timeout_s=60,
            system=system.system,
        )
        for name in ("after", "and again"):
            assert system.take(name).status is Status.CAPTURED
        assert "was deleted and recreated" in system.logs()


def _read_anew(observer: Observer) -> None:
    """The observer's own fold starts over, as everybody's does."""
    observer.state = LedgerState()
    observer.call(observer.ledger.open())
    observer.call(observer.follow())


def test_a_killed_worker_fails_the_snapshot_by_name_and_not_the_one_after(namespace: str) -> None:
    """R12: a required sender that dies fails E; who notices appends `Dead(p)`, so that the next one does not wait."""
    with live(namespace) as system:
        system.take("before")
        victim = system.system.workers_of("clearing")[1]
        state = system.observer.state
        process = next(view for view in state.living() if view.hello.pid == victim.pid)
        system.system.kill(victim)
        view = system.decided(system.trigger("with a corpse", ttl_ms=1500))
        assert view.failure is not None
        assert view.failure.code == "ttl"
        assert f"process {process.process} of app clearing" in view.failure.culprit
        wait_until("the dead to be named", lambda: process.dead, timeout_s=10, system=system.system)
        heir = next(v for v in state.living() if v.hello.app == "clearing")
        wait_until(
            "the other worker to get the inputs (session timeout, rebalance)",
            lambda: len(heir.inputs) == 4,
            timeout_s=90,
            system=system.system,
        )
        good = _next_good(system)
        assert process.process not in good.required
        assert {i.receiver for i in state.captured(good.epoch).inputs if i.app == "clearing"} == {
            heir.process
        }


def _next_good(system: Live) -> SnapshotView:
    """The first snapshot that is captured: replays are named as long as they last, and nothing else goes wrong."""
    taken: list[SnapshotView] = []

    def good() -> bool:
        taken.append(system.decided(system.trigger(f"after-{len(taken)}")))
        failure = taken[-1].failure
        assert failure is None or failure.code == "replay", failure
        return failure is None

    wait_until("a good snapshot", good, timeout_s=60, period_s=1, system=system.system)
    return taken[-1]
