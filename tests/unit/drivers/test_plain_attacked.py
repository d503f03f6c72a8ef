"""Plain loops that do what nobody expects: each event is bound to its run, its inputs and its transaction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaError, KafkaException

from snapkafka.clients import participant
from snapkafka.drivers import Producer, Table
from snapkafka.drivers.plain import recovery
from snapkafka.drivers.plain.running_events import Events
from snapkafka.drivers.plain.settle import SendOutcomes
from snapkafka.drivers.plain.transactions import Transactions
from snapkafka.errors import BadInputError
from snapkafka.kafka.login import clients
from snapkafka.protocol import TopicPartition
from tests.unit.drivers.test_plain import ORDERS, WHERE, Driver, Queue, consumer, sends_of
from tests.unit.drivers.test_plain_rebalances import CHANGELOG
from tests.unit.drivers.test_plain_rebalances import sends_of as aio_sends_of

INPUT = ["orders"]


def transactional(driver: Driver) -> tuple[Transactions, Events]:
    events = Events(driver)
    made = Transactions(driver, events=events, outcomes=SendOutcomes(driver), fenced=lambda error: False)
    return made, events


def bound_table(driver: Driver, events: Events, **more: Any) -> tuple[Table, list[Any]]:
    table = Table("owed", default=int)
    changes: list[Any] = []
    given = {"send": lambda *change: changes.append(change), "before": lambda: None} | more
    table.bind(driver, "billing", events=events, **given)
    table.replace({0: {}})
    return table, changes


# -- events and their inputs --------------------------------------------------------------------------------------


def test_a_record_that_is_handed_out_again_keeps_its_event_while_its_first_run_ends() -> None:
    """A thread was too slow for a rebalance, and the same member got its partition again."""
    driver = Driver()
    events = Events(driver)
    events.hand_out(ORDERS, 0)
    first = events.claim(ORDERS, 0)
    events.on_revoked()
    events.hand_out(ORDERS, 0)
    second = events.claim(ORDERS, 0)
    events.end(first)
    token = events.enter(second)
    assert driver.machine.send_entered(events.cause()).cause is not None, "its effects have it as their cause"
    events.leave(token)
    assert events.run()
    events.end(second)
    assert not events.run() and not driver.machine.colours.running


def test_an_event_from_before_a_rebalance_changes_no_table_that_was_read_again() -> None:
    """Its message is processed again: the change would be there twice."""
    driver = Driver()
    events = Events(driver)
    table, changes = bound_table(driver, events)
    events.hand_out(ORDERS, 0)
    run = events.claim(ORDERS, 0)
    token = events.enter(run)
    table["ann"] = 1
    events.on_revoked()
    table.replace({0: {}})
    with pytest.raises(BadInputError, match="inputs were revoked"):
        table["ann"] = 2
    with pytest.raises(BadInputError, match="inputs were revoked"):
        print(table["ann"])
    events.leave(token)
    events.end(run)
    assert len(changes) == 1


def test_an_event_reads_no_partition_that_is_not_assigned() -> None:
    """It would find the default there, and send what follows from that."""
    driver = Driver()
    events = Events(driver)
    table, _ = bound_table(driver, events)
    events.hand_out(ORDERS, 0)
    token = events.enter(events.claim(ORDERS, 0))
    table.replace({})
    with pytest.raises(BadInputError, match="partition 0 of table owed is not assigned"):
        print(table["ann"])
    events.leave(token)


def test_a_rebalance_between_the_check_and_the_write_leaves_the_changelog_alone() -> None:
    driver = Driver()
    events = Events(driver)
    tables: list[Table] = []
    table, changes = bound_table(driver, events, before=lambda: tables[0].replace({}))
    tables.append(table)
    events.hand_out(ORDERS, 0)
    token = events.enter(events.claim(ORDERS, 0))
    with pytest.raises(BadInputError, match="is not assigned"):
        table["ann"] = 1
    events.leave(token)
    assert changes == []


def test_an_event_begins_once_and_ends_once() -> None:
    """Two ends would end another event of the same record."""
    part = participant(namespace="shop", consumer=consumer(), inputs=INPUT)
    part.host.absent = "is disabled"
    message = SimpleNamespace(topic="orders", partition=0, offset=3)
    part.events.hand_out(ORDERS, 3)
    event = part.event(message)
    with pytest.raises(BadInputError, match="has begun"):
        part.event(message)
    with event:
        with pytest.raises(BadInputError):
            part.skip(message)
        assert part.events.run()
    assert not part.events.run()


async def test_changes_that_could_not_be_sent_are_forgotten_by_a_rewind() -> None:
    """They would leave with the next event, beside those of the second run of theirs."""
    driver = Driver()
    sends, events, log = aio_sends_of(driver)
    events.hand_out(ORDERS, 0)
    run = events.claim(ORDERS, 0)
    token = events.enter(run)
    sends.change(CHANGELOG, b"ann", b"1")
    events.leave(token)
    events.end(run)
    sends.forget_changes()
    events.hand_out(ORDERS, 0)
    again = events.claim(ORDERS, 0)
    token = events.enter(again)
    sends.change(CHANGELOG, b"ann", b"2")
    await sends.send_changes()
    events.leave(token)
    events.end(again)
    assert [record["value"] for _, record in log.sent] == [b"2"]


# -- events and their transactions ----------------------------------------------------------------------------------


def test_an_event_whose_transaction_was_committed_inside_it_is_done_when_it_ends() -> None:
    """Otherwise a snapshot would wait for the next message."""
    driver = Driver()
    transactions, events = transactional(driver)
    events.hand_out(ORDERS, 0)
    run = events.claim(ORDERS, 0)
    transactions.began()
    transactions.committed()
    events.end(run)
    assert not driver.machine.colours.running


def test_an_event_whose_transaction_was_aborted_inside_it_is_undone_when_it_ends() -> None:
    """A cut that has it as started gets no `Closed`: it runs again."""
    driver = Driver()
    transactions, events = transactional(driver)
    events.hand_out(ORDERS, 0)
    run = events.claim(ORDERS, 0)
    transactions.began()
    epoch = driver.snapshot()
    transactions.aborted()
    events.end(run)
    driver.catch_up()
    assert not driver.machine.colours.running
    assert driver.machine.ledger.snapshots[epoch].status == "FAILED"


def test_a_skipped_record_waits_for_no_transaction_that_nobody_has_begun() -> None:
    part = participant(
        namespace="shop",
        consumer=consumer(),
        producer=Producer(WHERE | {"transactional.id": "billing-1"}),
        inputs=INPUT,
    )
    driver = Driver()
    events = part.events
    events._host = driver
    events.hand_out(ORDERS, 0)
    part.skip(SimpleNamespace(topic="orders", partition=0, offset=0))
    assert not driver.machine.colours.running


def test_an_acknowledgement_that_comes_in_the_next_transaction_counts() -> None:
    """A snapshot would wait for it for ever."""
    driver, queue = Driver(), Queue()
    events, outcomes = Events(driver), SendOutcomes(driver)
    sends = sends_of(driver, queue, events, outcomes)
    outcomes.began()
    sends.append("invoices", {"partition": 0})
    outcomes.ended(None)
    outcomes.began()
    queue.acknowledge()
    assert not driver.machine.colours.busy


# -- a loop's own callbacks and clients -------------------------------------------------------------------------------


def test_inputs_are_revoked_although_the_loops_own_callback_fails() -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("a bug of the loop")

    part = participant(namespace="shop", consumer=consumer(), on_revoke=fails, inputs=INPUT)
    part.host.absent = "is disabled"
    revoked: list[str] = []
    part.assignments.revoked = lambda: revoked.append("all")
    with pytest.raises(RuntimeError, match="a bug of the loop"):
        part._revoked(part.plan.consumer, [])
    assert revoked == ["all"]


async def test_so_are_those_of_aiokafka() -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("a bug of the loop")

    theirs = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="billing", enable_auto_commit=False)
    part = participant(namespace="shop", consumer=theirs, on_revoke=fails, inputs=INPUT)
    part.host.absent = "is disabled"
    revoked: list[str] = []
    part.assignments.revoked = lambda: revoked.append("all")
    with pytest.raises(RuntimeError, match="a bug of the loop"):
        await part.on_revoked([])
    assert revoked == ["all"]


@pytest.mark.parametrize("shared", ["consumer", "producer"])
def test_a_client_that_two_participants_were_made_with_is_in_the_first_one_only(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was made before the other one began."""
    monkeypatch.setenv("SNAPKAFKA", "off")
    client = consumer() if shared == "consumer" else Producer(WHERE)
    given: dict[str, Any] = {shared: client, "group": "billing"} | (
        {"inputs": INPUT} if shared == "consumer" else {}
    )
    parts = [participant(namespace="shop", **given) for _ in range(2)]
    for part in parts:
        monkeypatch.setattr(part, "join", _joins)
    with parts[0]:
        with pytest.raises(BadInputError, match=f"the {shared} is another participant's"), parts[1]:
            pass
        if shared == "producer":
            assert cast(Any, client).sends is not None, "the first one goes on"
    with parts[1]:
        pass


