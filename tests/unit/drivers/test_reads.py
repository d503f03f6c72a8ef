"""Every way to read a table of Faust's, with the installed Faust: what a white event sees of red is noticed (R6)."""

from __future__ import annotations

import asyncio
import collections.abc
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import faust
import pytest
from faust.types.tuples import TP

from snapkafka.config import Config
from snapkafka.drivers import FaustDriver
from snapkafka.drivers.faust.inbound.running_events import StreamRecords
from snapkafka.protocol import Cause, Report, TopicPartition
from snapkafka.protocol.records import Abort
from tests.unit.drivers.listed import Listed

INPUT = TP("in", 0)
WINDOW = (0.0, 9.9)


class Order(faust.Record, serializer="json"):  # type: ignore[call-arg]
    """A value that changes in place."""

    n: int


class Driver(Listed, FaustDriver):
    """A driver that has joined."""

    def report(self, record: Report) -> None:
        self.write(record)


class Worker:
    """An app's tables and its driver, without a broker."""

    def __init__(self) -> None:
        app: Any = faust.App("looks", broker="kafka://127.0.0.1:1", store="memory://", web_enabled=False)
        self.numbers = app.Table("numbers", default=int)
        self.lists = app.Table("lists")
        self.orders = app.GlobalTable("orders", value_type=Order)
        self.sets = app.SetTable("sets")
        self.global_sets = app.SetGlobalTable("global_sets")
        self.windows = app.Table("windows", default=int).tumbling(10.0, key_index=True)
        self.expiring = app.Table("expiring", default=int).tumbling(10.0, expires=5.0)
        self.set_windows = app.SetTable("set_windows").tumbling(10.0)
        app.finalize()
        self.epoch, self.readings = 0, dict[int, StreamRecords]()
        self.driver = driver = Driver(app, Config(namespace="looks"))
        driver.tables.attach()
        for table in app.tables.values():
            table.partition_for_key = lambda key: 0
            sent = SimpleNamespace(message=SimpleNamespace(partition=0))
            table._changelog_topic = Mock(send_soon=lambda sent=sent, **more: sent)
            table._send_changelog = lambda event, key, *more, table=table: table.send_changelog(0, key, *more)
        driver.joins("looks", TopicPartition(*INPUT), "a")

    async def start(self) -> Worker:
        self.driver.loop, self.driver.thread = asyncio.get_running_loop(), threading.get_ident()
        return self

    def event(self, offset: int) -> Callable[[Callable[[], Any]], Any]:
        """An event starts; what it returns runs something in it."""
        context = copy_context()
        reading = self.readings[offset] = StreamRecords("a")
        stream = SimpleNamespace(reading=reading)
        context.run(self.driver.events.event_in, INPUT, offset, stream, SimpleNamespace(message=None))
        return context.run

    def end(self, offset: int) -> None:
        """An event is over."""
        reading = self.readings[offset]
        stream = SimpleNamespace(reading=reading)
        self.driver.events.event_out(INPUT, offset, stream, None, ({}, reading.current))

    def cut(self) -> None:
        self.epoch = self.driver.snapshot()

    @property
    def torn(self) -> list[int]:
        cuts = [self.driver.machine.open.cuts.get(self.epoch), *self.driver.found(Report)]
        return [torn.offset for cut in cuts if cut is not None for torn in cut.torn]


@pytest.fixture
async def worker() -> Worker:
    worker = await Worker().start()
    assert not worker.driver.absent
    worker.numbers.update({"a": 1, "b": 2, "c": 3})
    worker.lists["k"], worker.lists["l"] = [1], [2]
    worker.orders["k"] = Order(n=1)
    for sets in (worker.sets, worker.global_sets):
        sets["k"].add(1)
    worker.windows.get_timestamp = lambda event=None: 1.0
    worker.set_windows.get_timestamp = lambda event=None: 1.0
    worker.windows["k"] = 5
    worker.set_windows["k"].add(1)
    return worker


def _first(iterator: Any) -> Any:
    """Something that is held: an iterator that is not at its end."""
    next(iterator)
    return iterator


def write_number(worker: Worker) -> None:
    worker.numbers["b"] = 7


def write_list(worker: Worker) -> None:
    worker.lists["k"] = [7]


