"""A system that is killed, restored from a snapshot and run to the end of its input ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.demo.observer import Observer, observing
from snapkafka.demo.system import System, wait_until
from snapkafka.kafka.connection import Connection
from snapkafka.protocol.records import TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.features.harness import Record, is_marker, produce, read_topics

from .cycling_names import PARTITIONS, TABLES, TOPICS

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

ITEMS = 600
KEYS = 20
#: So many have come out when the snapshot is taken, and when all workers are killed.
AT_CUT, AT_KILL = 80, 200
#: On a machine with nothing else to do it takes a tenth of that.
END_S = 240.0


class Cycle:
    """The two services of `cycling`, and what must come of their input."""

    def __init__(self, bootstrap: str, folder: Path, observer: Observer, seed: int) -> None:
        self.prefix = f"c{uuid.uuid4().hex[:6]}-"
        self.observer = observer
        self.system = System(bootstrap=bootstrap, namespace=observer.namespace, folder=folder)
        rng = random.Random(seed)
        self.items = [(f"k{rng.randrange(KEYS)}", {"id": n, "n": rng.randint(1, 9)}) for n in range(ITEMS)]
        create_topics(bootstrap, *(f"{self.prefix}{name}" for name in TOPICS), partitions=PARTITIONS)

    def start(self, env: Mapping[str, str] | None = None, *, data: Path | None = None) -> None:
        """Start both.

        Args:
            env: more of their environment.
            data: their tables lie in it, by role; None: each start has another folder.
        """
        for role in ("left", "right"):
            more = {"CYCLE_ROLE": role, "CYCLE_PREFIX": self.prefix, **(env or {})}
            if data is not None:
                more["SNAPKAFKA_DEMO_DATA"] = str(data / role)
            self.system.start_worker(role, more, module="tests.e2e.cycling")

    def feed(self, start: int = 0, end: int = ITEMS) -> None:
        rows = [(key, json.dumps(item).encode(), None) for key, item in self.items[start:end]]
        produce(self.system.bootstrap, f"{self.prefix}work", rows)

    def kill(self) -> None:
        """`kill -9`, all of them."""
        for worker in list(self.system.workers):
            self.system.kill(worker)

    def records(self) -> dict[str, list[Record]]:
        return read_topics(self.system.bootstrap, self.prefix)

    def sent(self) -> int:
        tps = [TopicPartition(f"{self.prefix}out", n) for n in range(PARTITIONS)]
        return sum(self.observer.call(self.observer.admin.log_ends(tps)).values())

    def expected(self) -> dict[str, dict[str, object]]:
        """The tables at the end."""
        totals: Counter[str] = Counter()
        ids: defaultdict[str, set[int]] = defaultdict(set)
        for key, item in self.items:
            totals[key] += item["n"]
            ids[key].add(item["id"])
        return {"counts": dict(totals), "back": dict(totals), "sums": dict(totals), "seen": dict(ids)}

    def tables(self) -> dict[str, dict[str, object]]:
        """The tables as Faust recovers them from their whole changelogs."""
        records = self.records()
        return {table: _folded(records.get(f"{app}-{table}-changelog", ())) for app, table in TABLES}


def _folded(records: Sequence[Record]) -> dict[str, object]:
    found: dict[str, object] = {}
    for record in sorted(records, key=lambda it: (it.partition, it.offset)):
        if is_marker(record) or record.key is None:
            continue
        key, value = json.loads(record.key), json.loads(record.value or b"null")
        if isinstance(key, list):
            members = found.setdefault(key[1], set())
            assert isinstance(members, set)
            added, lost = {1: ([value], []), 2: ([], [value])}.get(key[0]) or value
            members |= set(added)
            members -= set(lost)
        elif value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


@pytest.mark.parametrize("seed", [1985])
def test_a_killed_system_is_restored_and_ends_as_if_undisturbed(
    kafka: Broker, tmp_path: Path, seed: int
) -> None:
    connection, namespace = Connection(bootstrap=kafka.bootstrap), f"e{uuid.uuid4().hex[:8]}"
    storage = tmp_path / "storage"
    storage.mkdir()
    with observing(kafka.bootstrap, namespace) as observer:
        cycle = Cycle(kafka.bootstrap, tmp_path, observer, seed)
        try:
            cycle.start()
            observer.wait_for_workers(cycle.system)
            cycle.feed()
            wait_until(
                "the first outputs", lambda: cycle.sent() > AT_CUT, timeout_s=END_S, system=cycle.system
            )
            asyncio.run(
                ops.trigger(
                    connection, namespace, snapshot_id="cut", storage=str(storage), ttl_ms=30_000, wait=True
                )
            )
            wait_until("more outputs", lambda: cycle.sent() > AT_KILL, timeout_s=END_S, system=cycle.system)
            cycle.kill()
            (assembled,) = asyncio.run(ops.assemble(connection, namespace, ["cut"]))
            assert assembled.verdict == "VERIFIED", assembled.checks
            assert assembled.tables["messages"] > 0, "nothing was in flight: the test shows nothing"
            done = asyncio.run(ops.restore(connection, namespace, "cut", wait_s=90))
            assert done.messages > 0
            assert done.state > 0
            outputs = [item for item in done.irrevocable if item.topic == f"{cycle.prefix}out"]
            assert outputs, "nothing came out between the cut and the kill: the test shows nothing"

            cycle.start()
            wait_until(
                "the end result",
                lambda: cycle.tables() == cycle.expected(),
                timeout_s=END_S,
                period_s=2.0,
                system=cycle.system,
            )
            wait_until(
                "all outputs to have come out once",
                lambda: _outputs(cycle, outputs) == Counter(range(ITEMS)),
                timeout_s=60,
                period_s=1.0,
            )
            cycle.system.stop()
            assert cycle.tables() == cycle.expected(), "nothing came after the end"
            assert _outputs(cycle, outputs) == Counter(range(ITEMS))
        except BaseException:
            for worker in cycle.system.workers:
                print(f"--- {worker.name}\n{worker.last_lines(30)}")
            raise
        finally:
            cycle.system.stop()


def _outputs(cycle: Cycle, taken_back: list[ops.Irrevocable]) -> Counter[int]:
    """The ids that came out before the cut or after the restore: those in between are what a restore cannot undo."""
    ranges = {item.partition: (item.start, item.end) for item in taken_back}
    found: Counter[int] = Counter()
    for record in cycle.records().get("out", ()):
        start, end = ranges.get(record.partition, (0, 0))
        if not is_marker(record) and not start <= record.offset < end and record.value is not None:
            found[json.loads(record.value)["id"]] += 1
    return found
