"""The table `around`: which offsets it takes, that no digest of a snapshot depends on it, and what is drawn of it."""

import dataclasses
import itertools

from snapkafka.assembly.around import KINDS, ROWS_MAX, SPAN_MIN, per_kind, reach
from snapkafka.checks import CutView, LogBounds
from snapkafka.drawing import DrawnMessage
from snapkafka.drawing.order import in_order
from snapkafka.protocol import TopicPartition
from tests.worlds.little_log import CAPTURED, INPUT, STATE, TP

FAR = dataclasses.replace(INPUT, position=5_000, noted=5_000, low=4_990)
LONG_LOG = {TP: LogBounds(start=100, end=9_000), STATE: LogBounds(start=0, end=3)}


def view(*inputs: object, bounds: dict[TopicPartition, LogBounds] | None = None) -> CutView:
    captured = dataclasses.replace(CAPTURED, inputs=inputs or (FAR,), recorded=())  # type: ignore[arg-type]
    return CutView(captured, LONG_LOG if bounds is None else bounds)


# -- which offsets ---------------------------------------------------------------------------------------------


def test_the_window_lies_about_the_position_and_the_white_ends() -> None:
    behind = dataclasses.replace(INPUT, position=10, noted=10, low=0)
    sender = dataclasses.replace(CAPTURED.senders[0], white_end=7_000)
    captured = dataclasses.replace(CAPTURED, inputs=(behind,), recorded=(), senders=(sender,))
    (found,) = reach(CutView(captured, LONG_LOG), 60)
    assert (found.low, found.high) == (100, 7_120)
    (unsent,) = reach(CutView(dataclasses.replace(captured, senders=()), LONG_LOG), 1)
    assert unsent.high - 10 == SPAN_MIN


def test_what_is_read_for_it_lies_in_the_log_and_is_bounded() -> None:
    def lows(start: int, *inputs: object) -> list[int]:
        bounds = LONG_LOG | {TP: LogBounds(start=start, end=9_000)}
        return [it.low for it in reach(view(*inputs, bounds=bounds), 50)]

    assert (lows(100), lows(4_980)) == ([4_900], [4_980])
    two = (FAR, dataclasses.replace(FAR, app="audit", position=4_950, noted=4_950))
    assert lows(100, *two) == [4_900, 4_850]


def test_however_many_channels_there_are_the_table_stays_within_its_rows() -> None:
    def many(inputs: int) -> CutView:
        captured = dataclasses.replace(
            CAPTURED, recorded=(), inputs=tuple(dataclasses.replace(FAR, partition=n) for n in range(inputs))
        )
        return CutView(captured)

    assert per_kind(many(3), 50) == 50
    assert 1 <= per_kind(many(20_000), 50) * KINDS * 20_000 <= ROWS_MAX
    bounds = {TopicPartition("in", n): LogBounds(start=0, end=9_000) for n in range(5_000)}
    found = reach(CutView(many(5_000).captured, bounds), 50)
    assert {it.source.position - it.low for it in found} == {50}


# -- the order of a picture ------------------------------------------------------------------------------------


def message(kind: str, sender: int, receiver: int, offset: int, **more: object) -> DrawnMessage:
    reported = {"kind": kind, "sender": sender, "receiver": receiver, "offset": offset, "partition": 0}
    return DrawnMessage(**(reported | {"topic": f"to-{receiver}"} | more))  # type: ignore[arg-type]


def test_what_is_certain_orders_and_times_only_where_nothing_is() -> None:
    first = message("received", 0, 1, 5, sent_ms=900)
    effect = message("received", 1, 0, 7, sent_ms=50, cause=("to-1", 0, 5))  # sent by the event of it
    early = message("received", 0, 1, 4, sent_ms=2_000)  # an earlier offset of the same log
    other = message("received", 2, 2, 1, sent_ms=10)
    found = in_order([first, effect, early, other])
    place = {event: number for number, event in enumerate(found)}
    assert place[3, "start"] < place[3, "end"] < place[0, "start"]
    assert place[2, "start"] < place[0, "start"] < place[0, "end"] < place[1, "start"] < place[1, "end"]
    assert sorted(found) == sorted(itertools.product(range(4), ("start", "end")))


def test_causes_in_a_circle_are_drawn_all_the_same() -> None:
    forged = [
        message("received", 0, 1, 1, sent_ms=1, cause=("to-0", 0, 1)),
        message("received", 1, 0, 1, sent_ms=2, cause=("to-1", 0, 1)),
    ]
    assert len(in_order(forged)) == 4