#: What a white event looks at before the cut and may look at later, and what red then writes.
HELD: dict[str, tuple[Callable[[Worker], Any], Callable[[Worker], Any]]] = {
    "iter": (lambda w: _first(iter(w.numbers)), write_number),
    "keys": (lambda w: _first(iter(w.numbers.keys())), write_number),
    "values": (lambda w: _first(iter(w.numbers.values())), write_number),
    "items": (lambda w: _first(iter(w.numbers.items())), write_number),
    "reversed items": (lambda w: _first(reversed(w.numbers.items())), write_number),
    "generator over items": (lambda w: _first(v for _, v in w.numbers.items()), write_number),
    "list": (lambda w: w.lists["k"], write_list),
    "get of a list": (lambda w: w.lists.get("k"), write_list),
    "setdefault of a list": (lambda w: w.lists.setdefault("k", []), write_list),
    "list that was popped": (lambda w: w.lists.pop("k"), write_list),
    "list that it has set": (lambda w: w.lists.__setitem__("k", [0]), write_list),
    "list that red looks at": (lambda w: w.lists["k"], lambda w: w.lists["k"].append(7)),
    "copy": (lambda w: w.numbers.copy(), write_number),
    "iterator at its end": (lambda w: list(w.numbers.items()), write_number),
    "iterator that was dropped": (lambda w: next(iter(w.numbers.items())), write_number),
    "length": (lambda w: len(w.numbers), write_number),
    "copy with lists": (lambda w: w.lists.copy(), write_list),
    "dict with lists": (lambda w: dict(w.lists), write_list),
    "values that are lists": (lambda w: list(w.lists.values()), write_list),
    "record": (lambda w: w.orders["k"], lambda w: w.orders.__setitem__("k", Order(n=7))),
    "set": (lambda w: w.sets["k"], lambda w: w.sets["k"].add(7)),
    "set, discarded": (lambda w: w.sets["k"], lambda w: w.sets["k"].discard(1)),
    "set, updated": (lambda w: w.sets["k"], lambda w: w.sets["k"].update({7})),
    "set, cleared": (lambda w: w.sets["k"], lambda w: w.sets["k"].clear()),
    "items of sets": (lambda w: list(w.sets.items()), lambda w: w.sets["k"].add(7)),
    "global set": (lambda w: w.global_sets["k"], lambda w: w.global_sets["k"].add(7)),
    "window of a set": (lambda w: w.set_windows.table["k", WINDOW], lambda w: w.set_windows["k"].add(7)),
    "keys of windows": (lambda w: _first(iter(w.windows.keys())), lambda w: w.windows.__setitem__("n", 7)),
    "items of windows, now": (
        lambda w: _first(w.windows.items().current(SimpleNamespace(message=SimpleNamespace(timestamp=1.0)))),
        lambda w: w.windows.__setitem__("n", 7),
    ),
}
#: What it looks at again through what it has had since before the cut.
LATER: dict[str, tuple[Callable[[Worker], Any], Callable[[Any], Any]]] = {
    "iter of a view": (lambda w: w.numbers.items(), list),
    "reversed view": (lambda w: w.numbers.values(), lambda view: list(reversed(view))),
    "sum of a view": (lambda w: w.numbers.values(), sum),
    "sorted view": (lambda w: w.numbers.keys(), sorted),
    "length of a view": (lambda w: w.numbers.keys(), len),
    "repr of a view": (lambda w: w.numbers.items(), repr),
    "equal views": (lambda w: w.numbers.keys(), lambda view: view == {"a", "b", "c"}),
    "membership of a key": (lambda w: w.numbers.keys(), lambda view: "b" in view),
    "membership of an item": (lambda w: w.numbers.items(), lambda view: ("b", 2) in view),
    "membership of a value": (lambda w: w.numbers.values(), lambda view: 2 in view),
    "keys and others": (lambda w: w.numbers.keys(), lambda view: view & {"b"}),
    "keys apart from others": (lambda w: w.numbers.keys(), lambda view: view.isdisjoint({"b"})),
    "mapping of a view": (lambda w: w.numbers.keys(), lambda view: view.mapping["b"]),
    "look-up": (lambda w: w.numbers, lambda table: table["b"]),
    "get": (lambda w: w.numbers, lambda table: table.get("b")),
    "setdefault": (lambda w: w.numbers, lambda table: table.setdefault("b", 1)),
    "pop": (lambda w: w.numbers, lambda table: table.pop("b")),
    "popitem": (lambda w: w.numbers, lambda table: table.popitem()),
    "membership": (lambda w: w.numbers, lambda table: "b" in table),
    "length": (lambda w: w.numbers, len),
    "truth": (lambda w: w.numbers, bool),
    "copy": (lambda w: w.numbers, lambda table: table.copy()),
    "dict": (lambda w: w.numbers, dict),
    "equal tables": (lambda w: w.numbers, lambda table: table == {"b": 2}),
    "drawn": (lambda w: w.numbers, lambda table: table.as_ansitable()),
    "cleared": (lambda w: w.numbers, lambda table: table.clear()),
}


