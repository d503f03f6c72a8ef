"""Ends belong to a topic: where it was recreated, those of the old one stand for nothing (R7; design, 12)."""

from __future__ import annotations

from snapkafka.protocol import Bye, Hello, InputTopic, OldTopic, Sent, Table

from .world import A, B, Process, World


def hello(app: str, n: int, *inputs: InputTopic) -> Hello:
    table = Table(name="t", changelog=f"{app}-t-changelog", partitions=1)
    return Hello(n=n, app=app, inputs=inputs, tables=(table,))


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
    epoch = world.take(p, q, later, name="snap")
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
