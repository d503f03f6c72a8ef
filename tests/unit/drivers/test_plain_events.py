"""The events of plain loops: each is bound to its run, its inputs and its transaction; what a fault leaves alone."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaException

from snapkafka.drivers import Producer
from snapkafka.drivers.plain import confluent_clients
from snapkafka.errors import BadInputError
from snapkafka.protocol import Event, InputsRevoked, LogEnd, RecordMet, Report, TopicPartition
from snapkafka.protocol.actions import Hold
from snapkafka.protocol.records import Abort
from tests.unit.drivers.plain_loop import ORDERS, WHERE, Loop, message_at

OTHER = TopicPartition("orders", 1)


@pytest.fixture
def loop() -> Loop:
    return Loop()


# -- events and tables ------------------------------------------------------------------------------------------------


def test_a_message_outside_of_an_event_is_refused_by_the_next_poll(loop: Loop) -> None:
    loop.events.hand_out(ORDERS, 7)
    with pytest.raises(BadInputError):
        loop.events.require_in_order()
    run = loop.events.claim(message_at(7))
    loop.events.require_in_order()
    loop.events.end(run)
    with pytest.raises(BadInputError):
        loop.events.claim(message_at(7))


def test_a_table_is_written_in_an_event_and_only_there(loop: Loop) -> None:
    table = loop.table
    with pytest.raises(BadInputError):
        table["ann"] = 1
    with loop.inside(loop.claim(0)):
        table["ann"] += 2
        assert table["ann"] == 2 and "bob" not in table and dict(table.items()) == {"ann": 2}
        with pytest.raises(ValueError, match="not JSON compliant"):
            table["ann"] = float("nan")
        del table["ann"]
    assert loop.changes == [(0, b'"ann"', b"2"), (0, b'"ann"', None)]
    assert len(table) == 0 and table["ann"] == 0


def test_r6_a_white_event_that_reads_what_red_wrote_is_torn(loop: Loop) -> None:
    white = loop.claim(0)
    epoch = loop.driver.snapshot()
    with loop.inside(loop.claim(1)):
        loop.table["ann"] = 1
    assert loop.colours.running[white.cause] == 0
    with loop.inside(white):
        assert loop.table["ann"] == 1
        assert loop.colours.running[white.cause] == epoch, "it goes on in red"


def test_a_record_that_is_handed_out_again_keeps_its_event_while_its_first_run_ends(loop: Loop) -> None:
    """A thread was too slow for a rebalance, and the same member got its partition again."""
    first = loop.claim(0)
    loop.events.on_revoked()
    second = loop.claim(0)
    loop.events.end(first)
    with loop.inside(second):
        assert loop.driver.machine.send_entered(loop.events.cause()).cause is not None, (
            "its effects have it as their cause"
        )
        assert loop.events.run()
    assert not loop.events.run() and not loop.colours.running


def test_an_event_neither_changes_nor_reads_a_table_whose_partition_was_revoked(loop: Loop) -> None:
    """Its message is processed again: the change would be there twice, and a read would find the default."""
    run = loop.claim(0)
    with loop.inside(run):
        loop.table["ann"] = 1
        for revoke in (lambda: loop.table.replace({}), loop.events.on_revoked):
            revoke()
            with pytest.raises(BadInputError):
                loop.table["ann"] = 2
            with pytest.raises(BadInputError):
                print(loop.table["ann"])
            loop.table.replace({0: {}})
    assert len(loop.changes) == 1


# -- sends ------------------------------------------------------------------------------------------------------------


def test_r15_a_fault_leaves_the_record_to_the_client(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """And holds nothing back any more."""
    loop.driver.hold(ORDERS)
    monkeypatch.setattr(loop.driver.machine, "send_at_once", Mock(side_effect=RuntimeError("a bug of ours")))
    loop.send(value=b"v", headers={"mine": b"1"})
    loop.send(value=b"w")
    (_, first), (_, second) = loop.queue.sent
    assert (first["value"], first["headers"]) == (b"v", [("mine", b"1")])
    assert (second["value"], second["headers"]) == (b"w", None)
    assert "record a send" in loop.driver.absent and not loop.driver.held


def test_r15_a_broker_that_is_away_delays_no_record(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def listed(topic: str, timeout_s: float) -> Any:
        asked.append(timeout_s)
        if len(asked) > 1:
            raise KafkaException("no answer")
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None, 1: None, 2: None})})

    monkeypatch.setattr(loop.queue, "list_topics", listed, raising=False)
    monkeypatch.setattr(confluent_clients, "PARTITIONS_HOLD_S", 0.0)
    for _ in range(3):
        loop.send(-1, key=b"ann")
    assert asked == [confluent_clients.METADATA_S] + 2 * [confluent_clients.LOOK_S]
    assert len({sent["partition"] for _, sent in loop.queue.sent}) == 1 and len(loop.queue.sent) == 3


def test_a_full_queue_takes_no_seq(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop.queue, "plainly", Mock(side_effect=BufferError("Local: Queue full")))
    with pytest.raises(BufferError):
        loop.send()
    assert not loop.colours.busy
    assert loop.invoices.next_seq == 0


# -- transactions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("aborted", [True, False])
def test_an_event_is_done_or_undone_with_its_transaction(loop: Loop, aborted: bool, inside: bool) -> None:
    """Also one that has sent nothing, and one that ends after it: its position would be in the snapshot, and it runs
    again."""
    run = loop.claim(0)
    loop.begin()
    if not inside:
        loop.events.end(run)
    epoch = loop.driver.snapshot()
    assert loop.colours.running, "it runs until the transaction ends"
    loop.abort() if aborted else loop.commit()
    loop.events.end(run)
    assert not loop.colours.running
    found = [type(record) for record in loop.driver.written if isinstance(record, Abort | Report)]
    assert found == [Abort if aborted else Report]
    assert (loop.driver.machine.ledger.snapshots[epoch].status == "FAILED") is aborted
    assert loop.transactions.unwound is aborted


@pytest.mark.parametrize("confirmed", [True, False])
def test_r16_an_abort_revokes_inputs(loop: Loop, monkeypatch: pytest.MonkeyPatch, confirmed: bool) -> None:
    """The machine may cut at that moment: the cut fails when they end. They may run again. One that an earlier
    transaction has committed, without its position, runs again and has its effects twice (R10)."""
    fed: list[tuple[Event, bool]] = []
    loop.begin()
    loop.events.end(loop.claim(4))
    loop.commit()
    loop.begin()
    loop.events.end(loop.claim(5))
    loop.commit(RuntimeError("the commit timed out"))
    feed = loop.driver.feed

    def noted(event: Event) -> Any:
        fed.append((event, bool(loop.colours.running)))
        return feed(event)

    monkeypatch.setattr(loop.driver, "feed", noted)
    loop.transactions.aborted(confirmed=confirmed)
    undone = (LogEnd(topic="orders", partition=0, end=5),) if confirmed else None
    assert fed == [(InputsRevoked(undone_from=undone), True)] and not loop.colours.running


def test_what_is_sent_in_a_transaction_counts_with_it_whenever_it_is_acknowledged(loop: Loop) -> None:
    loop.begin()
    loop.send()
    loop.queue.acknowledge()
    assert loop.colours.busy, "it is in the log, and its transaction is open"
    loop.commit()
    assert not loop.colours.busy
    loop.begin()
    loop.send()
    loop.queue.acknowledge(1)
    loop.abort()
    assert (loop.invoices.next_seq, loop.invoices.unacknowledged) == (1, ()), "its seqs are given again"
    loop.begin()
    loop.send()
    loop.commit()
    loop.begin()
    loop.queue.acknowledge(2)
    assert not loop.colours.busy


@pytest.mark.parametrize(
    ("commit_failed", "confirmed", "next_seq", "until"),
    [(True, False, 1, 1), (True, True, 0, 0), (False, False, 0, 0)],
)
def test_a_failed_commit(loop: Loop, commit_failed: bool, confirmed: bool, next_seq: int, until: int) -> None:
    """If the abort fails as well, its records may be there: two of one seq would accuse the next snapshot."""
    loop.begin()
    run = loop.claim(0)
    loop.send()
    loop.queue.acknowledge()
    loop.events.end(run)
    if commit_failed:
        loop.commit(KafkaException())
    loop.transactions.aborted(confirmed=confirmed)
    sent = loop.invoices
    assert (sent.next_seq, [item.refused for item in sent.unacknowledged]) == (next_seq, [False] * next_seq)
    loop.driver.assign(ORDERS, "loop")
    assert [item.replay_until for item in loop.driver.machine.positions.note()] == [until]
    assert not loop.colours.busy


def test_a_transaction_in_which_inputs_were_revoked_is_not_committed(loop: Loop) -> None:
    """The broker would take it: the member has joined the group again, and names its new generation."""
    producer, transactions = Producer(WHERE), loop.transactions
    producer.events = transactions
    loop.begin()
    loop.commit()
    transactions.revoked()
    loop.begin()
    transactions.require_kept()
    transactions.revoked()
    with pytest.raises(BadInputError):
        producer.commit_transaction(0.1)
    loop.abort()
    loop.begin()
    transactions.require_kept()


# -- inputs that are held back (R16) ----------------------------------------------------------------------------------


def applied(loop: Loop) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """List the partitions that the client has to pause, and those to resume."""
    paused: list[TopicPartition] = []
    resumed: list[TopicPartition] = []
    loop.driver.hold_back(pause=paused.extend, resume=resumed.extend)
    return paused, resumed


async def test_r16_what_is_let_go_in_the_instant_after_the_decision_is_not_held(loop: Loop) -> None:
    """By another thread: nobody would let it go again."""
    driver, asked = loop.driver, threading.Event()

    def decide(_: object) -> Hold:
        asked.set()
        time.sleep(0.05)  # the other one has the lock if it can
        return Hold(epoch=1)

    driver.feed = decide  # type: ignore[method-assign, assignment]

    def let_go() -> None:
        asked.wait()
        driver.let_go()

    thread = threading.Thread(target=let_go)
    thread.start()
    assert await driver.follower.meet(RecordMet(epoch=1), lambda: driver.hold(ORDERS))
    thread.join()
    assert not driver.held


@pytest.mark.parametrize("resumed", [False, True])
def test_r16_what_the_loop_has_paused_stays_paused(loop: Loop, resumed: bool) -> None:
    held = loop.driver
    held.paused_by_loop([ORDERS])
    held.hold(ORDERS)
    held.hold(OTHER)
    assert applied(loop) == ([ORDERS, OTHER], [])
    if resumed:
        assert held.resumed_by_loop([ORDERS]) == {ORDERS}
    held.let_go()
    assert applied(loop) == ([], [ORDERS, OTHER] if resumed else [OTHER])
