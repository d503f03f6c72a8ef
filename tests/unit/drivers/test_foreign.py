"""A process that does not speak Kafka takes part in snapshots: its state, its colours, its leaving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from snapkafka.drivers import Bounds, Participant
from snapkafka.errors import BadInputError, BrokerUnavailableError, TriggerRefusedError
from snapkafka.kafka import LedgerCutShortError
from snapkafka.ports import Entry
from snapkafka.protocol import (
    NOT_GIVEN,
    Captured,
    CutReport,
    Failure,
    Hello,
    TailLost,
    TopicPartition,
    Trigger,
)
from tests.worlds.fakes import FakeCluster, FakeLedger, Worker
from tests.worlds.foreign_world import FakeWriter, ForeignAdmin, marker_of, participant, until, view

OUT = TopicPartition("deposits", 0)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
async def writer() -> FakeWriter:
    return FakeWriter(ForeignAdmin())


@pytest.fixture
async def till(cluster: FakeCluster, writer: FakeWriter) -> AsyncIterator[Participant]:
    Worker(cluster.the_ledger, "bank", "deposits")
    process = participant(cluster, writer)
    await process.join()
    yield process
    await process.leave("the test is over")


def trigger(cluster: FakeCluster, name: str, ttl_ms: int = 600_000, apps: tuple[str, ...] = ()) -> int:
    """Append a trigger; its epoch."""
    record = Trigger(n=9_000 + len(cluster.the_ledger.entries), id=name, ttl_ms=ttl_ms, apps=apps)
    return cluster.the_ledger.put(record) + 1


async def captured(cluster: FakeCluster, epoch: int) -> Captured:
    """Wait until a snapshot is captured."""
    await until(lambda: not view(cluster).snapshots[epoch].open, "the end of the snapshot")
    state = view(cluster)
    assert state.snapshots[epoch].failure is None, state.snapshots[epoch].failure
    return state.captured(epoch)


async def failure_of(cluster: FakeCluster, epoch: int) -> Failure:
    """Wait until a snapshot has failed."""
    await until(lambda: view(cluster).snapshots[epoch].failure is not None, "the failure")
    failure = view(cluster).snapshots[epoch].failure
    assert failure is not None
    return failure


async def test_a_state_that_does_not_come_fails_its_snapshot_by_name_and_the_next_one_is_good(
    cluster: FakeCluster, writer: FakeWriter, till: Participant
) -> None:
    epoch = trigger(cluster, "one", ttl_ms=100)
    await marker_of(till)
    await till.flush("one", "", 0, b"half of it")
    failure = await failure_of(cluster, epoch)
    assert (failure.code, failure.culprit) == (NOT_GIVEN, f"process {till.process}")
    assert not await till.flush("one", "", 1, b"the rest")
    assert not await till.cut("one")
    later = trigger(cluster, "two")
    await marker_of(till)
    await till.flush("two", "", 7, b"all")
    assert await till.cut("two")
    await captured(cluster, later)
    assert set(writer.state(later).values()) == {b"all"}


async def test_r12_who_has_reported_in_the_ledger_is_not_declared_dead(
    cluster: FakeCluster, till: Participant
) -> None:
    """The process was suspended: what others have reported meanwhile it reads first."""
    ledger = cluster.the_ledger
    other = ledger.put(Hello(n=9, app="other"))
    epoch = trigger(cluster, "one", apps=("other",))
    await until(lambda: epoch in till._machine.ledger.open, "the trigger to be read")
    ledger.put(
        CutReport(process=other, n=1, epoch=epoch, previous=0, heard="ledger", assigned=-1, positions=())
    )
    for _ in range(2):  # the first of its timers is for its own report
        till._expired(epoch)
    await failure_of(cluster, epoch)
    assert view(cluster).is_alive(other)


async def test_each_snapshot_has_the_state_that_was_given_for_it_in_its_turn_and_no_older_piece(
    cluster: FakeCluster, writer: FakeWriter, till: Participant
) -> None:
    epochs = [trigger(cluster, name) for name in ("one", "two")]
    for name, chunks in (("one", 3), ("two", 1)):
        assert (await marker_of(till)).snapshot_id == name
        for chunk in range(chunks):
            await till.flush(name, "", chunk, name.encode())
            await till.flush(name, "", chunk, name.encode())  # given again: nothing is doubled
        assert await till.cut(name)
    states = [writer.state((await captured(cluster, epoch)).epoch) for epoch in epochs]
    assert [list(state.values()) for state in states] == [[b"one"] * 3, [b"two"]]


async def test_a_result_that_is_unknown_is_reported_and_the_piece_is_given_again(
    cluster: FakeCluster, writer: FakeWriter, till: Participant
) -> None:
    epoch = trigger(cluster, "one")
    await marker_of(till)
    writer.unsettled = 1
    with pytest.raises(BrokerUnavailableError, match="unknown"):
        await till.flush("one", "", 0, b"all")
    await till.flush("one", "", 0, b"all")
    assert await till.cut("one")
    await captured(cluster, epoch)
    assert list(writer.state(epoch).values()) == [b"all"]


async def test_r11_where_the_ledger_has_lost_what_it_has_read_it_says_so_and_its_session_ends(
    cluster: FakeCluster, till: Participant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client joins again when its session has ended."""
    ledger, process = cluster.the_ledger, till.process
    lost = len(ledger.entries)
    await until(lambda: till._task.ahead.end == lost, "the end")
    read = FakeLedger.read

    async def cut_short(
        self: FakeLedger, start: int = 0, *, until: int | None = None
    ) -> AsyncIterator[Entry]:
        for _ in range(lost):
            raise LedgerCutShortError(self.topic, lost - 1, lost)
        yield Entry(0, 0, None)

    monkeypatch.setattr(FakeLedger, "read", cut_short)
    till._task._tasks[0].cancel()
    till._task._tasks[0] = asyncio.ensure_future(till._task._read(lost))
    await until(
        lambda: any(isinstance(entry.record, TailLost) for entry in ledger.entries), "the record of it"
    )
    monkeypatch.setattr(FakeLedger, "read", read)
    (said,) = [entry.record for entry in ledger.entries if isinstance(entry.record, TailLost)]
    assert (said.since, said.upto, said.void) == (lost - 1, lost, process)
    assert "its id is void" in till.left
    with pytest.raises(TriggerRefusedError, match="no longer takes part"):
        await till.send("deposits", b"a", b"10")