async def test_so_is_one_of_aiokafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPKAFKA", "off")
    producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
    parts = [participant(namespace="shop", group="billing", producer=producer) for _ in range(2)]
    for part in parts:
        monkeypatch.setattr(part, "join", _joins)
    async with parts[0]:
        with pytest.raises(BadInputError, match="the producer is another participant's"):
            async with parts[1]:
                pass
        assert producer.send == parts[0].sends.send


async def _joins() -> None:
    """Nothing is there to join."""


def test_a_loop_that_reads_around_its_participant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Markers would reach it, and no position would move."""
    monkeypatch.setenv("SNAPKAFKA", "off")
    client = consumer()
    part = participant(namespace="shop", consumer=client, inputs=INPUT)
    monkeypatch.setattr(part, "join", _joins)
    with part:
        for read in (lambda: client.poll(0), lambda: client.consume(1, 0)):
            with pytest.raises(BadInputError, match="is read around its participant"):
                read()
    assert client.poll(0) is None


def test_r15_a_loop_that_takes_no_part_may_ask_for_a_snapshot(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SNAPKAFKA", "off")
    part = participant(namespace="shop", group="billing", producer=Producer(WHERE))
    monkeypatch.setattr(part, "join", _joins)
    with part:
        part.trigger()
    part.trigger()
    assert "takes no part in snapshots" in caplog.text


def test_a_committed_position_that_the_broker_does_not_show_is_an_error() -> None:
    """It is not "none": the loop would start somewhere else."""
    client = consumer()
    part = participant(
        namespace="shop", consumer=client, producer=Producer(WHERE), state=Table("owed"), inputs=INPUT
    )
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    hidden = SimpleNamespace(topic="orders", partition=0, offset=-1001, error=error)
    with pytest.raises(KafkaException):
        part._announced(SimpleNamespace(committed=lambda tps, timeout_s: [hidden]), [hidden])


async def test_a_loop_without_a_reset_policy_starts_nowhere_by_itself() -> None:
    """librdkafka has `error`, aiokafka `none`; the end of the log would skip all that is there."""
    for part in (
        participant(namespace="shop", consumer=consumer(**{"auto.offset.reset": "error"}), inputs=INPUT),
        participant(
            namespace="shop",
            consumer=AIOKafkaConsumer(
                bootstrap_servers="127.0.0.1:1",
                group_id="billing",
                enable_auto_commit=False,
                auto_offset_reset="none",
            ),
            inputs=INPUT,
        ),
    ):
        part.host.absent = "is disabled"
        with pytest.raises(BadInputError, match="has committed no offset of orders"):
            await part.assignments.assigned({TopicPartition("orders", 0): None}, generation=1, member="a")


def test_a_participant_begins_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has said Bye: its loop would get no message."""
    monkeypatch.setenv("SNAPKAFKA", "off")
    part = participant(namespace="shop", group="billing", producer=Producer(WHERE))
    monkeypatch.setattr(part, "join", _joins)
    with part:
        pass
    with pytest.raises(BadInputError, match="a participant begins once"), part:
        pass