@pytest.mark.parametrize("way", HELD)
async def test_what_is_held_is_noticed_when_red_writes(worker: Worker, way: str) -> None:
    look, write = HELD[way]
    white, apart = worker.event(0), worker.event(1)
    held = white(lambda: look(worker))
    apart(lambda: worker.numbers["a"])
    worker.cut()
    assert worker.torn == []
    worker.event(2)(lambda: write(worker))
    assert worker.torn == [0], "at once"
    del held


@pytest.mark.parametrize("way", LATER)
async def test_what_is_looked_at_later_is_noticed_then(worker: Worker, way: str) -> None:
    take, look = LATER[way]
    white = worker.event(0)
    held = white(lambda: take(worker))
    worker.cut()
    worker.event(2)(lambda: write_number(worker))
    assert worker.torn == []
    white(lambda: look(held))
    assert worker.torn == [0]


@pytest.mark.parametrize(
    "look",
    [
        lambda w: w.numbers["b"],
        lambda w: "b" in w.numbers.keys(),  # noqa: SIM118
        lambda w: w.lists["l"],
    ],
)
async def test_what_cannot_change_tears_nothing(worker: Worker, look: Callable[[Worker], Any]) -> None:
    """Values that stay as they are; other keys."""
    white = worker.event(0)
    had = white(lambda: look(worker))
    worker.cut()

    def write() -> None:
        write_number(worker)
        write_list(worker)

    worker.event(2)(write)
    assert had is not None
    assert worker.torn == []


async def test_views_are_as_those_of_a_dictionary(worker: Worker) -> None:
    numbers, plain = worker.numbers, {"a": 1, "b": 2, "c": 3}
    for name in ("keys", "values", "items"):
        view, expected = getattr(numbers, name)(), getattr(plain, name)()
        assert list(view) == list(expected)
        assert list(reversed(view)) == list(reversed(expected))
        assert (len(view), repr(view)) == (len(expected), repr(expected))
        assert isinstance(view, getattr(collections.abc, f"{name.title()}View"))
        assert view.mapping == plain
    assert numbers.keys() | {"d"} == {"a", "b", "c", "d"}
    assert numbers.items() - {("a", 1)} == {("b", 2), ("c", 3)}
    assert {"a", "x"} - numbers.keys() == {"x"}
    with pytest.raises(RuntimeError, match="changed size"):
        worker.event(0)(lambda: [numbers.pop(key) for key in numbers])


async def test_a_copy_of_a_table_object_is_a_plain_table(worker: Worker) -> None:
    assert worker.numbers.clone(name="other").name == "other"