async def test_bounds(cluster: FakeCluster, writer: FakeWriter) -> None:
    Worker(cluster.the_ledger, "bank", "deposits")
    small = Bounds(chunk_bytes_max=10, state_bytes_max=15, chunks_max=2, record_bytes_max=8)
    till = participant(cluster, writer, bounds=small)
    await till.join()
    trigger(cluster, "one")
    await marker_of(till)
    with pytest.raises(BadInputError, match="state_data has 11 bytes"):
        await till.flush("one", "", 0, b"x" * 11)
    for _ in range(2):
        await till.flush("one", "", 0, b"x" * 10)  # given again: it counts once
    with pytest.raises(BadInputError, match="above 15 bytes"):
        await till.flush("one", "", 1, b"x" * 6)
    await till.flush("one", "", 1, b"x")
    with pytest.raises(BadInputError, match="2 chunks"):
        await till.flush("one", "", 2, b"x")
    with pytest.raises(BadInputError, match="channel_id has 201"):
        await till.flush("one", "x" * 201, 0, b"x")
    with pytest.raises(BadInputError, match="too large"):
        await till.send("deposits", b"x" * 4, b"x" * 5)
    with pytest.raises(BadInputError, match="node_id"):
        participant(cluster, writer, node="a/b")
    await till.leave("the test is over")
