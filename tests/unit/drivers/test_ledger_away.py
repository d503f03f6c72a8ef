"""R4 and R15 at the way in: a red record comes, and the ledger that should tell of its trigger does not answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from faust.types import TP

from snapkafka.config import Config
from snapkafka.drivers import FaustDriver, ledger_tasks, ledger_wait, waiting
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError, SnapkafkaError
from snapkafka.protocol import (
    Abort,
    Aligning,
    AssignedInput,
    Closed,
    CutReport,
    Dead,
    Hello,
    InputsAssigned,
    InputTopic,
    LedgerRecord,
    Pause,
    TopicPartition,
    Trigger,
)
from snapkafka.wire import headers as wire
from tests.kafka.waiting import until
from tests.unit.drivers.test_incoming import conductor_of
from tests.worlds.fakes import FakeAdmin, FakeEntry, FakeLedger

IN = TP("in", 0)
INPUT = InputTopic(topic="in", partitions=1)
GIVEN = AssignedInput(tp=TopicPartition("in", 0), agents=("agent",), position=0, replay_until=0)
FORGED = 1_000_000


class Away(FakeLedger):
    """Its broker may be away: then nothing of it can be read, and who asks for its end gets an error, or nothing."""

    ledger_id = 7

    def __init__(self) -> None:
        super().__init__()
        self.back = asyncio.Event()
        self.back.set()
        self.reads = asyncio.Event()
        self.reads.set()
        self.silent = False
        self.garbled = False
        self.resting = False
        self.lost: SnapkafkaError | None = None
        self.tries = 0
        self.unanswered: type | None = None  # a record of this type lands, but its acknowledgement is lost

    async def end(self) -> int:
        if self.silent:
            await self.back.wait()
        if not self.back.is_set():
            raise BrokerUnavailableError("nobody answers")
        return len(self.entries)

    async def append(self, record: LedgerRecord) -> int:
        await self.back.wait()
        offset = self.put(record)
        if self.unanswered is not None and isinstance(record, self.unanswered):
            self.unanswered = None
            raise BrokerUnavailableError("no answer in time")
        return offset

    def stop_reading_at(self, kind: type) -> None:
        """Nothing can be read from a record of this type on, until `reads` is set."""
        self.listeners.append(lambda _, record: self.reads.clear() if isinstance(record, kind) else None)

    async def read(
        self, start: int = 0, *, until: int | None = None, gulps: Any = None
    ) -> AsyncIterator[FakeEntry]:
        at = start
        while until is None or at < until:
            await self.back.wait()
            await self.reads.wait()
            if self.garbled:
                raise RuntimeError("a bug of ours")
            if self.lost:
                self.tries += 1
                raise self.lost
            async for entry in super().read(at, until=len(self.entries)):
                yield entry
                at = entry.offset + 1
            if gulps is not None:
                self.resting = True
                await gulps.rest()
                self.resting = False
            await asyncio.sleep(0.001)


class Service:
    """A worker that has joined and has its input, with the way in of that input."""

    def __init__(self) -> None:
        self.ledger = Away()
        self.driver = cast(Any, FaustDriver(app=SimpleNamespace(), config=Config(namespace="n")))
        self.came: list[int] = []
        self.driver.recorder = SimpleNamespace(take=self.driver_append)
        self.driver.replies = SimpleNamespace(topics=set(), forget_epochs=list)
        self.driver.tables = SimpleNamespace(topics=set(), forget_epochs=list)
        conductor = SimpleNamespace(_build_handler=lambda tp, channels: self.take_in)
        conductor_of(self.driver, conductor)
        self.callback: Any = conductor._build_handler(IN, set())

    def driver_append(self, record: Any) -> None:
        self.driver.write(record)

    async def take_in(self, message: Any) -> None:
        self.came.append(message.offset)

    async def join(self) -> None:
        await self.driver.start(self.ledger, FakeAdmin())
        await self.driver.join(Hello(n=0, app="shop", host="box", pid=7, inputs=(INPUT,)))
        self.driver.feed(InputsAssigned(generation=1, inputs=(GIVEN,), changelogs=()))
        assert await self.driver.waiting.for_inputs()

    def message(self, offset: int, epoch: int) -> Any:
        header = wire.stamp(7, wire.tp_check("in", 0), epoch, 99, offset)
        return SimpleNamespace(topic="in", partition=0, tp=IN, offset=offset, headers=[("_sk", header)])

    async def take(self, offset: int, epoch: int) -> None:
        """As Faust does: whatever is raised here ends the worker."""
        await asyncio.wait_for(self.callback(self.message(offset, epoch)), timeout=2)

    def said(self, kind: type) -> list[Any]:
        return [entry.record for entry in self.ledger.entries if isinstance(entry.record, kind)]


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    for module in (ledger_wait, waiting):
        monkeypatch.setattr(module, "LEDGER_WAIT_S", 0.2)
    for module in (ledger_tasks, waiting):
        monkeypatch.setattr(module, "RETRY_S", 0.01)
    made = Service()
    await made.join()
    yield made
    made.ledger.back.set()
    with contextlib.suppress(RuntimeError):
        await made.driver.stop()


@pytest.mark.parametrize("silent", [False, True], ids=["an-error", "no-answer"])
async def test_r4_a_red_record_is_taken_in_though_the_ledger_is_away(service: Service, silent: bool) -> None:
    """The state that takes it in is of no colour then: the snapshot is aborted by name when the ledger is back, and
    the next one is cut again."""
    service.ledger.silent = silent
    service.ledger.back.clear()
    epoch = service.ledger.put(Trigger(n=1, id="while it is away")) + 1
    await service.take(0, epoch)
    await service.take(1, epoch)  # nobody waits a second time
    assert service.came == [0, 1]
    assert not service.said(CutReport)

    service.ledger.back.set()
    await until(lambda: bool(service.said(Abort)))
    (abort,) = service.said(Abort)
    assert (abort.epoch, abort.code) == (epoch, "contaminated")
    await until(lambda: not service.driver.machine.absent)
    later = service.ledger.put(Trigger(n=2, id="after that")) + 1
    await until(lambda: bool(service.said(CutReport)))
    assert [report.epoch for report in service.said(CutReport)] == [later]


async def test_r15_who_is_absent_does_not_come_back_before_it_has_read_of_what_it_took_in(
    service: Service,
) -> None:
    """Its inputs are announced by then, and the trigger of a red record that it took in stands behind that."""
    service.ledger.back.clear()
    service.driver.feed(InputsAssigned(generation=2, inputs=(GIVEN,), changelogs=()))
    assert not await service.driver.waiting.for_inputs()
    announced = service.ledger.put(None)  # stands for what is in the ledger by then
    epoch = service.ledger.put(Trigger(n=1, id="red while it was absent")) + 1
    await service.take(0, epoch)
    assert service.came == [0]
    service.driver.waiting._missed.remove(
        service.driver.waiting._announced
    )  # as if they had been announced already
    assert service.driver.machine.ledger.end <= announced
    service.driver.waiting.machine_changed()
    assert service.driver.machine.absent
    service.ledger.back.set()
    await until(lambda: not service.driver.machine.absent and bool(service.said(Abort)))
    assert {(abort.epoch, abort.code) for abort in service.said(Abort)} == {(epoch, "contaminated")}


async def test_r4_a_forged_epoch_while_the_ledger_is_away_spoils_nothing_for_long(service: Service) -> None:
    service.ledger.back.clear()
    await service.take(0, FORGED)
    assert service.came == [0]
    service.ledger.back.set()
    await until(lambda: not service.driver.machine.absent)
    epoch = service.ledger.put(Trigger(n=1, id="after that")) + 1
    await until(lambda: bool(service.said(CutReport)))
    assert [report.epoch for report in service.said(CutReport)] == [epoch]
    await service.take(1, FORGED)
    assert service.came == [0, 1]
    assert service.driver.metrics.disbelieved == 1, "the ledger could be asked this time"


async def test_r2_a_forged_epoch_hides_no_true_one(service: Service) -> None:
    """What a forged header asked of the ledger says nothing of the records that come after it."""
    await service.take(0, FORGED)
    assert service.driver.metrics.disbelieved == 1
    service.ledger.reads.clear()
    await asyncio.sleep(0.01)  # until the reader waits
    epoch = service.ledger.put(Trigger(n=1, id="a true one")) + 1
    taking = asyncio.ensure_future(service.take(1, epoch))
    await asyncio.sleep(0.05)
    assert service.came == [0], "it is read in red, and nobody knows of the trigger yet"
    service.ledger.reads.set()
    await taking
    assert service.came == [0, 1]
    assert service.driver.machine.colours.epoch == epoch
    assert service.driver.metrics.disbelieved == 1


async def test_r15_who_cannot_read_the_ledger_any_more_takes_no_part_and_everything_else_goes_on(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug of ours in the task that reads it."""
    service.ledger.garbled = True
    await until(lambda: bool(service.driver.absent))
    for offset in range(3):
        await service.take(offset, epoch=FORGED)
    assert service.came == [0, 1, 2]
    assert [r.message for r in caplog.records if "runs without snapshots" in r.message] == [
        "snapkafka: failed to read the ledger (RuntimeError('a bug of ours')); this worker runs without snapshots"
    ]
    service.driver.append(Trigger(n=1, id="of nobody"))
    await asyncio.sleep(0.05)
    assert not service.said(Trigger), "who knows nothing says nothing"


