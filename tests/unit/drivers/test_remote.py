"""A process that does not speak Kafka takes part in snapshots: its state, its colours, its leaving."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from snapkafka.drivers import Bounds, Participant
from snapkafka.errors import BadInputError, BrokerUnavailableError, TriggerRefusedError
from snapkafka.protocol import Captured, Dead, Failure, Hello, TopicPartition, Trigger
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.remote_world import RemoteBroker, marker_of, participant, until, view

OUT = TopicPartition("deposits", 0)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
async def broker() -> RemoteBroker:
    return RemoteBroker()


@pytest.fixture
async def till(cluster: FakeCluster, broker: RemoteBroker) -> AsyncIterator[Participant]:
    Worker(cluster.the_ledger, "bank", "deposits")
    process = participant(cluster, broker)
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


async def test_each_snapshot_has_the_state_that_was_given_for_it_in_its_turn_and_no_older_piece(
    cluster: FakeCluster, broker: RemoteBroker, till: Participant
) -> None:
    epochs = [trigger(cluster, name) for name in ("one", "two")]
    for name, chunks in (("one", 3), ("two", 1)):
        assert (await marker_of(till)).snapshot_id == name
        for chunk in range(chunks):
            await till.flush(name, "", chunk, name.encode())
            await till.flush(name, "", chunk, name.encode())  # given again: nothing is doubled
        assert await till.cut(name)
    states = [broker.state((await captured(cluster, epoch)).epoch) for epoch in epochs]
    assert [list(state.values()) for state in states] == [[b"one"] * 3, [b"two"]]


async def test_a_result_that_is_unknown_is_reported_and_the_piece_is_given_again(
    cluster: FakeCluster, broker: RemoteBroker, till: Participant
) -> None:
    epoch = trigger(cluster, "one")
    await marker_of(till)
    broker.unsettled = 1
    with pytest.raises(BrokerUnavailableError, match="unknown"):
        await till.flush("one", "", 0, b"all")
    await till.flush("one", "", 0, b"all")
    assert await till.cut("one")
    await captured(cluster, epoch)
    assert list(broker.state(epoch).values()) == [b"all"]


async def test_r12_a_process_that_was_declared_dead_has_left(cluster: FakeCluster, till: Participant) -> None:
    """A client joins again when its session has ended."""
    other = cluster.the_ledger.put(Hello(n=9, app="other"))
    assert till.process is not None
    cluster.the_ledger.put(Dead(process=other, n=1, dead=till.process))
    await until(lambda: bool(till.left), "its leaving")
    assert "its id is void" in till.left
    with pytest.raises(TriggerRefusedError, match="no longer takes part"):
        await till.send("deposits", b"a", b"10")
    assert len([entry for entry in cluster.the_ledger.entries if isinstance(entry.record, Hello)]) == 3


async def test_bounds(cluster: FakeCluster, broker: RemoteBroker) -> None:
    Worker(cluster.the_ledger, "bank", "deposits")
    small = Bounds(chunk_bytes_max=10, state_bytes_max=15, chunks_max=2, record_bytes_max=8)
    till = participant(cluster, broker, bounds=small)
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
        participant(cluster, broker, node="a/b")
    await till.leave("the test is over")
