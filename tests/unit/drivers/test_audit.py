"""The parts of an audit in a worker: the fork, the scan, and the rows that both make."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faust
import msgspec
import pytest

from snapkafka.drivers.faust.audit import forked
from snapkafka.drivers.faust.audit.image import TableImage
from snapkafka.drivers.faust.audit.scan import READ_WHOLE, Scan
from snapkafka.wire.audit import digest


@pytest.fixture
def app() -> faust.App:
    made = faust.App("audited", store="memory://", web_enabled=False)
    made.finalize()
    return made


def image(table: Any, *partitions: int) -> TableImage:
    table.reads, table.in_place = None, True
    return TableImage(table, partitions or (0,), {})


def rows_in(pieces: list[bytes]) -> dict[tuple[int, bytes], bytes]:
    """Table and key -> the digest of the value."""
    found = [row for piece in pieces if piece for row in msgspec.msgpack.decode(zlib.decompress(piece))]
    assert len({(table, key) for table, key, *_ in found}) == len(found), "each key once"
    return {(table, key): value for table, key, value, _ in found}


async def drained(source: forked.Child | Scan) -> list[bytes]:
    pieces = [piece async for piece in source.pieces()]
    if isinstance(source, forked.Child):
        await source.end()
    return pieces


def test_a_child_has_the_tables_as_they_were_at_the_fork(app: faust.App) -> None:
    table = app.Table("t", default=list)
    table.data.data.update({f"k{n}": [n] for n in range(5_000)})

    async def work() -> list[bytes]:
        child = forked.fork([image(table)], 30.0)
        table.data.data["k7"].append("later")
        del table.data.data["k8"]
        return await drained(child)

    rows = rows_in(asyncio.run(work()))
    assert len(rows) == 5_000
    assert rows[0, b'"k7"'] == digest(b"[7]")
    assert rows[0, b'"k8"'] == digest(b"[8]")


class Probing:
    """An image whose rows are made by a function, in the child."""

    reason = ""

    def __init__(self, rows: Any) -> None:
        self.rows = rows


def told_by_child(ask: Any) -> list[bytes]:
    """Call a function in a forked child, and return the items of its result as text."""

    def rows() -> Iterator[tuple[bytes, bytes]]:
        for number, item in enumerate(ask()):
            yield b"%d" % number, repr(item).encode()

    async def work() -> list[bytes]:
        return await drained(forked.fork([Probing(rows)], 30.0))  # type: ignore[list-item]

    pieces = asyncio.run(work())
    found = [row for piece in pieces if piece for row in msgspec.msgpack.decode(zlib.decompress(piece))]
    return [shown for *_, shown in sorted(found, key=lambda row: int(row[1]))]


def test_a_child_shares_neither_handlers_nor_descriptors_with_its_parent() -> None:
    left, right = socket.socketpair()
    before = signal.signal(signal.SIGTERM, lambda *_: None)

    def ask() -> list[object]:
        files = sorted(int(path.name) for path in Path("/proc/self/fd").iterdir())
        still = [number for number in files if number in (left.fileno(), right.fileno())]
        links = {str(Path(f"/proc/self/fd/{number}").readlink()) for number in range(3)}
        blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        return [still, links, signal.getsignal(signal.SIGTERM), blocked, signal.set_wakeup_fd(-1)]

    try:
        still, links, handler, blocked, wakeup = told_by_child(ask)
        left.sendall(b"still open")
        assert right.recv(100) == b"still open"
    finally:
        signal.signal(signal.SIGTERM, before)
        left.close()
        right.close()
    assert still == b"[]"
    assert links == b"{'/dev/null'}"
    assert b"SIG_DFL" in handler
    assert blocked == b"[]"
    assert wakeup == b"-1"
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()), "the parent's signals are as before"


def test_a_child_flushes_nothing_and_runs_no_exit_handler_of_its_parent(tmp_path: Path) -> None:
    """A buffer that both have is written once, by the parent."""
    kept = (tmp_path / "buffered").open("w")
    kept.write("once")
    told_by_child(lambda: [1])
    kept.close()
    assert (tmp_path / "buffered").read_text() == "once"


def test_a_child_that_is_killed_or_hangs_is_reported_and_leaves_nothing() -> None:
    def killed() -> Iterator[tuple[bytes, bytes]]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield b"", b""

    def hangs() -> Iterator[tuple[bytes, bytes]]:
        threading.Event().wait()
        yield b"", b""

    async def work(rows: Any, within_s: float) -> tuple[str, int]:
        child = forked.fork([Probing(rows)], within_s)  # type: ignore[list-item]
        with pytest.raises(ChildProcessError) as caught:
            await drained(child)
        return str(caught.value), child.pid

    for rows, number in ((killed, signal.SIGKILL), (hangs, signal.SIGALRM)):
        why, pid = asyncio.run(work(rows, 0.5))
        assert why == f"its child ended early, with status {-number}"
        assert not Path(f"/proc/{pid}").exists()


def test_a_child_waits_while_nobody_takes_its_rows() -> None:
    """A full pipe costs the parent nothing, and the child no memory."""
    noise = os.urandom(200)

    def rows() -> Iterator[tuple[bytes, bytes]]:
        for number in range(20_000):
            yield b"%d" % number, noise

    async def work() -> int:
        child = forked.fork([Probing(rows)], 30.0)  # type: ignore[list-item]
        pieces = child.pieces()
        first = await anext(pieces)
        await asyncio.sleep(0)
        count = len(rows_in([first]))
        async for piece in pieces:
            count += len(rows_in([piece]))
        await child.end()
        return count

    assert asyncio.run(work()) == 20_000


def test_a_table_that_cannot_be_encoded_is_named_and_the_others_are_audited(app: faust.App) -> None:
    good, bad = app.Table("good", default=int), app.Table("bad", default=int)
    good.data.data["a"], bad.data.data["a"] = 1, object()

    async def work(*, scanned: bool) -> tuple[list[bytes], dict[int, str]]:
        images = [image(bad), image(good)]
        source = Scan(images) if scanned else forked.fork(images, 30.0)
        return await drained(source), source.failed

    for scanned in (False, True):
        pieces, failed = asyncio.run(work(scanned=scanned))
        assert rows_in(pieces) == {(1, b'"a"'): digest(b"1")}
        assert list(failed) == [0]
        assert "cannot be encoded" in failed[0]


# -- when it forks ------------------------------------------------------------------------------------------------


def test_why_a_worker_does_not_fork(app: faust.App, monkeypatch: pytest.MonkeyPatch) -> None:
    table = image(app.Table("t", default=int))
    monkeypatch.setattr(forked, "threading", Threads())
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(range(5)))
    assert forked.why_not([table]) == "a library has started 3 threads, which may hold locks"
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(range(2)))
    assert forked.why_not([table]) == ""
    monkeypatch.setattr(forked, "threading", Threads("asyncio_0"))
    assert forked.why_not([table]) == ""
    monkeypatch.setattr(forked, "threading", Threads("ThreadPoolExecutor-0_0"))
    assert forked.why_not([table]) == "thread ThreadPoolExecutor-0_0 may hold a lock"
    stored = image(app.Table("r", default=int, store="rocksdb:r"))
    assert forked.why_not([stored]) == "table r is not in memory: threads of RocksDB hold locks"
    monkeypatch.setattr(forked, "sys", type("sys", (), {"platform": "darwin"}))
    assert forked.why_not([table]) == "a fork is safe on Linux only, this is darwin"


class Threads:
    """A main thread, and another one of this name."""

    def __init__(self, name: str = "MainThread") -> None:
        main = threading.main_thread()
        self._all = [main, type("Other", (), {"name": name})()]
        self.current_thread = lambda: main

    def enumerate(self) -> list[Any]:
        return self._all


def test_what_is_not_written_as_the_same_bytes_is_not_audited(app: faust.App) -> None:
    table = app.Table("p", default=int)
    table.value_serializer = "pickle"
    assert image(table).reason == "codec pickle may write one value as different bytes"


# -- the scan -------------------------------------------------------------------------------------------------------


def test_a_scan_has_the_tables_as_they_were_whatever_the_app_does_meanwhile(app: faust.App) -> None:
    """Copy-on-write by hand: what may change in place is encoded before it is handed out."""
    table = app.Table("t", default=list)
    objects = table.data.data
    objects.update({f"k{n}": [n] for n in range(2_000)})
    scan = Scan([image(table)])
    for key in ("k0", "k1999"):
        scan.before_use(table, key)
        objects[key].append("later")
    objects["k5"] = ["assigned"]
    del objects["k6"]
    objects["new"] = [1]
    rows = rows_in(asyncio.run(drained(scan)))
    assert len(rows) == 2_000
    assert {rows[0, b'"k%d"' % n] == digest(b"[%d]" % n) for n in range(2_000)} == {True}


def test_a_table_that_is_read_as_a_whole_is_given_up(app: faust.App) -> None:
    table, other = app.Table("t", default=list), app.Table("o", default=list)
    table.data.data["a"], other.data.data["a"] = [1], [2]
    scan = Scan([image(table), image(other)])
    scan.read_whole(table)
    assert rows_in(asyncio.run(drained(scan))) == {(1, b'"a"'): digest(b"[2]")}
    assert scan.failed == {0: READ_WHOLE}


def test_a_scan_leaves_the_loop_alone_most_of_the_time(app: faust.App) -> None:
    table = app.Table("t", default=int)
    table.data.data.update({f"k{n}": n for n in range(30_000)})

    async def work() -> tuple[int, int]:
        turns = 0
        scan = asyncio.ensure_future(drained(Scan([image(table)])))
        while not scan.done():
            turns += 1
            await asyncio.sleep(0.001)
        return turns, len(rows_in(await scan))

    turns, rows = asyncio.run(work())
    assert rows == 30_000
    assert turns > 20


def test_sets_count_by_their_members_and_an_empty_one_not_at_all(app: faust.App) -> None:
    table = app.SetTable("s")
    for key, members in (("a", {"y", "x"}), ("b", set())):
        table.data[key].data = members
    rows = rows_in(asyncio.run(drained(Scan([image(table)]))))
    assert rows == {(0, b'"a"'): digest(b'["x","y"]')}


def test_a_copy_of_a_standby_is_no_part_of_the_table(app: faust.App) -> None:
    table = app.Table("t", default=int)
    table.data.data.update({"a": 1, "b": 2, "c": 3})
    table.data._key_partition.update({"a": 0, "b": 1})
    assert list(image(table, 0).rows()) == [(b'"a"', b"1"), (b'"c"', b"3")]