def test_a_value_that_is_no_json_is_refused_where_it_is_written() -> None:
    """Assembly would find text that nobody can read."""
    driver = Driver()
    events = Events(driver)
    table, changes = bound_table(driver, events)
    events.hand_out(ORDERS, 0)
    token = events.enter(events.claim(ORDERS, 0))
    with pytest.raises(ValueError, match="not JSON compliant"):
        table["ann"] = float("nan")
    events.leave(token)
    assert changes == []


def test_a_table_is_not_read_again_behind_the_loops_own_open_transaction() -> None:
    """The read would wait for its end, which waits for the loop, until the broker ends it after a minute."""
    settings = WHERE | {"transactional.id": "billing-1"}
    part = participant(
        namespace="shop",
        consumer=consumer(),
        producer=Producer(settings),
        state=Table("owed"),
        inputs=INPUT,
    )
    part.transactions.began()
    part.transactions.revoked()
    with pytest.raises(BadInputError, match="inputs were revoked in this transaction") as refused:
        part._assigned(SimpleNamespace(), [])
    assert "on_revoke" in refused.value.advice


async def test_a_member_without_partitions_reads_no_changelog(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be more members than partitions. A client of aiokafka that stops at once raises `CancelledError`."""

    def asked(*_: Any, **__: Any) -> Any:
        raise AssertionError("a client was made")

    monkeypatch.setattr(clients, "consumer", asked)
    driver = Driver()
    table, _ = bound_table(driver, Events(driver))
    found = await recovery.recover(driver, table, set(), stamps=driver.stamps, waiting=driver.waiting)
    assert found == recovery.Recovered()
