"""The way out of a Faust app, with a producer that only remembers: markers, order, colours."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types.tuples import PendingMessage

from snapkafka.drivers import AppliedRestores, Metrics
from snapkafka.drivers.faust.outbound.carried_effect import HEADERS
from snapkafka.drivers.faust.outbound.producer import OutgoingRecords
from snapkafka.drivers.faust.own_headers import OwnHeaders
from snapkafka.drivers.stamps import Stamps
from snapkafka.protocol import (
    Action,
    AppendToLedger,
    Cause,
    Closed,
    CutTimed,
    Dead,
    EndsSeen,
    Event,
    Hello,
    Joined,
    LedgerRead,
    LedgerRecord,
    ReadLedgerTo,
    SendMarkers,
    SeqRange,
    TopicPartition,
    Trigger,
    WorkerProtocol,
)
from snapkafka.wire import headers as wire


class Producer:
    """Faust's producer, as far as `OutgoingRecords` knows it. `hold` keeps appends waiting, as a full batch does."""

    def __init__(self) -> None:
        self.log: list[wire.Stamp] = []
        self.buffer = SimpleNamespace(put=lambda fut: None)
        self.threaded_producer = None
        self.hold = asyncio.Event()
        self.hold.set()

    async def send(
        self, topic: str, key: Any, value: Any, partition: int, timestamp: Any, headers: Any, **more: Any
    ) -> asyncio.Future[Any]:
        await self.hold.wait()
        stamp = wire.read(wire.find(headers) or b"", 7, wire.tp_check(topic, partition))
        assert stamp is not None
        self.log.append(stamp)
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(SimpleNamespace(offset=len(self.log) - 1))
        return done


class Driver:
    """The host of `OutgoingRecords` and the parts that it uses, with a ledger that is a list."""

    def __init__(self, producer: Any = None) -> None:
        self.machine = WorkerProtocol()
        self.absent = ""
        self.metrics = Metrics()
        self.own_headers = OwnHeaders(self)  # type: ignore[arg-type]
        self.stamps = Stamps(self.machine, with_cause=True)
        self.stamps.ledger_id = 7
        self.events = SimpleNamespace(cause_of_send=lambda: None)
        self.waiting: Any = SimpleNamespace()
        self.restored = AppliedRestores(self, self.waiting)  # type: ignore[arg-type]
        self.app = SimpleNamespace(
            _attachments=SimpleNamespace(put=None),
            conf=SimpleNamespace(processing_guarantee="at_least_once", id="p"),
        )
        self.ledger: list[LedgerRecord] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.producer = producer or Producer()
        self.outgoing = OutgoingRecords(
            self,  # type: ignore[arg-type]
            self.producer,
            stamps=self.stamps,
            events=self.events,  # type: ignore[arg-type]
            own_headers=self.own_headers,
            waiting=self.waiting,  # type: ignore[arg-type]
            note=self.restored.noted,
        )
        hello = Hello(n=1, app="p")
        self.feed(Joined(hello=hello))
        self.append(hello)

    def append(self, record: LedgerRecord) -> None:
        self.ledger.append(record)
        self.feed(LedgerRead(offset=len(self.ledger) - 1, record=record))

    def feed(self, event: Event) -> ReadLedgerTo | None:
        actions = self.machine.handle(event)
        self.do(actions)
        return next((action for action in actions if isinstance(action, ReadLedgerTo)), None)

    def answering(self) -> Callable[[Event], object]:
        return self.feed

    def do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, SendMarkers):
                self.outgoing.markers.due(action)
            elif isinstance(action, AppendToLedger):
                self.append(action.record)
        for epoch in list(self.machine.open.cuts):
            cut = self.machine.open.cuts[epoch]
            if cut.cut_us is None:
                self.feed(CutTimed(epoch=epoch, us=1))
                self.feed(EndsSeen(report=cut.report_n, ends=()))

    def failing_open(self, what: str, *, for_good: bool = False) -> contextlib.AbstractContextManager[None]:
        """What fails here fails the test."""
        return contextlib.nullcontext()

    def about(self) -> dict[str, Any]:
        return {}

    def runs_here(self) -> bool:
        return True

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        return task

    def trigger(self, name: str) -> int:
        epoch = len(self.ledger) + 1
        self.append(Trigger(n=epoch + 100, id=name, marker_topics=("t",)))
        return epoch

    async def settle(self) -> None:
        await asyncio.gather(*self.tasks)
        for _ in range(5):
            await asyncio.sleep(0)

    def closed(self) -> list[int]:
        return [record.epoch for record in self.ledger if isinstance(record, Closed)]


def replace_send(driver: Any, send: Any) -> None:
    """Have records leave by this in the place of Faust's own `send`."""
    driver.outgoing._send = driver.outgoing._slow._send = send


async def send(driver: Driver, partition: int = 0) -> None:
    await driver.outgoing.send("t", b"k", b"v", partition, None, None)


