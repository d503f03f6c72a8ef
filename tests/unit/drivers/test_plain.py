"""Plain clients: what a user may get wrong, what a fault of ours leaves alone, and what a transaction undoes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import KafkaException

from snapkafka.clients import participant
from snapkafka.config import Config
from snapkafka.drivers import Consumer, PlainDriver, Producer, Table
from snapkafka.drivers.outcomes import Unacknowledged
from snapkafka.drivers.plain import confluent_sends
from snapkafka.drivers.plain.confluent_sends import ConfluentSends
from snapkafka.drivers.plain.confluent_settings import generation_of
from snapkafka.drivers.plain.partitioner import partitioner_of
from snapkafka.drivers.plain.running_events import Events
from snapkafka.drivers.plain.settle import SendOutcomes
from snapkafka.drivers.plain.transactions import Transactions
from snapkafka.errors import BadInputError
from snapkafka.kafka import Connection
from snapkafka.protocol import (
    Abort,
    AssignedInput,
    Closed,
    CutReport,
    Hello,
    InputsAssigned,
    InputsRevoked,
    InputTopic,
    Joined,
    LedgerBegins,
    LedgerRead,
    LedgerRecord,
    TopicPartition,
    Trigger,
)
from snapkafka.wire import headers as wire

WHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
ORDERS = TopicPartition("orders", 0)


def consumer(**more: Any) -> Consumer:
    return Consumer(WHERE | {"group.id": "billing", "enable.auto.commit": False} | more)


class Driver(PlainDriver):
    """A driver whose ledger is a list, and which has joined."""

    def __init__(self) -> None:
        super().__init__(Config(namespace="shop"), Connection(bootstrap="127.0.0.1:1"))
        self.written: list[LedgerRecord] = []
        self.read = 0
        self.feed(LedgerBegins(start=0))
        hello = Hello(n=1, app="billing", inputs=(InputTopic(topic="orders", partitions=1),))
        self.feed(Joined(hello=hello))
        self.write(hello)
        self.catch_up()
        given = AssignedInput(tp=ORDERS, agents=("loop",), position=0)
        self.feed(InputsAssigned(generation=1, inputs=(given,), changelogs=()))
        self.catch_up()

    def write(self, record: LedgerRecord) -> None:
        self.written.append(record)

    def changed(self) -> None:
        """Nobody waits."""

    def start_timer(self, action: Any) -> None:
        """Time does not pass."""

    def ask_ends(self, action: Any) -> None:
        """The ends stay unknown."""

    def withdraw(self) -> None:
        """It is not started."""

    def catch_up(self) -> None:
        while self.read < len(self.written):
            self.read += 1
            self.feed(LedgerRead(offset=self.read - 1, record=self.written[self.read - 1]))

    def snapshot(self) -> int:
        self.write(Trigger(n=99, id="now"))
        self.catch_up()
        return self.machine.colours.epoch


class Queue:
    """A producer whose queue is a list."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def plainly(self, topic: str, **record: Any) -> None:
        self.sent.append((topic, record))

    def acknowledge(self) -> None:
        for offset, (_, record) in enumerate(self.sent):
            record["on_delivery"](None, SimpleNamespace(offset=lambda offset=offset: offset))


def busy(driver: Driver) -> bool:
    return driver.machine.colours.busy


