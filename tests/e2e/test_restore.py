"""A system that is killed, restored from a snapshot and run to the end of its input ends as if nothing had happened."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

import pytest

from snapkafka.demo import observing, wait_until
from snapkafka.testing import Broker

from .cycles import AT_CUT, END_S, ITEMS, Cycle, assembled_cut, cycle_at_cut, outputs_kept
from .recovering import restored

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

#: So many have come out when all workers are killed, of them `AT_CUT` before the cut at least.
AT_KILL = 200


@pytest.mark.parametrize("seed", [1985])
def test_a_killed_system_is_restored_and_ends_as_if_undisturbed(
    kafka: Broker, tmp_path: Path, seed: int
) -> None:
    with cycle_at_cut(kafka, tmp_path, seed) as (cycle, connection, _):
        namespace = cycle.observer.namespace
        at_cut = cycle.sent()
        cycle.feed(ITEMS // 2)
        wait_until(
            "more outputs",
            lambda: cycle.sent() > at_cut + AT_KILL - AT_CUT,
            timeout_s=END_S,
            system=cycle.system,
        )
        cycle.kill()
        assembled_cut(connection, namespace)
        done = restored(connection, namespace, "cut", wait_s=90)
        assert done.messages > 0
        assert done.state > 0
        outputs = [item for item in done.irrevocable if item.topic == f"{cycle.prefix}out"]
        assert outputs, "nothing came out between the cut and the kill: the test shows nothing"
        cycle.start()
        cycle.await_tables()
        cycle.await_outputs(outputs)
        cycle.system.stop()
        assert cycle.tables() == cycle.expected(), "nothing came after the end"
        assert outputs_kept(cycle.records()["out"], outputs) == Counter(range(ITEMS))


def test_faust_alone_processes_events_twice_after_such_a_kill(kafka: Broker, tmp_path: Path) -> None:
    """What docs/guide/restore.md compares with: nothing is restored, each worker goes on from what it had committed."""
    with observing(kafka.bootstrap, f"e{uuid.uuid4().hex[:8]}") as observer:
        cycle = Cycle(kafka.bootstrap, tmp_path, observer, 1985)
        try:
            cycle.start({"SNAPKAFKA": "off"})
            cycle.feed()
            wait_until("outputs", lambda: cycle.sent() > AT_KILL, timeout_s=END_S, system=cycle.system)
            cycle.kill()
            cycle.start({"SNAPKAFKA": "off"})
            seen: list[object] = []

            def quiet() -> bool:
                records = cycle.records()
                seen.append({topic: len(found) for topic, found in records.items()})
                return len(outputs_kept(records["out"], [])) == ITEMS and seen[-2:] == [seen[-1]] * 2

            wait_until("the end", quiet, timeout_s=END_S, period_s=5.0, system=cycle.system)
        finally:
            cycle.system.stop()
        doubled = outputs_kept(cycle.records()["out"], []) - Counter(range(ITEMS))
        found, expected = cycle.tables(), cycle.expected()
        wrong = {
            name: sum(found[name].get(key) != value for key, value in table.items())
            for name, table in expected.items()
        }
        print(f"doubled outputs: {doubled.total()} of {ITEMS}; wrong keys: {wrong}")
        assert doubled, "at-least-once: what was not committed is processed again"
        assert wrong["sums"] > 0