async def test_two_snapshots_at_the_same_moment_both_get_their_markers() -> None:
    """The second cut came while the first one's markers were still due, and took their place: it never closed."""
    driver = Driver()
    await send(driver)
    driver.producer.hold.clear()  # the partition is busy: no marker can leave yet
    busy = driver.spawn(send(driver))
    await asyncio.sleep(0)
    first, second = driver.trigger("first"), driver.trigger("second")
    driver.producer.hold.set()
    await busy
    await driver.settle()
    markers = [(stamp.previous, stamp.epoch) for stamp in driver.producer.log if stamp.marker]
    assert markers == [(0, first), (first, second)]
    assert sorted(driver.closed()) == [first, second]


async def test_a_red_send_never_overtakes_a_marker_that_is_due() -> None:
    """R7: each marker enters its partition before the first red record there."""
    driver = Driver()
    await send(driver)
    epoch = driver.trigger("now")
    red = driver.spawn(send(driver))
    await driver.settle()
    await red
    assert [(stamp.marker, stamp.epoch) for stamp in driver.producer.log] == [
        (False, 0),
        (True, epoch),
        (False, epoch),
    ]
    assert [stamp.seq for stamp in driver.producer.log] == [0, 1, 2]


async def test_an_existing_header_is_overwritten_never_added_to() -> None:
    """Design, section 4: an existing `_sk` is overwritten (`Event.forward` and others copy headers)."""
    driver = Driver()
    seen: list[Any] = []
    inner = driver.outgoing._send

    async def remember(*args: Any, headers: Any, **more: Any) -> Any:
        seen.append(headers)
        return await inner(*args, headers=headers, **more)

    replace_send(driver, remember)
    await driver.outgoing.send("t", b"k", b"v", 0, None, {"_sk": b"copied", "mine": b"1"})
    (headers,) = seen
    assert [name for name, _ in headers] == ["mine", "_sk"]
    assert headers[1][1] != b"copied"


async def test_an_append_that_fails_uses_up_no_seq() -> None:
    """A gap in the seqs would accuse a healthy log (V1)."""
    driver = Driver()
    inner = driver.outgoing._send

    async def fail(*args: Any, **more: Any) -> Any:
        raise RuntimeError("the batch is full")

    await send(driver)
    replace_send(driver, fail)
    for _ in range(2):
        try:
            await send(driver)
        except RuntimeError:
            continue
        raise AssertionError("the app must see its own failure")
    replace_send(driver, inner)
    await send(driver)
    await driver.settle()
    assert [stamp.seq for stamp in driver.producer.log] == [0, 1]
    assert not driver.machine.colours.busy


async def test_a_send_that_is_given_up_while_it_waits_holds_no_snapshot_up() -> None:
    """A timeout around it, or an agent that is started anew: nothing of it will ever be in the log."""
    driver = Driver()
    await send(driver)
    driver.producer.hold.clear()
    busy, waits = driver.spawn(send(driver)), asyncio.ensure_future(send(driver))
    await asyncio.sleep(0)
    waits.cancel()
    await asyncio.wait([waits])
    driver.producer.hold.set()
    await busy
    epoch = driver.trigger("now")
    await driver.settle()
    assert driver.closed() == [epoch]


async def test_a_marker_goes_out_though_the_send_before_which_it_was_due_is_given_up() -> None:
    """R7: whoever comes first takes the marker along; if that one is given up meanwhile, the next one does."""
    driver = Driver()
    await send(driver)
    await send(driver, partition=1)
    driver.producer.hold.clear()
    epoch = driver.trigger("now")
    await asyncio.sleep(0)  # the marker of partition 0 is on its way, that of partition 1 is due
    red = asyncio.ensure_future(send(driver, partition=1))
    await asyncio.sleep(0)
    red.cancel()
    await asyncio.wait([red])
    driver.producer.hold.set()
    await driver.settle()
    assert [(stamp.marker, stamp.seq) for stamp in driver.producer.log] == [(False, 0)] * 2 + [(True, 1)] * 2
    assert driver.closed() == [epoch]


async def test_acknowledgements_of_a_partition_count_in_its_order_however_they_come() -> None:
    """R7: a white send is done when it is acknowledged; one that failed fails the snapshot, and holds up no other."""
    driver = Driver()
    answers: list[asyncio.Future[Any]] = []
    inner = driver.outgoing._send

    async def unanswered(*args: Any, **more: Any) -> Any:
        await inner(*args, **more)
        answers.append(asyncio.get_running_loop().create_future())
        return answers[-1]

    replace_send(driver, unanswered)
    for _ in range(5):
        await send(driver)
    colours = driver.machine.colours
    unacked = colours.tallies[0]
    answers[1].set_result(SimpleNamespace(offset=1))
    await driver.settle()
    assert unacked.unacked == 5, "what lies before it is not acknowledged yet"
    answers[0].set_result(SimpleNamespace(offset=0))
    await driver.settle()
    assert unacked.unacked == 3
    answers[2].set_exception(RuntimeError("too late"))
    answers[3].cancel()
    await driver.settle()
    assert unacked.unacked == 1
    (sent,) = colours.sent.values()
    assert sent.unacknowledged == (SeqRange(first=2, last=3),)
    answers[4].set_result(SimpleNamespace(offset=4))
    await driver.settle()
    assert not colours.busy
    assert sent.white(1) == (4, 5)


