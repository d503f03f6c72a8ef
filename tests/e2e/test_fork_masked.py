"""A fork with masks and without erased people: row by row what production had, and nothing of who was erased."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.demo import Observer, System, observing, wait_until
from snapkafka.kafka import Connection
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.features.harness import Record, read_topics

from .cycles import folded

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

#: Names that occur nowhere by chance. Ann is erased; nobody's mail leaves production.
ANN, BOB, CYD, DAN = PEOPLE = ("ann4711", "bob4712", "cyd4713", "dan4714")
CITIES: Final = ("rome", "oslo")
#: Orders before the snapshot, and since.
BEFORE: Final = 24
SINCE: Final = 8
WINDOW_S: Final = 60
WITHIN_S: Final = 120.0

MASKS: Final = """
[[mask]]
table = "people"
fields = {{ mail = "'***'" }}
[[mask]]
topic = "{name}-parcels"
fields = {{ mail = "md5(key)" }}
headers = "keep"
[[mask]]
topic = "{name}-orders"
fields = {{ mail = "'***'" }}
headers = "drop"
"""
ERASED: Final = f"""
keys = ["{ANN}"]
sql = ["coalesce(value->>'$.friend' = '{ANN}', false)"]
"""

Order = dict[str, Any]


def orders(count: int, first: int = 0) -> list[tuple[str, Order]]:
    """Orders of everybody in turn, from the second on; each has a friend, who may be Ann."""
    found = []
    for number in range(first, first + count):
        name, friend = PEOPLE[(number + 1) % 4], PEOPLE[number // 4 % 4]
        found.append(
            (
                name,
                {
                    "id": number,
                    "n": number % 5 + 1,
                    "mail": f"{name}@home",
                    "friend": friend,
                    "city": CITIES[number % 2],
                },
            )
        )
    return found


def send(bootstrap: str, topic: str, rows: Iterable[tuple[str, Order]], at_ms: int) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for name, order in rows:
        headers = [("mail", order["mail"].encode()), ("trace", b"%d" % order["id"])]
        producer.produce(
            topic, json.dumps(order), name, timestamp=at_ms, headers=headers,
            on_delivery=lambda error, _: failures.append(error),
        )  # fmt: skip
    assert producer.flush(30) == 0
    assert {*failures} == {None}


def erased(name: str, order: Mapping[str, Any]) -> bool:
    return name == ANN or order["friend"] == ANN


def expected(at_ms: int, taken: Sequence[tuple[str, Order]], shipped: Mapping[str, int]) -> dict[str, object]:
    """The tables of the fork when these orders are taken, and so many parcels are shipped to each.

    The row of a person in `people` is of their last order; where that names Ann it is left out at the snapshot.
    """
    start = float(at_ms // 1000 // WINDOW_S * WINDOW_S)
    counts: Counter[str] = Counter()
    people: dict[str, object] = {}
    cities: defaultdict[str, set[str]] = defaultdict(set)
    for name, order in taken:
        if name == ANN:
            continue
        counts[name] += order["n"]
        people[name] = None if erased(name, order) else {"mail": "***", "friend": order["friend"]}
        cities[order["city"]].add(name)
    return {
        "counts": dict(counts),
        "windows": {f"{name} from {start}": n for name, n in counts.items()},
        "people": {name: row for name, row in people.items() if row is not None},
        "cities": dict(cities),
        "shipped": dict(shipped),
    }


def tables(topics: Mapping[str, Sequence[Record]], name: str) -> dict[str, object]:
    names = ("counts", "windows", "people", "cities", "shipped")
    return {table: folded(topics.get(f"{name}-{table}-changelog", ())) for table in names}


def bytes_of(record: Record) -> bytes:
    return b"\0".join([record.key or b"", record.value or b"", *(part for _, part in record.headers)])


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def nothing_of_ann(bootstrap: str, fork: str) -> None:
    """No topic of the fork, its ledger among them, has a record with her name or anybody's mail."""
    for prefix in (f"fork.{fork}.", f"_snapkafka.fork.{fork}."):
        for topic, records in read_topics(bootstrap, prefix).items():
            for record in records:
                assert ANN.encode() not in bytes_of(record), (topic, record)
                assert b"@home" not in bytes_of(record), (topic, record)