def sends_of(driver: Driver, queue: Queue, events: Events, outcomes: SendOutcomes) -> ConfluentSends:
    return ConfluentSends(
        driver,
        cast(Producer, queue),
        stamps=driver.stamps,
        events=events,
        outcomes=outcomes,
        await_identity=lambda: None,
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "a participant needs a group"),
        ({"group": "billing"}, "a participant needs a consumer or a producer"),
        ({"consumer": consumer}, "a participant with a consumer needs its inputs"),
        (
            {"consumer": lambda: consumer(**{"enable.auto.commit": True}), "inputs": ["orders"]},
            "the consumer commits by itself",
        ),
        (
            {"consumer": consumer, "group": "other", "inputs": ["orders"]},
            "the consumer is in group billing, not in other",
        ),
        (
            {
                "consumer": lambda: consumer(**{"partition.assignment.strategy": "cooperative-sticky"}),
                "inputs": ["orders"],
            },
            "incremental rebalances are not supported",
        ),
        (
            {"consumer": consumer, "inputs": ["orders"], "state": lambda: Table("owed")},
            "table owed needs a consumer and a producer",
        ),
        (
            {"group": "billing", "producer": lambda: Producer(WHERE | {"partitioner": "fnv1a"})},
            "partitioner fnv1a is not supported",
        ),
        (
            {"group": "billing", "producer": object},
            "builtins.object has no hooks for a participant",
        ),
    ],
)
def test_what_cannot_take_part_is_one_line_with_what_to_do(given: dict[str, Any], message: str) -> None:
    made = {name: value() if callable(value) else value for name, value in given.items()}
    with pytest.raises(BadInputError) as refused:
        participant(namespace="shop", **made)
    assert message in refused.value.message
    assert "\n" not in refused.value.message and refused.value.advice


async def test_so_is_a_consumer_of_aiokafka_that_commits_by_itself() -> None:
    theirs = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="billing")
    with pytest.raises(BadInputError, match="commits by itself"):
        participant(namespace="shop", consumer=theirs, inputs=["orders"])


def test_a_message_outside_of_an_event_is_refused_by_the_next_poll() -> None:
    events = Events(Driver())
    events.hand_out(ORDERS, 7)
    with pytest.raises(BadInputError, match="was processed outside of an event") as refused:
        events.require_claimed()
    assert "part.event(message)" in refused.value.advice
    cause = events.claim(ORDERS, 7)
    events.require_claimed()
    events.end(cause)
    with pytest.raises(BadInputError, match="has no event to begin"):
        events.claim(ORDERS, 7)