async def test_a_thread_reads_for_running_events(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody can say for which event it reads, nor what it reads next."""
    white, other = worker.event(0), worker.event(1)
    await white(
        lambda: asyncio.ensure_future(asyncio.to_thread(lambda: [worker.numbers[key] for key in "aab"]))
    )
    await other(lambda: asyncio.sleep(0))
    worker.cut()
    worker.event(2)(lambda: write_number(worker))
    assert worker.torn == [0, 1]
    assert len([record for record in caplog.records if "reads table numbers" in record.message]) == 1


async def test_what_a_thread_writes_counts_in_the_loop(worker: Worker) -> None:
    white = worker.event(0)
    held = white(lambda: iter(worker.numbers.items()))
    worker.cut()
    await asyncio.to_thread(lambda: write_number(worker))
    assert worker.torn == [0]
    del held


async def test_an_event_that_an_agent_acknowledges_later_runs_until_then(worker: Worker) -> None:
    events, event = worker.driver.events, SimpleNamespace(message=SimpleNamespace(acked=False))
    reading = StreamRecords("a")
    reading.by_hand = True
    _, cause = events.event_in(INPUT, 0, SimpleNamespace(reading=reading), event)
    events.left(reading)
    for agent, last in (
        ("b", False),
        ("c", True),
    ):  # with Cython Faust calls nothing else of ours for the last one
        other = SimpleNamespace(reading=StreamRecords(agent))
        state = events.event_in(INPUT, 0, other, event)
        event.message.acked = last
        events.event_out(INPUT, 0, other, event, state)
        assert (cause in worker.driver.machine.colours.running) is not last


def in_own_thread(work: Callable[[], Any]) -> None:
    """A thread of the app's own, that is waited for without giving way to the loop."""
    thread = threading.Thread(target=work, name="own")
    thread.start()
    thread.join()


@pytest.mark.parametrize(("reads", "sends"), [(1, False), (2, False), (1, True)])
async def test_what_a_thread_reads_counts_at_once(worker: Worker, reads: int, sends: bool) -> None:
    """The thread reads what red wrote, and the event uses it, all in one turn of the loop: what it sends is red."""
    white, events = worker.event(0), worker.driver.events
    worker.cut()
    worker.event(2)(lambda: write_number(worker))
    running = worker.driver.machine.colours.running
    assert running[white(events.cause_of_send)] == 0
    for _ in range(reads):
        white(lambda: in_own_thread(lambda: sum(worker.numbers.values())))
    if sends:
        assert running[white(events.cause_of_send)] == worker.epoch
    else:
        worker.end(0)
    assert worker.torn == [0]
    await asyncio.sleep(0)
    assert worker.driver.found(Abort) == []


async def test_recovered_objects_count_like_those_that_were_set(worker: Worker) -> None:
    message = SimpleNamespace(tp=TP("c", 0), offset=0)
    assert not worker.numbers.in_place
    await worker.numbers.on_changelog_event(SimpleNamespace(message=message, key="k", value=[1]))
    assert worker.numbers.in_place


# -- what changes with no hook of Faust's ----------------------------------------------------------------------------


def put_into_a_window(worker: Worker) -> Any:
    """A window whose time is over; its key."""
    worker.expiring.get_timestamp = lambda event=None: 1.0
    worker.expiring["k"] = 7
    (key,) = worker.expiring.table.data
    return key


@pytest.mark.parametrize("before", [True, False])
async def test_r6_a_window_that_expires_tears_who_goes_over_the_table(worker: Worker, before: bool) -> None:
    """One that has expired `before` the cut tears nobody."""
    key, table, white = put_into_a_window(worker), worker.expiring.table, worker.event(1)
    held = white(lambda: None if before else iter(table.items()))
    if not before:
        worker.cut()
    await table._del_old_keys()
    if before:
        worker.cut()
    white(lambda: table._get_key(key))
    assert worker.torn == [1] * (not before)
    del held


@pytest.mark.parametrize("what", ["on_rebalance", "on_recovery_completed"])
async def test_r6_what_a_rebalance_takes_is_a_write_of_any_key(worker: Worker, what: str) -> None:
    """Keys of partitions that have gone leave the store, with no record and no sensor."""
    reads, holds, other = worker.event(1), worker.event(2), worker.event(3)
    held = holds(lambda: worker.lists["k"])
    worker.cut()
    for table in (worker.numbers, worker.lists):
        args: tuple[set[Any], ...] = (set(), set(), set()) if what == "on_rebalance" else (set(), set())
        await getattr(table, what)(*args)
    assert worker.torn == [2], "it holds a value of the table"
    other(lambda: worker.orders["k"])
    assert worker.torn == [2], "of another table"
    reads(lambda: worker.numbers["b"])
    assert worker.torn == [2, 1]
    assert held


async def test_r15_an_effect_before_take_makes_the_worker_stand_down(worker: Worker) -> None:
    """Its record has not started, and a cut would call it unprocessed."""
    events, reading = worker.driver.events, StreamRecords("batching")
    reading.taking = True
    events.event_in(INPUT, 0, SimpleNamespace(reading=reading), None)
    assert worker.driver.absent == ""
    events.cause_of_send()
    assert "agent batching" in worker.driver.absent


# -- two apps in one process ------------------------------------------------------------------------------------------


@pytest.fixture
async def apps() -> tuple[Worker, Worker]:
    return await Worker().start(), await Worker().start()


async def test_events_of_two_apps_are_apart(apps: tuple[Worker, Worker]) -> None:
    """Both read the same record in an agent of the same name."""
    one, two = apps
    in_one, _ = one.event(0), two.event(0)
    assert in_one(one.driver.events.cause) == (event := Cause("a", TopicPartition(*INPUT), 0, 0))
    assert in_one(two.driver.events.cause) is None
    assert two.driver.machine.colours.running == {event: 0}


@pytest.mark.parametrize("namespace", ["n", "other"])
async def test_an_app_used_by_another_one_stands_down(apps: tuple[Worker, Worker], namespace: str) -> None:
    """What it sends would be white, and caused by red; or red, and lost with an event that counts as done. Apps of two
    namespaces share no snapshot."""
    one, two = apps
    for worker, its in ((one, namespace), (two, "n")):
        worker.driver.config = replace(worker.driver.config, namespace=its)
    one.event(0)(two.driver.events.cause_of_send)
    assert not one.driver.absent
    assert ("app looks sends through app looks" in two.driver.absent) == (namespace == "n")
