"""Restores of a part, and of all but the keys of people who were erased, with real workers before and after."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.demo import wait_until
from snapkafka.kafka import Connection
from snapkafka.recovery import Selection, Suppression
from snapkafka.testing import Broker
from tests.features.harness import is_marker

from .cycles import END_S, ITEMS, Cycle, cycle_at_cut, outputs_kept
from .recovering import restored

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

#: So many more have come out when the system is killed.
SINCE = 120


class Cut:
    """A cycle of which a snapshot was taken half-way."""

    def __init__(self, connection: Connection, cycle: Cycle, storage: Path) -> None:
        self.connection, self.cycle, self.storage = connection, cycle, storage
        self.namespace = cycle.observer.namespace

    def assemble(self) -> None:
        (assembled,) = asyncio.run(
            ops.assemble(self.connection, ops.JobSpec(namespace=self.namespace, snapshots=("cut",)))
        )
        assert assembled.verdict == "VERIFIED", assembled.checks
        assert assembled.tables["messages"] > 0, "nothing was in flight: the test shows nothing"

    def table(self, name: str) -> dict[str, Any]:
        """A table as the snapshot has it, by the names of `Cycle.tables`."""
        found = asyncio.run(
            ops.query(
                None,
                "",
                f"SELECT key, value, CAST(epoch(window_start) AS DOUBLE) AS window_start FROM state"
                f" WHERE table_name = '{name}'",
                name="cut",
                storage=str(self.storage),
            )
        )
        return {
            row["key"] + ("" if row["window_start"] is None else f" from {row['window_start']}"): json.loads(
                row["value"]
            )
            for row in found.rows
        }

    def restore(self, selection: Selection) -> ops.Recovered:
        done = restored(self.connection, self.namespace, "cut", selection=selection, wait_s=90, safety=False)
        assert not done.consistent
        return done

    def run_until(self, tables: dict[str, dict[str, object]], outputs: Counter[int]) -> None:
        """Run the workers until these are the tables, and these ids have come out so often; and stop them."""
        cycle = self.cycle
        cycle.start()

        def ended() -> bool:
            return cycle.tables() == tables and outputs_kept(cycle.records()["out"], []) == outputs

        try:
            wait_until("the end result", ended, timeout_s=END_S, period_s=2.0, system=cycle.system)
        except BaseException:
            found, out = cycle.tables(), outputs_kept(cycle.records()["out"], [])
            for name, table in tables.items():
                wrong = {key: (found[name].get(key), value) for key, value in table.items()}
                print(name, {key: pair for key, pair in wrong.items() if pair[0] != pair[1]})
            print("outputs too many", out - outputs, "missing", outputs - out)
            raise
        cycle.system.stop()
        assert ended(), "nothing came after the end"


@contextmanager
def cut_of(kafka: Broker, folder: Path) -> Iterator[Cut]:
    """Run a cycle up to the cut and on."""
    with cycle_at_cut(kafka, folder, 1985) as (cycle, connection, storage):
        cycle.feed(ITEMS // 2)
        yield Cut(connection, cycle, storage)


def test_a_part_goes_back_and_all_else_stays(kafka: Broker, tmp_path: Path) -> None:
    with cut_of(kafka, tmp_path) as it:
        cycle, once = it.cycle, Counter(range(ITEMS))
        wait_until(
            "the end", lambda: cycle.tables() == cycle.expected(), timeout_s=END_S, system=cycle.system
        )
        cycle.system.stop()
        it.assemble()
        sums, windows, tables = it.table("sums"), it.table("windows"), cycle.expected()

        # Two keys of a table: the state alone, and nothing is processed again.
        changed = [key for key in sorted(sums) if sums[key] != tables["sums"][key]]
        back = dict.fromkeys(changed[:2])
        assert len(back) == 2, "too little has happened since the cut"
        done = it.restore(Selection(tables=("sums",), keys=tuple(back)))
        assert (done.messages, done.irrevocable) == (0, ())
        tables["sums"] |= {key: sums[key] for key in back}
        assert cycle.tables() == tables
        it.run_until(tables, once)

        # A windowed table, whole: windows of after the cut are deleted.
        later = tables["windows"].keys() - windows.keys()
        assert later
        it.restore(Selection(tables=("windows",)))
        tables["windows"] = windows
        assert cycle.tables() == tables
        it.run_until(tables, once)

        # An app: it reads again what the other one has sent since, and sends again what it makes of that.
        twice = not_summed_up(it)
        assert twice
        done = it.restore(Selection(apps=(f"{cycle.prefix}right",)))
        assert done.messages > 0
        assert done.irrevocable
        totals: dict[str, Any] = cycle.expected()["sums"]
        tables["sums"] = totals
        tables["back"] = {key: 2 * total - sums.get(key, 0) for key, total in totals.items()}
        it.run_until(tables, once + Counter(twice))


def not_summed_up(it: Cut) -> list[int]:
    """The items that `right` had not started at the cut: in each partition of `ping` those from its position on."""
    sql = f'SELECT "partition", "position" FROM positions WHERE topic = \'{it.cycle.prefix}ping\''
    found = asyncio.run(ops.query(None, "", sql, name="cut", storage=str(it.storage)))
    at = {row["partition"]: row["position"] for row in found.rows}
    return [
        json.loads(record.value or b"")["id"]
        for record in it.cycle.records()["ping"]
        if record.offset >= at[record.partition] and not is_marker(record)
    ]


def test_the_keys_of_people_who_were_erased_stay_erased(kafka: Broker, tmp_path: Path) -> None:
    with cut_of(kafka, tmp_path) as it:
        cycle = it.cycle
        at_cut = cycle.sent()
        wait_until(
            "more outputs", lambda: cycle.sent() > at_cut + SINCE, timeout_s=END_S, system=cycle.system
        )
        cycle.kill()
        it.assemble()
        erased = next(key for key in sorted(it.table("sums")) if key != "k0")
        done = restored(it.connection, it.namespace, "cut", suppress=Suppression(keys=(erased,)), wait_s=90)
        outputs = [item for item in done.irrevocable if item.topic == f"{cycle.prefix}out"]
        before = outputs_kept(cycle.records()["out"], outputs)
        assert outputs
        theirs = {item["id"] for key, item in cycle.items if key == erased}
        assert theirs - before.keys(), "all of theirs had come out at the cut: the test shows nothing"

        def without(name: str, table: dict[str, object]) -> dict[str, object]:
            return {key: value for key, value in table.items() if key.split(" from ")[0] != erased}

        expected = {name: without(name, table) for name, table in cycle.expected().items()}

        def tables() -> dict[str, dict[str, object]]:
            return {
                name: {key: value for key, value in table.items() if value != set()}
                for name, table in cycle.tables().items()
            }

        cycle.start()
        wait_until(
            "the end result",
            lambda: tables() == expected,
            timeout_s=END_S,
            period_s=2.0,
            system=cycle.system,
        )
        wanted = Counter(id for id in range(ITEMS) if id not in theirs or id in before)
        wait_until(
            "all outputs but theirs to have come out once",
            lambda: outputs_kept(cycle.records()["out"], outputs) == wanted,
            timeout_s=60,
            period_s=1.0,
        )
        cycle.system.stop()
        assert tables() == expected, "nothing came after the end"
        assert outputs_kept(cycle.records()["out"], outputs) == wanted