def test_a_loop_that_does_not_poll_is_named_while_a_snapshot_waits(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver()
    events = Events(driver)
    events.hand_out(ORDERS, 0)
    epoch = driver.snapshot()
    driver.look_at_poll(epoch, 4.0)
    assert not caplog.messages, "it has polled a moment ago"
    monkeypatch.setattr(driver, "polled_at", driver.polled_at - 5.0)
    driver.look_at_poll(epoch, 4.0)
    (line,) = caplog.messages
    assert "has not called poll for 5 s" in line and "\n" not in line


def test_a_table_is_written_in_an_event_and_only_there() -> None:
    driver = Driver()
    events, table = Events(driver), Table("owed", default=int)
    changes: list[tuple[int, bytes, bytes | None]] = []
    table.bind(
        driver, "billing", events=events, send=lambda *change: changes.append(change), before=lambda: None
    )
    table.replace({0: {}})
    with pytest.raises(BadInputError, match="table owed was written outside of an event"):
        table["ann"] = 1
    events.hand_out(ORDERS, 0)
    token = events.enter(events.claim(ORDERS, 0))
    table["ann"] += 2
    assert table["ann"] == 2 and "bob" not in table and dict(table.items()) == {"ann": 2}
    del table["ann"]
    events.leave(token)
    assert changes == [(0, b'"ann"', b"2"), (0, b'"ann"', None)]
    assert len(table) == 0 and table["ann"] == 0


def test_r6_a_white_event_that_reads_what_red_wrote_is_torn() -> None:
    driver = Driver()
    events, table = Events(driver), Table("owed", default=int)
    table.bind(driver, "billing", events=events, send=lambda *change: None, before=lambda: None)
    table.replace({0: {}})
    events.hand_out(ORDERS, 0)
    white = events.claim(ORDERS, 0)
    epoch = driver.snapshot()
    events.hand_out(ORDERS, 1)
    red = events.claim(ORDERS, 1)
    token = events.enter(red)
    table["ann"] = 1
    events.leave(token)
    assert driver.machine.colours.running[white.cause] == 0
    token = events.enter(white)
    assert table["ann"] == 1
    events.leave(token)
    assert driver.machine.colours.running[white.cause] == epoch, "it goes on in red"


def test_r5_a_send_has_its_event_as_its_cause_and_its_colour_though_the_process_is_red() -> None:
    driver, queue = Driver(), Queue()
    events, outcomes = Events(driver), SendOutcomes(driver)
    sends = sends_of(driver, queue, events, outcomes)
    events.hand_out(ORDERS, 4)
    cause = events.claim(ORDERS, 4)
    token = events.enter(cause)
    epoch = driver.snapshot()
    sends.append("invoices", {"partition": 1})
    events.leave(token)
    sends.append("invoices", {"partition": 1})
    stamps = [
        wire.read(record["headers"][-1][1], driver.stamps.ledger_id, wire.tp_check("invoices", 1))
        for _, record in queue.sent
    ]
    assert all(stamp is not None for stamp in stamps)
    white, red = cast(list[wire.Stamp], stamps)
    assert (white.epoch, white.seq, red.epoch, red.seq) == (0, 0, epoch, 1)
    assert white.cause == (wire.topic_check("orders"), 0, 4) and red.cause is None


def test_r15_a_fault_of_ours_leaves_the_record_to_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, queue = Driver(), Queue()
    sends = sends_of(driver, queue, Events(driver), SendOutcomes(driver))

    def fault(*_: Any) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(driver.machine, "send_at_once", fault)
    sends.append("invoices", {"partition": 0, "value": b"v"}, {"mine": b"1"})
    ((topic, record),) = queue.sent
    assert (topic, record["value"], record["headers"]) == ("invoices", b"v", [("mine", b"1")])
    assert "stamp a record" in driver.absent
    sends.append("invoices", {"partition": 0, "value": b"w"})
    assert queue.sent[1][1]["headers"] is None


def test_r15_a_broker_that_is_away_delays_no_record_whose_partitions_were_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, queue = Driver(), Queue()
    sends = sends_of(driver, queue, Events(driver), SendOutcomes(driver))
    asked: list[float] = []

    def listed(topic: str, timeout_s: float) -> Any:
        asked.append(timeout_s)
        if len(asked) > 1:
            raise KafkaException("no answer")
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None, 1: None, 2: None})})

    monkeypatch.setattr(queue, "list_topics", listed, raising=False)
    monkeypatch.setattr(confluent_sends, "PARTITIONS_HOLD_S", 0.0)
    record = {"value": b"", "key": b"ann", "timestamp": 0}
    for _ in range(3):
        sends.produce("invoices", record | {"partition": -1}, None, None)
    assert asked == [confluent_sends.METADATA_S, confluent_sends.LOOK_S], "it is asked again after a while"
    assert len({sent["partition"] for _, sent in queue.sent}) == 1 and len(queue.sent) == 3


def test_a_full_queue_is_the_clients_own_error_and_takes_no_seq() -> None:
    driver, queue = Driver(), Queue()
    sends = sends_of(driver, queue, Events(driver), SendOutcomes(driver))

    def full(topic: str, **record: Any) -> None:
        raise BufferError("Local: Queue full")

    queue.plainly = full  # type: ignore[method-assign]
    with pytest.raises(BufferError):
        sends.append("invoices", {"partition": 0})
    assert not driver.machine.colours.busy
    assert driver.machine.colours.sent[TopicPartition("invoices", 0)].next_seq == 0


@pytest.mark.parametrize("aborted", [True, False])
def test_an_event_is_done_with_its_transaction_and_undone_with_it(aborted: bool) -> None:
    """Also one that has sent nothing: its position would be in the snapshot, and it runs again."""
    driver = Driver()
    events, outcomes = Events(driver), SendOutcomes(driver)
    transactions = Transactions(driver, events=events, outcomes=outcomes, fenced=lambda error: False)
    transactions.began()
    events.hand_out(ORDERS, 0)
    events.end(events.claim(ORDERS, 0))
    driver.snapshot()
    assert driver.machine.colours.running, "it runs until the transaction ends"
    if aborted:
        transactions.aborted()
    else:
        transactions.committed()
    assert not driver.machine.colours.running
    found = [record for record in driver.written if isinstance(record, Abort | Closed)]
    assert [type(record) for record in found] == ([Abort] if aborted else [])
    assert transactions.unwound is aborted