def test_a_fork_with_masks_holds_nothing_of_who_was_erased(kafka: Broker, tmp_path: Path) -> None:
    name, namespace = f"m{uuid.uuid4().hex[:6]}", f"e{uuid.uuid4().hex[:8]}"
    connection, hold = Connection(bootstrap=kafka.bootstrap), tmp_path / "hold"
    storage = tmp_path / "storage"
    storage.mkdir()
    create_topics(kafka.bootstrap, f"{name}-orders", f"{name}-parcels")
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    env = {"PEOPLE_APP": name}
    at_ms = int(time.time() * 1000)
    before, since = orders(BEFORE), orders(SINCE, BEFORE)
    with observing(kafka.bootstrap, namespace) as observer:
        try:
            hold.touch()
            system.start_worker("people", env | {"PEOPLE_HOLD": str(hold)}, module="tests.e2e.people_app")
            observer.wait_for_workers(system)
            send(kafka.bootstrap, f"{name}-orders", before, at_ms)
            take_snapshot(observer, connection, system, storage, name, hold)
            send(kafka.bootstrap, f"{name}-orders", since, at_ms)
            (assembled,) = asyncio.run(
                ops.assemble(connection, ops.JobSpec(namespace=namespace, snapshots=("cut",)))
            )
            assert assembled.verdict == "VERIFIED", assembled.checks
            assert assembled.tables["messages"] == BEFORE - 1, "the first parcel was being shipped"

            create_fork(kafka, namespace, name, tmp_path)
            topics = read_topics(kafka.bootstrap, f"fork.{name}.")
            assert tables(topics, name) == expected(at_ms, before, {before[0][0]: 1})
            assert [flown(record) for record in topics[f"{name}-parcels"]] == [
                (
                    {"name": of, "id": order["id"]},
                    order | {"mail": md5(f'{{"name":"{of}","id":{order["id"]}}}')},
                    (("mail", order["mail"].encode()), ("trace", b"%d" % order["id"])),
                )
                for of, order in before[1:]
                if not erased(of, order)
            ]
            assert [
                (record.key, json.loads(record.value or b""), record.headers)
                for record in topics[f"{name}-orders"]
            ] == [(of.encode(), order | {"mail": "***"}, ()) for of, order in since if not erased(of, order)]
            nothing_of_ann(kafka.bootstrap, name)
            runs_to_its_end(kafka, system, env, name, at_ms, before, since)
        except BaseException:
            for worker in system.workers:
                print(f"--- {worker.name}\n{worker.last_lines(30)}")
            raise
        finally:
            system.stop()


def take_snapshot(
    observer: Observer, connection: Connection, system: System, storage: Path, name: str, hold: Path
) -> None:
    """A snapshot while the first parcel is being shipped; all others wait."""
    parcels = TopicPartition(f"{name}-parcels", 0)
    wait_until(
        "all orders to be taken",
        lambda: observer.call(observer.admin.log_ends([parcels]))[parcels] >= BEFORE,
        timeout_s=WITHIN_S,
        system=system,
    )
    trigger = ops.trigger(
        connection, observer.namespace, snapshot_id="cut", storage=str(storage), ttl_ms=30_000
    )
    epoch = asyncio.run(trigger).epoch

    def cut() -> bool:
        view = observer.state.snapshots.get(epoch)
        return view is not None and (not view.open or bool(view.reports))

    wait_until("the worker to cut", cut, timeout_s=WITHIN_S, system=system)
    hold.unlink()
    view = observer.state.snapshots[epoch]
    wait_until("the snapshot", lambda: not view.open, timeout_s=WITHIN_S, system=system)
    assert view.failure is None, view.failure


def create_fork(kafka: Broker, namespace: str, name: str, folder: Path) -> None:
    """By the command, which prints what each rule has matched."""
    masks, suppress = folder / "masks.toml", folder / "erased.toml"
    masks.write_text(MASKS.format(name=name))
    suppress.write_text(ERASED)
    arguments = [
        "fork",
        "create",
        name,
        "--from",
        "cut",
        "--with-inputs",
        "--yes",
        "--json",
        "--mask",
        str(masks),
    ]
    arguments += ["--suppress", str(suppress), "--bootstrap", kafka.bootstrap, "--namespace", namespace]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    done = json.loads(result.stdout)["done"]
    assert done["suppressed"] > 0
    assert done["masked"] > 0


def flown(record: Record) -> tuple[object, object, object]:
    return json.loads(record.key or b""), json.loads(record.value or b""), tuple(sorted(record.headers))


def runs_to_its_end(
    kafka: Broker,
    system: System,
    env: Mapping[str, str],
    name: str,
    at_ms: int,
    before: Sequence[tuple[str, Order]],
    since: Sequence[tuple[str, Order]],
) -> None:
    """Its worker takes the orders and ships the parcels of the others, with masked mails; nothing of Ann comes back."""
    kept = [(of, order | {"mail": "***"}) for of, order in since if not erased(of, order)]
    system.start_worker("fork", {**env, "SNAPKAFKA_FORK": name}, module="tests.e2e.people_app")
    parcels = [before[0], *(it for it in before[1:] if not erased(*it)), *kept]
    at_end = expected(at_ms, [*before, *kept], Counter(of for of, _ in parcels))
    wait_until(
        "the fork to be through",
        lambda: tables(read_topics(kafka.bootstrap, f"fork.{name}."), name) == at_end,
        timeout_s=WITHIN_S,
        period_s=2.0,
        system=system,
    )
    nothing_of_ann(kafka.bootstrap, name)