async def test_r15_a_machine_that_raises_stops_no_record(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(event: Any) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(service.driver.machine, "handle", broken)
    await service.take(0, epoch=FORGED)
    await service.take(1, epoch=FORGED)
    assert service.came == [0, 1]
    assert "to receive RecordMet" in service.driver.absent


async def test_r9_inputs_that_run_unannounced_spoil_every_snapshot_until_they_are_announced(
    service: Service,
) -> None:
    """They were given while the ledger was away, and Faust does not wait for long."""
    service.ledger.back.clear()
    service.driver.feed(InputsAssigned(generation=2, inputs=(GIVEN,), changelogs=()))
    assert not await service.driver.waiting.for_inputs()
    assert service.driver.machine.absent
    epoch = service.ledger.put(Trigger(n=1, id="before it is known")) + 1
    service.ledger.back.set()
    await until(lambda: not service.driver.machine.absent and bool(service.said(Abort)))
    assert [(abort.epoch, abort.code) for abort in service.said(Abort)] == [(epoch, "contaminated")]


async def test_r15_a_ledger_that_cannot_be_read_is_reported_once(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker logged the same line every second, for ever."""
    service.ledger.lost = LedgerUnusableError("no record at offset 9 any more", hint="run it again")
    await until(lambda: service.ledger.tries > 5)
    lines = [line for line in caplog.messages if "no record at offset 9 any more" in line]
    assert len(lines) == 1
    assert "run it again" in lines[0]
    service.ledger.lost = BrokerUnavailableError("nobody answers")
    await until(lambda: any("nobody answers" in line for line in caplog.messages))


async def test_r4_a_report_is_known_by_its_acknowledgement(service: Service) -> None:
    """The worker closes before it has read its own report."""
    service.ledger.stop_reading_at(CutReport)
    service.ledger.put(Trigger(n=1, id="s"))
    await until(lambda: bool(service.said(Closed)))
    (closed,) = service.said(Closed)
    assert isinstance(service.ledger.entries[closed.report].record, CutReport)
    assert service.driver.machine.ledger.end <= closed.report, "it is not read yet"


async def test_r4_a_report_that_was_sent_again_is_known_when_it_is_read(service: Service) -> None:
    """Its acknowledgement was lost, and the second copy is the one that was acknowledged: the first one counts."""
    service.ledger.unanswered = CutReport
    service.ledger.stop_reading_at(CutReport)
    service.ledger.put(Trigger(n=1, id="s"))
    await until(lambda: len(service.said(CutReport)) == 2)
    await service.driver.ledger_tasks.written()
    assert not service.said(Closed)
    service.ledger.reads.set()
    service.ledger.listeners.clear()
    await until(lambda: bool(service.said(Closed)))
    first = next(e.offset for e in service.ledger.entries if isinstance(e.record, CutReport))
    assert [closed.report for closed in service.said(Closed)] == [first]


async def joined(service: Service, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let another process join, and rests last longer than any test."""
    monkeypatch.setattr(ledger_tasks, "GULP_S", (60.0, 60.0))
    other = service.ledger.put(Hello(n=9, app="other"))
    await until(lambda: other in service.driver.machine.ledger.processes)
    return other


async def test_the_ledger_is_read_in_gulps_while_a_snapshot_is_under_way(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It rests, and reads nothing, until somebody waits for what stands there."""
    await joined(service, monkeypatch)
    service.ledger.put(Trigger(n=1, id="s"))
    await until(lambda: bool(service.said(Closed)) and service.ledger.resting)
    end = service.driver.machine.ledger.end
    service.ledger.put(Pause(n=2, paused=False))
    for _ in range(10):  # a reader that does not rest would have its turn
        await asyncio.sleep(0)
    assert service.ledger.resting
    assert service.driver.machine.ledger.end == end, "nobody waits for that"
    with service.driver.ledger_tasks.awaited():
        await until(lambda: service.driver.machine.ledger.end == len(service.ledger.entries))


async def test_r16_who_aligns_reads_the_ledger_without_rests(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for what the others write, and holds back its inputs meanwhile."""
    other = await joined(service, monkeypatch)
    epoch = service.ledger.put(Trigger(n=1, id="s", align=True, ttl_ms=600_000)) + 1
    await until(lambda: bool(service.said(Aligning)))
    assert service.driver.machine.aligning
    for _ in range(10):  # a reader that rests would begin to
        await asyncio.sleep(0)
    service.ledger.put(Aligning(process=other, n=1, epoch=epoch, topics=()))
    await until(lambda: service.driver.machine.ledger.end == len(service.ledger.entries))
    assert not service.ledger.resting


async def test_r2_who_meets_a_red_record_reads_the_ledger_at_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker rests between two gulps when the record of a later snapshot comes."""
    await joined(service, monkeypatch)
    service.ledger.put(Trigger(n=1, id="first"))
    await until(lambda: bool(service.said(Closed)))
    epoch = service.ledger.put(Trigger(n=2, id="second")) + 1
    await service.take(0, epoch)
    assert service.driver.machine.colours.epoch == epoch
    assert not service.driver.machine.absent, "it has not waited in vain"


async def test_r12_who_has_reported_in_the_ledger_is_not_declared_dead(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time to live ends while the worker rests: it reads first what the other one has reported."""
    other = await joined(service, monkeypatch)
    epoch = service.ledger.put(Trigger(n=1, id="s", ttl_ms=100)) + 1
    await until(lambda: bool(service.said(Closed)))
    report = CutReport(process=other, n=1, epoch=epoch, previous=0, heard="ledger", assigned=-1, positions=())
    service.ledger.put(report)
    await until(lambda: bool(service.said(Abort)))
    await service.driver.ledger_tasks.written()
    assert not service.said(Dead)
