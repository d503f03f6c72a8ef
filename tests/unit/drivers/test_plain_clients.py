"""Loops with confluent-kafka and aiokafka: what a user may get wrong, their rebalances, and what they share."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaError, KafkaException

from snapkafka.clients import participant
from snapkafka.drivers import Consumer, Producer, Table
from snapkafka.drivers.plain import confluent_loop
from snapkafka.drivers.plain.aio_loop import AioParticipant
from snapkafka.drivers.plain.confluent_clients import partitioner_of
from snapkafka.errors import BadInputError
from tests.kafka.waiting import until
from tests.unit.drivers.plain_loop import ORDERS, WHERE, Loop, consumer, message_at

INPUT = ["orders"]


def of_aiokafka(**more: Any) -> AIOKafkaConsumer:
    settings = {"bootstrap_servers": "127.0.0.1:1", "group_id": "billing", "enable_auto_commit": False}
    return AIOKafkaConsumer(**settings | more)


def disabled(**given: Any) -> Any:
    """A participant that takes no part, and has nothing to join."""
    part: Any = participant(namespace="shop", inputs=INPUT if "consumer" in given else (), **given)
    part.host.absent, part.join = "is disabled", AsyncMock()
    return part


# -- what a user may get wrong ----------------------------------------------------------------------------------------


def assigned_by(strategy: str) -> Any:
    return lambda: consumer(**{"partition.assignment.strategy": strategy})


@pytest.mark.parametrize(
    "given",
    [
        {},  # no group
        {"group": "billing"},  # no client
        {"consumer": consumer},  # no inputs
        {"consumer": lambda: consumer(**{"enable.auto.commit": True}), "inputs": INPUT},
        {"consumer": lambda: of_aiokafka(enable_auto_commit=True), "inputs": INPUT},
        {"consumer": consumer, "group": "other", "inputs": INPUT},
        {"consumer": assigned_by("cooperative-sticky"), "inputs": INPUT},
        {"consumer": consumer, "inputs": INPUT, "state": lambda: Table("owed")},  # no producer
        {  # other partitions of each input
            "consumer": assigned_by("roundrobin"),
            "producer": lambda: Producer(WHERE),
            "inputs": ["orders", "refunds"],
            "state": lambda: Table("owed"),
        },
        {"group": "billing", "producer": lambda: Producer(WHERE | {"partitioner": "fnv1a"})},
        {"group": "billing", "producer": object},
    ],
)
async def test_what_cannot_take_part_is_one_line_with_what_to_do(given: dict[str, Any]) -> None:
    made = {name: value() if callable(value) else value for name, value in given.items()}
    with pytest.raises(BadInputError) as refused:
        participant(namespace="shop", **made)
    assert "\n" not in refused.value.message and refused.value.hint


async def test_a_loop_that_may_not_know_where_it_starts_starts_nowhere_by_itself() -> None:
    """librdkafka has `error`, aiokafka `none`; the end of the log would skip all that is there. A position that the
    broker does not show is not "none"."""
    for client in (consumer(**{"auto.offset.reset": "error"}), of_aiokafka(auto_offset_reset="none")):
        with pytest.raises(BadInputError):
            await disabled(consumer=client).assigned({ORDERS: None}, generation=1, member="a")
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    hidden = SimpleNamespace(topic="orders", partition=0, offset=-1001, error=error)
    client = Mock(committed=lambda tps, timeout_s: [hidden])
    part = disabled(consumer=consumer(), producer=Producer(WHERE), state=Table("owed"))
    with pytest.raises(KafkaException):
        part._assigned(client, [hidden])
    disabled(consumer=consumer())._assigned(client, [hidden])
    client.assign.assert_called_once_with([hidden])  # without a table, librdkafka asks for itself


def test_a_table_is_not_read_again_behind_the_loops_own_open_transaction() -> None:
    """The read would wait for its end, which waits for the loop, until the broker ends it after a minute."""
    producer = Producer(WHERE | {"transactional.id": "billing-1"})
    part = disabled(consumer=consumer(), producer=producer, state=Table("owed"))
    with part.events.beginning():
        pass
    part.events.revoked()
    with pytest.raises(BadInputError):
        part._assigned(SimpleNamespace(), [])


def test_the_generation_of_a_group_is_read_from_librdkafkas_own_bytes() -> None:
    assert confluent_loop.generation_of(b"CGMDv2:\x07\x00\x00\x00billing\0member-1\0\0\1") == (7, "member-1")
    assert confluent_loop.generation_of(consumer().consumer_group_metadata()) == (-1, "")
    with pytest.raises(BadInputError):
        confluent_loop.generation_of(b"another form")


def test_a_record_without_a_key_goes_to_any_partition() -> None:
    """Those with a key: tests/kafka/test_librdkafka.py."""
    for name in ("consistent_random", "murmur2_random", "random"):
        choose = partitioner_of({"partitioner": name})
        assert {choose(None, 3) for _ in range(200)} == {0, 1, 2}


# -- participants that begin and end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", ["consumer", "producer"])
def test_a_client_that_two_participants_were_made_with_is_in_the_first_one_only(shared: str) -> None:
    """Each was made before the other one began."""
    client = consumer() if shared == "consumer" else Producer(WHERE)
    first, second = (disabled(group="billing", **{shared: client}) for _ in range(2))
    with first:
        with pytest.raises(BadInputError), second:
            pass
        if shared == "producer":
            assert cast(Any, client).sends is not None, "the first one goes on"
    with pytest.raises(BadInputError), first:
        pass
    with second:
        pass


def test_a_loop_that_reads_around_its_participant_is_refused() -> None:
    """Markers would reach it, and no position would move."""
    client = consumer()
    with disabled(consumer=client):
        for read in (lambda: client.poll(0), lambda: client.consume(1, 0)):
            with pytest.raises(BadInputError):
                read()
    assert client.poll(0) is None


def test_r15_a_loop_that_takes_no_part_may_ask_for_a_snapshot(caplog: pytest.LogCaptureFixture) -> None:
    part = disabled(group="billing", producer=Producer(WHERE))
    with part:
        part.trigger()
    part.trigger()
    assert caplog.text.count("no snapshot is requested") == 2


def test_a_skipped_record_waits_for_no_transaction_that_nobody_has_begun() -> None:
    part = disabled(consumer=consumer(), producer=Producer(WHERE | {"transactional.id": "billing-1"}))
    loop = Loop()
    part.events._driver = loop.driver
    part.events.hand_out(ORDERS, 0)
    part.skip(message_at(0))
    assert not loop.colours.running


# -- rebalances -------------------------------------------------------------------------------------------------------


async def loop_of(**more: Any) -> tuple[AioParticipant, asyncio.Queue[Any]]:
    """Return a participant without snapshots, and what its consumer fetches."""
    client, fetched = of_aiokafka(), asyncio.Queue[Any]()
    client.seek, client.committed = Mock(), AsyncMock(return_value=0)
    client._coordinator = SimpleNamespace(generation=1, member_id="a")
    part = disabled(consumer=client, **more)
    part._getone = fetched.get
    await part.on_partitions_assigned([ORDERS])
    return part, fetched


async def test_a_record_that_arrives_for_a_fetch_from_before_a_rebalance_is_not_lost() -> None:
    part, fetched = await loop_of()
    message = asyncio.ensure_future(anext(part.poll()))
    await until(lambda: part._fetching is not None)
    await part.on_partitions_revoked([ORDERS])
    await part.on_partitions_assigned([ORDERS])
    fetched.put_nowait(message_at(0))
    assert (await message).offset == 0


async def test_a_revocation_waits_until_the_loop_has_committed_its_record() -> None:
    revoked = Mock(return_value=None)
    part, fetched = await loop_of(on_revoke=revoked)
    fetched.put_nowait(message_at(0))
    messages = part.poll(quiet_s=0.5)
    async with part.event(await anext(messages)):
        revoking = asyncio.ensure_future(part.on_partitions_revoked([ORDERS]))
        await asyncio.wait({revoking}, timeout=0.3)
        assert not revoking.done() and not revoked.called, "it is in an event"
    await asyncio.wait({revoking}, timeout=0.3)
    assert not revoking.done() and not revoked.called, "its position is not committed"
    assert [message async for message in messages] == []
    await revoking
    revoked.assert_called_once_with([ORDERS])


@pytest.mark.parametrize(("takes_s", "limit_s"), [(0.3, 30.0), (30.0, 0.1)])
def test_a_revocation_awaits_threads(monkeypatch: pytest.MonkeyPatch, takes_s: float, limit_s: float) -> None:
    """An event that goes on would write to a table that was read again meanwhile."""
    monkeypatch.setattr(confluent_loop, "FINISH_S", limit_s)
    seen: list[str] = []
    part = disabled(consumer=consumer(), on_revoke=lambda *_: seen.append("revoked"))
    part.events.hand_out(ORDERS, 0)
    event = part.event(message_at(0))
    entered = threading.Event()

    def work() -> None:
        with event:
            entered.set()
            ends = time.monotonic() + takes_s
            while not seen and time.monotonic() < ends:
                time.sleep(0.01)
            seen.append("processed")

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    part._revoked(part.plan.consumer, [])
    thread.join()
    assert seen == (["processed", "revoked"] if takes_s < limit_s else ["revoked", "processed"])


@pytest.mark.parametrize("client", [consumer, of_aiokafka])
async def test_inputs_are_revoked_although_the_loops_own_callback_fails(client: Any) -> None:
    part = disabled(consumer=client(), on_revoke=Mock(side_effect=RuntimeError("a bug of the loop")))
    part.revoked = Mock()

    async def revoke() -> None:
        if client is consumer:
            part._revoked(part.plan.consumer, [])
        else:
            await part.on_partitions_revoked([])

    with pytest.raises(RuntimeError, match="a bug of the loop"):
        await revoke()
    part.revoked.assert_called_once_with()


def test_a_loop_that_goes_back_skips_no_record_that_librdkafka_has_passed() -> None:
    """It has passed what was aborted, and the end of that transaction: only what lies from 5 to 7 is skipped."""
    passed = {"position": lambda *_: [confluent_kafka.TopicPartition(*ORDERS, 5)], "seek": lambda *_: None}
    librdkafka = type("Librdkafka", (confluent_kafka.Consumer,), passed)
    client: Any = type("Reading", (Consumer, librdkafka), {})(WHERE | {"group.id": "billing"})
    client.host = Mock()
    client.came(ORDERS, 0)
    for to in (5, 7, 0):
        client.seek(confluent_kafka.TopicPartition(*ORDERS, to))
    assert [call.args[1:3] for call in client.host.reading_moved.mock_calls] == [(5, 5), (5, 7), (7, 0)]


# -- what aiokafka sends ----------------------------------------------------------------------------------------------


async def test_a_producer_stamps_while_its_participant_runs_and_sends_no_batches() -> None:
    """The records of a batch of the app's own would have no stamps."""
    producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
    async with disabled(group="billing", producer=producer) as part:
        assert producer.send == part._client.send
        with pytest.raises(BadInputError):
            await producer.send_batch(object(), "invoices", partition=0)
    assert "send" not in vars(producer) and "send_batch" not in vars(producer)
