"""`diff`: what changed from one assembled snapshot to another; `trace`: causes followed from header to header."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import BadInputError, StorageError, UnknownSnapshotError
from snapkafka.ops.diffing import TableChange
from snapkafka.ports import Topic
from snapkafka.protocol import TopicPartition
from snapkafka.wire import headers
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import Row, in_channel, in_state, read_up_to, write_snapshot
from tests.worlds.stores import LocalStore

BYTES = {"app": "bank", "table_name": "odd", "partition": 0, "key_raw": b"\xff", "value_raw": b"\x00"}


def in_window(raw: str, start: float) -> Row:
    row = in_state("same", "1", app="shop", table="visits")
    bounds = (datetime(2026, 1, 1) + timedelta(seconds=at) for at in (start, start + 59.9))
    return {**row, "key_raw": raw.encode(), **dict(zip(("window_start", "window_end"), bounds, strict=True))}


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> str:
    store = LocalStore(tmp_path_factory.mktemp("snapshots"))
    write_snapshot(
        store,
        "monday",
        10,
        state=[
            *(in_state(*of) for of in (("same", "1"), ("changed", "2"), ("gone", "3"), ("moved", "4"))),
            in_state("only", "5", table="dropped"),
            BYTES,
        ],
        channels=[in_channel(*of) for of in (("credits", 2, 20), ("credits", 1, 7), ("old", 1, 1))],
        cuts=[
            read_up_to(*of)
            for of in (("orders", 0, 100), ("orders", 1, 50), ("gone", 0, 5), ("anew", 0, 900))
        ],
    )
    write_snapshot(
        store,
        "tuesday",
        20,
        state=[
            *(in_state(*of) for of in (("same", "1"), ("changed", "two"), ("new", "3"))),
            in_state("moved", "4", partition=1),
            in_state("same", "1", app="shop"),
            *(in_window("w1", 60.0), in_window("w2", 120.0), BYTES | {"value_raw": b"\x01"}),
        ],
        channels=[in_channel("credits", 4, 44, sender=9), in_channel("late", 0, 0)],
        cuts=[
            *(read_up_to(*of) for of in (("orders", 0, 130), ("orders", 1, 50), ("late", 0, 8))),
            read_up_to("anew", 0, 3, topic_id="cd"),
        ],
    )
    return str(store.root)


async def test_keys_messages_in_flight_and_progress_are_compared(storage: str) -> None:
    """Messages per app and topic, whoever the processes are by now; progress of each app in each input."""
    found = await ops.diff(None, "", "monday", "latest", storage=storage)
    assert (found.before.id, found.before.epoch, found.after.id, found.after.epoch) == (
        "monday", 10, "tuesday", 20,
    )  # fmt: skip
    counts = [(it.app, it.table, it.added, it.changed, it.removed, it.unchanged) for it in found.tables]
    assert counts == [
        ("bank", "balances", 2, 1, 2, 1),
        ("bank", "dropped", 0, 0, 1, 0),
        ("bank", "odd", 0, 1, 0, 0),
        ("shop", "balances", 1, 0, 0, 0),
        ("shop", "visits", 2, 0, 0, 0),
    ]
    assert found.keys == ()
    assert [
        (c.topic, c.messages_before, c.messages_after, c.bytes_before, c.bytes_after) for c in found.channels
    ] == [("credits", 3, 4, 27, 44), ("late", 0, 0, 0, 0), ("old", 1, 0, 1, 0)]
    assert (found.channels[0].sender_app, found.channels[0].receiver_app) == ("bank", "audit")
    assert [(p.topic, p.partition, p.before, p.after, p.processed) for p in found.progress] == [
        ("anew", 0, 900, 3, None),  # another topic of the same name
        ("gone", 0, 5, None, None),
        ("late", 0, None, 8, None),
        ("orders", 0, 100, 130, 30),
        ("orders", 1, 50, 50, 0),
    ]
    back = await ops.diff(None, "", "tuesday", "monday", storage=storage)
    assert ("orders", 0, -30) in {(it.topic, it.partition, it.processed) for it in back.progress}
    assert (back.tables[0].added, back.tables[0].removed) == (2, 2)


@pytest.mark.parametrize("bounds", [None, ops.Bounds(seconds=60, memory_mb=200)])
async def test_keys_are_named_up_to_a_number_with_their_values(
    storage: str, bounds: ops.Bounds | None
) -> None:
    """Distinguished by their bytes; those that are no text as hex digits. In the bounded process too."""
    asked: dict[str, Any] = {"storage": storage, "values": True, "bounds": bounds}
    found = await ops.diff(None, "", "10", "20", keys=1, **asked)
    reported = [
        (it.app, it.table, it.change, it.key, it.key_raw, it.value_before, it.value_after)
        for it in found.keys
    ]
    assert reported == [
        ("bank", "balances", "added", "new", b"new".hex(), None, "3"),
        ("bank", "balances", "changed", "changed", b"changed".hex(), "2", "two"),
        ("bank", "balances", "removed", "gone", b"gone".hex(), "3", None),
        ("bank", "dropped", "removed", "only", b"only".hex(), "5", None),
        ("bank", "odd", "changed", None, "ff", "0x00", "0x01"),
        ("shop", "balances", "added", "same", b"same".hex(), None, "1"),
        ("shop", "visits", "added", "same", b"w1".hex(), None, "1"),
    ]
    found = await ops.diff(None, "", "monday", "tuesday", keys=100, **asked)
    assert len(found.keys) == 10
    moved = {(key.change, key.partition, key.window_start) for key in found.keys if key.key == "moved"}
    assert moved == {("removed", 0, None), ("added", 1, None)}, "in another partition it is another key"
    windows = [(key.key, key.window_start, key.window_end) for key in found.keys[-2:]]
    assert windows == [
        ("same", "2026-01-01T00:01:00+00:00", "2026-01-01T00:01:59.900000+00:00"),
        ("same", "2026-01-01T00:02:00+00:00", "2026-01-01T00:02:59.900000+00:00"),
    ], "a window of a key is a key of its own"
    with pytest.raises(BadInputError):
        await ops.diff(None, "", "monday", "tuesday", **asked)


async def test_a_key_of_several_rows_is_as_before_if_they_are(tmp_path: Path) -> None:
    """As a table of sets has them, where its operations could not be read: none of them alone is what the key had."""
    store, where = LocalStore(tmp_path), dict[str, Any](storage=str(tmp_path))
    for number, values in enumerate(("ab", "ba", "b", "abc", "cbb")):
        write_snapshot(store, str(number), number, state=[in_state("set", value) for value in values])
    for before, after, changed in (("0", "1", 0), ("1", "2", 1), ("2", "3", 1)):
        (table,) = (await ops.diff(None, "", before, after, **where)).tables
        assert (table.changed, table.unchanged) == (changed, 1 - changed)
    (key,) = (await ops.diff(None, "", "1", "4", keys=1, values=True, **where)).keys
    assert (key.value_before, key.value_after) == ("a\nb", "b\nb\nc")


async def test_what_cannot_be_compared_is_said(storage: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownSnapshotError):
        await ops.diff(None, "", "monday", "none", storage=storage)
    store = LocalStore(tmp_path)
    write_snapshot(store, "one", 1)
    write_snapshot(store, "two", 2)
    assert (await ops.diff(None, "", "one", "two", storage=str(tmp_path))).tables == ()
    (tmp_path / "two" / "state" / "part-00000.parquet").unlink()
    with pytest.raises(StorageError):
        await ops.diff(None, "", "one", "two", storage=str(tmp_path))


async def test_a_fork_is_compared_by_its_names_in_production(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    write_snapshot(store, "of-it", 1, state=[in_state("a", "1"), in_state("b", "1")])
    forked = [in_state(key, "1", app="fork.f.bank") for key in "ac"]
    write_snapshot(store, "its", 2, state=forked, channels=[in_channel("fork.f.credits", 1, 7)])
    places = [store.manifest_place(name) for name in ("of-it", "its")]
    found = await ops.diff(None, "", fork="f", manifests=places)
    assert found.tables == (
        TableChange(app="bank", table="balances", added=1, changed=0, removed=1, unchanged=1),
    )
    assert [(it.topic, it.messages_after) for it in found.channels] == [("credits", 1)]
    assert found.progress == ()


LEDGER = headers.ledger_id(bytes(16))
RAW, ORDERS, BILLS = (TopicPartition(name, 0) for name in ("raw", "orders", "bills"))


Place = tuple[TopicPartition, int]


def put(cluster: FakeCluster, tp: TopicPartition, offset: int, worker: Worker, cause: Place | None) -> None:
    """A record of a worker."""
    check = headers.tp_check(*tp)
    if cause is None:
        stamp = headers.stamp(LEDGER, check, 0, worker.process, offset)
    else:
        place = headers.topic_check(cause[0].topic), cause[0].partition, cause[1]
        stamp = headers.stamp_with_cause(LEDGER, check, 0, worker.process, offset, *place)
    cluster.the_admin.headers_at[tp, offset] = [(headers.HEADER, stamp)]


@pytest.fixture
def cluster() -> FakeCluster:
    """raw 7 (external) -> orders 3 -> bills 5."""
    found = FakeCluster()
    shop, bank = Worker(found.the_ledger, "shop", "raw"), Worker(found.the_ledger, "bank", "orders")
    admin = found.the_admin
    admin.topics = {tp.topic: Topic(1) for tp in (RAW, ORDERS, BILLS)}
    admin.topics[found.the_ledger.topic] = Topic(1)
    admin.ends = dict.fromkeys((RAW, ORDERS, BILLS), 10)
    admin.headers_at[RAW, 7] = []
    put(found, ORDERS, 3, shop, (RAW, 7))
    put(found, BILLS, 5, bank, (ORDERS, 3))
    return found


async def test_causes_are_followed_to_an_external_record(cluster: FakeCluster) -> None:
    found = await ops.trace(cluster, "ns", "bills", 0, 5)
    steps = [(step.topic, step.offset, step.app) for step in found.steps]
    assert steps == [("bills", 5, "bank"), ("orders", 3, "shop"), ("raw", 7, "")]
    assert found.end == "the last record is external: no service with snapkafka sent it"
    for topic, partition, offset in (("no-such", 0, 1), ("bills", 1, 1), ("bills", -1, 1), ("bills", 0, -1)):
        with pytest.raises(BadInputError):
            await ops.trace(cluster, "ns", topic, partition, offset)


#: A record of `bills` and its cause (None: it has none), and why nothing follows; 5 is that of the cluster.
ENDS: list[tuple[int, Place | None, str]] = [
    (5, None, "the record of its cause cannot be read: offset 7 of raw[0] was deleted: the log begins at 8"),
    (3, (TopicPartition("named by nobody", 0), 1), "the topic of its cause is unknown"),
    (12, None, "bills[0] ends at 10: there is no offset 12"),
    (6, None, "there is no record at offset 6 of bills[0]"),
    (1, None, "the last record was sent outside any event"),
    (2, (BILLS, 2), "more than "),
]


@pytest.mark.parametrize(("offset", "cause", "end"), ENDS)
async def test_it_reports_why_it_ends(
    cluster: FakeCluster, offset: int, cause: Place | None, end: str
) -> None:
    cluster.the_admin.starts[RAW] = 8
    if offset in (1, 2, 3):
        put(cluster, BILLS, offset, Worker(cluster.the_ledger, "relay", "x"), cause)
    assert (await ops.trace(cluster, "ns", "bills", 0, offset)).end.startswith(end)