@pytest.mark.parametrize("joins_again", [True, False])
async def test_r15_who_is_declared_dead_while_a_send_waits_harms_no_send(joins_again: bool) -> None:
    """It leaves as what its new life sends, or, while there is none, without a stamp; it failed with an assertion."""
    driver = Driver()
    stamps: list[wire.Stamp | None] = []

    async def remember(topic: str, *record: Any, **more: Any) -> Any:
        await driver.producer.hold.wait()
        headers = more.get("headers", record[4] if len(record) > 4 else None)
        stamps.append(wire.read(wire.find(headers) or b"", 7, wire.tp_check(topic, 0)))
        done = asyncio.get_running_loop().create_future()
        done.set_result(SimpleNamespace(offset=len(stamps) - 1))
        return done

    async def joined() -> bool:
        if joins_again:
            hello = Hello(n=2, app="p")
            driver.feed(Joined(hello=hello))
            driver.append(hello)
        return driver.machine.process is not None

    replace_send(driver, remember)
    driver.waiting.for_identity = joined
    old = driver.machine.process
    driver.producer.hold.clear()  # a full batch
    first, second = driver.spawn(send(driver)), driver.spawn(send(driver))
    await asyncio.sleep(0)
    assert old is not None
    driver.append(Dead(n=9, dead=old))
    assert driver.machine.process is None, "else nothing is shown"
    driver.producer.hold.set()
    await asyncio.gather(first, second)
    assert [stamp and stamp.process for stamp in stamps] == [old, driver.machine.process]
    assert (driver.machine.process is not None) == joins_again


async def test_what_entered_in_an_earlier_life_and_leaves_without_a_stamp_is_waited_for_no_more() -> None:
    """A table write waits in the buffer while its process is declared dead. It counted as under way for good, so that
    every snapshot with the new process failed as contaminated; `make chaos` found it."""
    driver = Driver()
    left: list[Any] = []
    driver.producer.buffer.put = left.append

    async def in_vain() -> bool:
        return False

    async def plain(
        topic: str, key: Any, value: Any, partition: int, timestamp: Any, headers: Any, **_: Any
    ) -> Any:
        left.append(headers)

    driver.waiting.for_identity = in_vain
    replace_send(driver, plain)
    effect, machine = driver.machine.send_entered(None), driver.machine
    old = machine.process
    assert old is not None
    driver.append(Dead(n=9, dead=old))
    assert machine.earlier.busy[0].busy, "else nothing is shown"
    await driver.outgoing.send("t", b"k", b"v", 0, None, [(wire.HEADER, effect), ("theirs", b"1")])
    assert left == [[("theirs", b"1")]]
    assert not machine.earlier.busy[0].busy


async def test_what_an_event_wrote_before_its_process_had_an_id_has_the_colour_of_the_event() -> None:
    """The write waits in the buffer, the event is over, the process gets its id, cuts, and only then the write leaves:
    in red it was missing in the table of a snapshot whose position lies behind its event."""
    driver = Driver()
    machine, event = driver.machine, Cause("agent", TopicPartition("in", 0), 0)
    old = machine.process
    assert old is not None
    driver.append(Dead(n=9, dead=old))
    assert machine.process is None, "else nothing is shown"
    machine.event_started(event)
    driver.events.cause = lambda: event
    write = SimpleNamespace(message=PendingMessage(*[None] * len(PendingMessage._fields)))
    driver.outgoing.put(write)
    machine.event_ended(event)
    driver.events.cause = lambda: None
    hello = Hello(n=2, app="p")
    driver.feed(Joined(hello=hello))
    driver.append(hello)
    born = machine.colours.epoch
    epoch = driver.trigger("now")
    assert machine.colours.epoch == epoch > born
    assert driver.closed() == [], "a white effect has not left yet"
    await driver.outgoing.send("t", b"k", b"v", 0, None, write.message[HEADERS])
    await driver.settle()
    assert [(stamp.marker, stamp.epoch) for stamp in driver.producer.log] == [(False, born), (True, epoch)]
    assert driver.closed() == [epoch]


async def test_a_header_of_the_apps_own_that_has_our_name_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is overwritten. A copy of ours, as `Event.forward` makes it, is none."""
    driver = Driver()
    copy = wire.stamp(7, 1, 2, 3, 4)
    await driver.outgoing.send("t", b"k", b"v", 0, None, [(wire.HEADER, copy)])
    assert "a header _sk that snapkafka did not write" not in caplog.text
    for _ in range(2):
        await driver.outgoing.send("t", b"k", b"v", 0, None, {wire.HEADER: b"mine"})
    assert caplog.text.count("this app sends a header _sk that snapkafka did not write") == 1