@pytest.mark.parametrize(("aborted", "until"), [(True, 0), (False, 3)])
def test_what_an_abort_has_undone_is_no_replay(aborted: bool, until: int) -> None:
    """A crash may leave effects of events that run again; an aborted transaction leaves none."""
    driver = Driver()
    events = Events(driver)
    transactions = Transactions(
        driver, events=events, outcomes=SendOutcomes(driver), fenced=lambda error: False
    )
    transactions.began()
    for offset in range(3):
        events.hand_out(ORDERS, offset)
        events.end(events.claim(ORDERS, offset))
    if aborted:
        transactions.aborted()
    else:
        transactions.committed()
        driver.feed(InputsRevoked())
    driver.feed(
        InputsAssigned(
            generation=1, inputs=(AssignedInput(tp=ORDERS, agents=("loop",), position=0),), changelogs=()
        )
    )
    driver.catch_up()
    driver.snapshot()
    (report,) = (record for record in driver.written if isinstance(record, CutReport))
    assert [(item.offset, item.replay_until) for item in report.positions] == [(0, until)]


def test_what_is_sent_in_a_transaction_is_acknowledged_with_it() -> None:
    driver, queue = Driver(), Queue()
    events, outcomes = Events(driver), SendOutcomes(driver)
    sends = sends_of(driver, queue, events, outcomes)
    outcomes.began()
    sends.append("invoices", {"partition": 0})
    queue.acknowledge()
    assert busy(driver), "it is in the log, and its transaction is open"
    outcomes.ended(None)
    assert not busy(driver)
    outcomes.began()
    sends.append("invoices", {"partition": 0})
    queue.sent = queue.sent[1:]
    queue.acknowledge()
    outcomes.ended(Unacknowledged("aborted", refused=True, undone=True))
    sent = driver.machine.colours.sent[TopicPartition("invoices", 0)]
    assert (sent.next_seq, sent.unacknowledged) == (1, ()), (
        "nobody reads its records: its seqs are given again"
    )
    assert not busy(driver)


@pytest.mark.parametrize(
    ("commit_failed", "confirmed", "next_seq", "until"),
    [(True, False, 1, 1), (True, True, 0, 0), (False, False, 0, 0)],
)
def test_what_a_failed_commit_may_have_committed_keeps_its_seqs(
    commit_failed: bool, confirmed: bool, next_seq: int, until: int
) -> None:
    """If the abort fails as well, its records may be there: two of one seq would accuse the next snapshot."""
    driver, queue = Driver(), Queue()
    events, outcomes = Events(driver), SendOutcomes(driver)
    transactions = Transactions(driver, events=events, outcomes=outcomes, fenced=lambda error: False)
    sends = sends_of(driver, queue, events, outcomes)
    transactions.began()
    events.hand_out(ORDERS, 0)
    cause = events.claim(ORDERS, 0)
    sends.append("invoices", {"partition": 0})
    queue.acknowledge()
    events.end(cause)
    if commit_failed:
        transactions.failed(KafkaException())
    transactions.aborted(confirmed=confirmed)
    sent = driver.machine.colours.sent[TopicPartition("invoices", 0)]
    assert (sent.next_seq, [item.refused for item in sent.unacknowledged]) == (next_seq, [False] * next_seq)
    given = AssignedInput(tp=ORDERS, agents=("loop",), position=0)
    driver.feed(InputsAssigned(generation=1, inputs=(given,), changelogs=()))
    driver.catch_up()
    assert [item.replay_until for item in driver.machine.positions.note()] == [until]
    assert not busy(driver)


def test_the_generation_of_a_group_is_read_from_librdkafkas_own_bytes() -> None:
    assert generation_of(b"CGMDv2:\x07\x00\x00\x00billing\0member-1\0\0\1") == (7, "member-1")
    assert generation_of(consumer().consumer_group_metadata()) == (-1, "")
    with pytest.raises(BadInputError, match="does not show the generation"):
        generation_of(b"another form")


def test_a_record_without_a_key_goes_to_any_partition() -> None:
    """Those with a key: tests/kafka/test_partitioners.py."""
    for name in ("consistent_random", "murmur2_random", "random"):
        choose = partitioner_of({"partitioner": name})
        assert {choose(None, 3) for _ in range(200)} == {0, 1, 2}
