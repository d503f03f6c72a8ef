"""Two services in a cycle (`cycling`) as a test runs them: what is fed, what must come of it, and what did."""

import asyncio
import json
import random
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from snapkafka import ops
from snapkafka.errors import TimedOutError
from snapkafka.kafka import Connection
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, RunningSystem, create_topics, wait_until
from tests.features.harness import Record, folded, is_marker, produce, read_topics
from tests.observing import Observer, observing

from .cycling_names import PARTITIONS, TABLES, TOPICS, WINDOW_S

ITEMS: Final = 600
KEYS: Final = 20
#: So many have come out when the snapshot is taken.
AT_CUT: Final = 80
#: On a machine with nothing else to do it takes a tenth of that.
END_S: Final = 240.0
#: Of records of the input, from one to the next.
STEP_MS: Final = 150


class Cycle:
    """The two services of `cycling`, and what must come of their input."""

    def __init__(
        self, bootstrap: str, folder: Path, observer: Observer, seed: int, *, items: int = ITEMS
    ) -> None:
        self.prefix = f"c{uuid.uuid4().hex[:6]}-"
        self.observer = observer
        self.system = RunningSystem(bootstrap=bootstrap, namespace=observer.namespace, folder=folder)
        rng = random.Random(seed)
        self.items = [(f"k{rng.randrange(KEYS)}", {"id": n, "n": rng.randint(1, 9)}) for n in range(items)]
        self.began_ms = int(time.time() * 1000) - items * STEP_MS
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

    def feed(self, start: int = 0, end: int | None = None) -> None:
        rows = [
            (key, json.dumps(item).encode(), self._timestamp(item["id"]))
            for key, item in self.items[start:end]
        ]
        produce(self.system.bootstrap, f"{self.prefix}work", rows)

    def _timestamp(self, item: int) -> int:
        return self.began_ms + item * STEP_MS

    def kill(self) -> None:
        """`kill -9`, all of them."""
        for worker in list(self.system.workers):
            self.system.kill(worker)

    def records(self) -> dict[str, list[Record]]:
        return read_topics(self.system.bootstrap, self.prefix, "read_committed")

    def sent(self) -> int:
        return self.end_of("out")

    def end_of(self, topic: str) -> int:
        """Return how many records a topic has taken."""
        tps = [TopicPartition(f"{self.prefix}{topic}", n) for n in range(PARTITIONS)]
        return sum(self.observer.call(self.observer.admin.log_ends(tps)).values())

    def expected(self) -> dict[str, dict[str, object]]:
        """The tables at the end."""
        totals: Counter[str] = Counter()
        windows: Counter[str] = Counter()
        ids: defaultdict[str, set[int]] = defaultdict(set)
        for key, item in self.items:
            start = self._timestamp(item["id"]) / 1000 // WINDOW_S * WINDOW_S
            windows[f"{key} from {start}"] += item["n"]
            totals[key] += item["n"]
            ids[key].add(item["id"])
        found: dict[str, dict[str, object]] = {name: dict(totals) for name in ("counts", "back", "sums")}
        return found | {"seen": dict(ids), "windows": dict(windows)}

    def tables(self) -> dict[str, dict[str, object]]:
        """The tables as Faust recovers them from their whole changelogs."""
        records = self.records()
        return {table: folded(records.get(f"{app}-{table}-changelog", ())) for app, table in TABLES}

    def await_tables(self) -> None:
        """Wait until the tables are what the whole input comes to."""
        wait_until(
            "the end result",
            lambda: self.tables() == self.expected(),
            timeout_s=END_S,
            period_s=2.0,
            system=self.system,
        )

    def finish(
        self, taken_back: Sequence[ops.Irrevocable] = (), before: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        """Wait until each output has come out once, `before` or now, but for these ranges, and stop: nothing comes
        after the end."""

        def not_once() -> dict[int, int]:
            came = Counter(before) + outputs_kept(self.records()["out"], taken_back)
            return {item: came[item] for item in {*came, *range(len(self.items))} if came[item] != 1}

        self.await_tables()
        with suppress(TimedOutError):
            wait_until("all outputs to come out once", lambda: not not_once(), timeout_s=60, period_s=1.0)
        self.system.stop()
        assert self.tables() == self.expected()
        assert not_once() == {}


def take(connection: Connection, namespace: str, name: str, storage: Path | str) -> None:
    """Take a snapshot."""
    options = {"snapshot_id": name, "storage": str(storage), "ttl_ms": 30_000}
    asyncio.run(ops.trigger(connection, namespace, wait=True, **options))  # type: ignore[arg-type]


def assembled(
    connection: Connection, namespace: str, name: str, *, with_inputs: bool = False
) -> ops.JobResult:
    """Assemble and verify it."""
    spec = ops.JobSpec(namespace=namespace, snapshots=(name,), with_inputs=with_inputs)
    (found,) = asyncio.run(ops.assemble(connection, spec))
    assert found.verdict == "VERIFIED", f"{name}: {found.verdict}: {found.checks}"
    return found


@contextmanager
def cycle_at_cut(
    kafka: Broker,
    folder: Path,
    seed: int,
    *,
    env: Mapping[str, str] = MappingProxyType({}),
    data: Path | None = None,
    ready: Callable[[Cycle], bool] = lambda cycle: cycle.sent() > AT_CUT,
) -> Iterator[tuple[Cycle, Connection, Path]]:
    """Run a system that has taken the snapshot `cut` of half of its input, once it is `ready`; provide also its
    storage."""
    connection, storage = Connection(bootstrap=kafka.bootstrap), folder / "storage"
    storage.mkdir()
    with observing(kafka.bootstrap, f"e{uuid.uuid4().hex[:8]}") as observer:
        cycle = Cycle(kafka.bootstrap, folder, observer, seed)
        try:
            cycle.start({"CYCLE_SUM_S": "0.03", **env}, data=data)  # messages pile up before it
            observer.wait_for_workers(cycle.system)
            cycle.feed(0, ITEMS // 2)
            wait_until("it to be ready", lambda: ready(cycle), timeout_s=END_S, system=cycle.system)
            take(connection, observer.namespace, "cut", storage)
            yield cycle, connection, storage
        except BaseException:
            for worker in cycle.system.workers:
                print(f"--- {worker.name}\n{worker.last_lines(30)}")
            raise
        finally:
            cycle.system.stop()


def assembled_cut(connection: Connection, namespace: str, *, with_inputs: bool = False) -> ops.JobResult:
    """Assemble and verify the snapshot `cut`, with messages in flight."""
    found = assembled(connection, namespace, "cut", with_inputs=with_inputs)
    assert found.tables["messages"] > 0, "nothing was in flight: the test shows nothing"
    return found


def outputs_kept(records: Iterable[Record], taken_back: Sequence[ops.Irrevocable] = ()) -> Counter[int]:
    """Count the ids that came out, but for these ranges: outputs between a cut and the restore of it, which cannot be
    undone. Several restores may have one range each of a partition."""
    found: Counter[int] = Counter()
    for record in records:
        back = any(
            it.partition == record.partition and it.start <= record.offset < it.end for it in taken_back
        )
        if not is_marker(record) and not back and record.value is not None:
            found[json.loads(record.value)["id"]] += 1
    return found
