"""Ends belong to a topic: where it was recreated, those of the old one stand for nothing (R7; design, 12)."""

from __future__ import annotations

import pytest

from snapkafka.protocol import Bye, Hello, InputTopic, OldTopic, Report, Sent, SentEnd, Table

from .world import A, B, Process, World, records, settle


@pytest.fixture
def world() -> World:
    return World()


def sent_to_b(process: Process) -> SentEnd:
    (sent,) = (end for end in records(process, Report)[-1].sent if end.topic == B.topic)
    assert isinstance(sent, SentEnd)
    return sent


def hello(app: str, n: int, *inputs: InputTopic) -> Hello:
    table = Table(name="t", changelog=f"{app}-t-changelog", partitions=1)
    return Hello(n=n, app=app, inputs=inputs, tables=(table,))


def contaminated(world: World, epoch: int) -> str:
    assert world.snapshot(epoch).captured_at is not None
    return world.fold.captured(epoch).contaminated


def test_r7_the_snapshot_to_which_it_happens_cannot_be_proven_and_the_next_one_is_good(world: World) -> None:
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    for _ in range(5):
        p.send(B)
    p.send(A)
    first = world.trigger("before")
    settle(p, q)
    assert (sent_to_b(p).white_end, sent_to_b(p).last_seq, sent_to_b(p).recreated) == (5, 4, False)

    world.logs[B] = []  # deleted, and recreated
    p.send(B)
    second = world.trigger("meanwhile")
    settle(p, q)
    seq = sent_to_b(p).last_seq
    assert (sent_to_b(p).white_end, sent_to_b(p).recreated) == (1, True)
    assert seq > 4, "seqs go on"

    p.send(B)
    third = world.trigger("after")
    settle(p, q)
    assert (sent_to_b(p).white_end, sent_to_b(p).recreated) == (len(world.log(B)) - 1, False)
    assert [contaminated(world, epoch) != "" for epoch in (first, second, third)] == [False, True, False]
    assert contaminated(world, second).startswith(
        f"topic b was recreated while process {p.id} of app p sent there"
    )


def test_r7_acknowledgements_in_any_order_show_no_other_topic() -> None:
    sent = Sent()
    for seq in (3, 1, 2, 0, 5, 4):
        sent.acked(seq % 2, seq, seq)
    assert (sent.recreated, sent.white(2)) == (-1, (5, 6))


def test_r11_who_knew_a_topic_before_it_was_recreated_is_listed(world: World) -> None:
    """By another id in its `Hello`, though it has left; or as it joined before anybody named the present one."""
    p = Process(world, "p", (A,))  # sends to b, and reads nothing of it
    old = world.append(hello("q", 1, InputTopic(topic="b", partitions=1, topic_id="old")))
    q, later = Process(world, "q", (B,), join=False), Process(world, "later", (A,), join=False)
    q.join_as(hello("q", 2, InputTopic(topic="b", partitions=1, topic_id="new")))
    later.join_as(hello("later", 3))
    world.append(Bye(process=old, n=1))
    for process in (q, later):
        process.give(*process.inputs)
    epoch = world.trigger("snap")
    settle(p, q, later)
    captured = world.fold.captured(epoch)
    assert captured.old_topics == (OldTopic(process=p.id, topic="b"), OldTopic(process=old, topic="b"))
    assert captured.renewed == (), "the one that knew the old topic does not run any more"


def test_r7_acknowledgements_of_the_old_topic_that_come_late_stand_for_nothing() -> None:
    sent = Sent()
    sent.acked(0, 78, 78)
    sent.failed(77, 77, refused=False)
    sent.acked(0, 82, 1)  # of the new one
    sent.acked(0, 79, 79)
    sent.acked(0, 81, 0)
    assert sent.white(1) == (82, 2)
    assert sent.unacknowledged == ()
