"""Channels of which messages that no table holds may cross a wall-clock cut: counted where they may, and nowhere else.

Process 2 reads `to-2`, which 1 and 3 write to. They cut 100, 110 and 120 ms after the trigger.
"""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest

from snapkafka.manifest import AROUND, AppendedEntry, AroundEntry
from snapkafka.protocol.captured_snapshot import InputCut, ProcessCut, SenderEnd
from snapkafka.protocol.records import Position
from snapkafka.store import LocalStore
from tests.unit.on_disk import read_up_to, write_snapshot
from tests.unit.test_drawing import rewrite
from tests.unit.test_wall_clock import CUTS, START, drawn_at, in_flight, record, wide

INPUT = dataclasses.replace(read_up_to("to-2", 0, 50), app="app2", receiver=2, agents=())
NUMBERS = itertools.count()
#: The log was looked at so long after the trigger.
LOOKED = 10_000


def white(sender: int, seq: int, sent: int, received: int | None = None, **more: Any) -> dict[str, Any]:
    """A record that process 2 received before its cut, at a time unless that has none."""
    told = {"received": True, "received_ms": received, "seq": seq} | more
    return record(sender, told.pop("receiver", 2), told.pop("offset", seq), "white", sent, **told)


def red(sender: int, seq: int, sent: int, received: int | None = None, **more: Any) -> dict[str, Any]:
    """A record that was sent after the cut of its sender."""
    told = {"received_ms": received, "seq": seq, "offset": 60 + seq} | more
    return record(sender, told.pop("receiver", 2), told.pop("offset"), "red", sent, **told)


def end(sender: int, last_seq: int, topic: str = "to-2") -> SenderEnd:
    return SenderEnd(process=sender, topic=topic, partition=0, white_end=60, last_seq=last_seq)


async def beyond(
    folder: Path,
    rows: list[dict[str, Any]],
    at: int,
    *ends: SenderEnd,
    inputs: tuple[InputCut, ...] = (INPUT,),
    left: tuple[int, ...] = (),
    looked: int = LOOKED,
    earlier_release: bool = False,
    **bounds: int,
) -> int:
    """Draw at a time, in milliseconds after the trigger.

    Args:
        left: processes that had left.
        bounds: of where records were sought, see `wide`.
    """
    store = LocalStore(folder / f"{next(NUMBERS)}")
    manifest = write_snapshot(store, "s", 9, cuts=inputs, messages=in_flight(rows), around=rows)
    processes = [ProcessCut(process=n, app=f"app{n}", report=20 + n) for n in CUTS]
    processes += [ProcessCut(process=n, app=f"app{n}", left=True) for n in left]
    captured = dataclasses.replace(manifest.captured, processes=tuple(processes), senders=ends)
    appended = tuple(AppendedEntry(offset=20 + n, at_ms=START + after) for n, after in CUTS.items())
    ledger = dataclasses.replace(manifest.ledger, triggered_ms=START, appended=appended)
    sought = AroundEntry(looked_ms=START + looked, inputs=tuple(wide(cut, **bounds) for cut in inputs))
    changed = dataclasses.replace(manifest, captured=captured, ledger=ledger, around=sought)
    if earlier_release:
        tables = (
            dataclasses.replace(table, schema=tuple(c for c in table.schema if c.name != "more"))
            if table.name == AROUND
            else table
            for table in manifest.tables
        )
        changed = dataclasses.replace(changed, around=None, tables=tuple(tables))
    rewrite(store, changed)
    at_ms = START + at
    _, wall = await drawn_at(store.manifest_place("s"), at=f"{'+' if at >= 0 else '-'}{abs(at_ms - START)}ms")
    return wall.beyond


# -- earlier messages of a channel ---------------------------------------------------------------------------


async def test_a_channel_with_fewer_records_than_a_window_may_have_earlier_ones(tmp_path: Path) -> None:
    """Its seqs show whether it has, however many records other channels have."""
    busy = [white(1, seq, 20 + seq, 22 + seq) for seq in range(3)]
    rare = white(3, 7, 80, 85, offset=40)
    assert await beyond(tmp_path, [*busy, rare], 15) == 1
    assert await beyond(tmp_path, [*busy, rare | {"seq": 0}], 15) == 0
    assert await beyond(tmp_path, [*busy, rare], 15, start=0) == 0, "all of the log was sought"
    assert await beyond(tmp_path, [*busy, rare], 15, earlier_release=True) == 1


async def test_a_window_that_is_full_exactly_at_the_start_of_its_channel_is_none_too_few(
    tmp_path: Path,
) -> None:
    rows = [white(1, seq, 90 + seq, 95 + seq) for seq in (0, 1)]
    assert await beyond(tmp_path, rows, 50) == 0
    one = [white(1, 1, 91, 96, more=True)]
    assert await beyond(tmp_path, one, 50, start=0) == 1, "a record before it lies within what was sought"


async def test_earlier_ones_are_on_the_side_of_the_first_one_where_that_is_sent_and_received(
    tmp_path: Path,
) -> None:
    rows = [white(1, 3, 60, 65), white(1, 4, 70, 75)]
    for at, expected in ((50, 1), (62, 1), (66, 0), (90, 0)):
        assert await beyond(tmp_path, rows, at) == expected, at
        full = [rows[0] | {"more": True}, rows[1]]
        assert await beyond(tmp_path, full, at) == expected, at
    behind = [white(1, 3, 60, 40), white(1, 4, 70, 75)]  # received before it was sent
    for at, expected in ((30, 1), (50, 1), (61, 0)):
        assert await beyond(tmp_path, behind, at) == expected, at


async def test_of_a_full_window_the_farthest_received_one_counts(tmp_path: Path) -> None:
    """Events are started out of turn: what lies before it may lie behind one that is in flight."""
    flight = white(1, 3, 50, 130) | {"received": False}
    kept = white(1, 5, 70, 55, more=True)
    assert await beyond(tmp_path, [flight, kept], 60) == 1
    assert await beyond(tmp_path, [flight, kept], 75) == 0


async def test_earlier_ones_were_received_where_their_receiver_has_cut(tmp_path: Path) -> None:
    """Nothing states when it received: then its cut does, which held them as received."""
    assert await beyond(tmp_path, [white(1, 3, 60)], 90) == 1
    assert await beyond(tmp_path, [white(1, 3, 60)], 115) == 0
    assert await beyond(tmp_path, [white(1, 3, 120)], 115) == 1, "sent later, by its clock"


async def test_the_record_of_another_sender_shows_that_earlier_ones_were_received(tmp_path: Path) -> None:
    """Several senders of one partition: what was received of it at an offset was received below it."""
    other = white(3, 0, 30, 40, offset=2)
    rare = white(1, 3, 50, 95, offset=30)
    assert await beyond(tmp_path, [other, rare], 60) == 0
    assert await beyond(tmp_path, [other, rare], 35) == 1, "it was received later"
    assert await beyond(tmp_path, [other, rare], 45) == 1, "it was sent later"
    assert await beyond(tmp_path, [other, rare | {"more": True}], 60) == 1, "those may lie above it"
    above = dataclasses.replace(
        INPUT, agents=(Position(agent="a", topic="to-2", partition=0, offset=50, started_above=(90,)),)
    )
    assert await beyond(tmp_path, [other, rare], 60, inputs=(above,)) == 1, "it may lie above it"


async def test_each_app_that_reads_a_partition_has_a_channel_of_its_own(tmp_path: Path) -> None:
    both = (INPUT, dataclasses.replace(INPUT, app="app3", receiver=3))
    rows = [white(1, 3, 60, 65), white(1, 3, 60, 65) | {"receiver": 3, "receiver_app": "app3"}]
    assert await beyond(tmp_path, rows, 62, inputs=both) == 2
    rows[1]["received_ms"] = START + 61
    assert await beyond(tmp_path, rows, 62, inputs=both) == 1
    assert await beyond(tmp_path, [], 62, end(1, 4), inputs=both) == 2


# -- channels without a record in the table ------------------------------------------------------------------


async def test_a_channel_without_a_record_near_the_cut_has_some_where_its_end_has_a_seq(
    tmp_path: Path,
) -> None:
    assert await beyond(tmp_path, [], 50, end(1, 4)) == 1
    assert await beyond(tmp_path, [], 50, end(1, -1)) == 0
    assert await beyond(tmp_path, [], 50, end(1, 4), start=0) == 0
    assert await beyond(tmp_path, [], 50, end(1, 4), end(3, 4)) == 2
    assert await beyond(tmp_path, [], 50, end(1, 4, topic="changelog")) == 0, "nobody reads it"


async def test_it_is_on_the_near_side_where_its_sender_and_its_receiver_are_past_the_time(
    tmp_path: Path,
) -> None:
    """Sender 1 sent a red record, to another: by its clock all that is white was sent before."""
    other = dataclasses.replace(read_up_to("to-3", 0, 50), app="app3", receiver=3, agents=())
    later = red(1, 0, 105, 130, receiver=3)
    for at, expected in ((104, 1), (106, 1), (111, 0)):
        found = await beyond(tmp_path, [later], at, end(1, 4), inputs=(INPUT, other))
        assert found == expected, at
    assert await beyond(tmp_path, [], 111, end(1, 4), inputs=(INPUT, other)) == 1


async def test_processes_that_had_left_may_have_sent_until_the_trigger(tmp_path: Path) -> None:
    """No end of theirs is known: together they are one channel of an input."""
    assert await beyond(tmp_path, [], -30, left=(7, 8)) == 1
    assert await beyond(tmp_path, [], -30, left=(7, 8), start=0) == 0
    assert await beyond(tmp_path, [], 0, left=(7, 8)) == 0
    row = white(7, 0, -90, -80, offset=3)
    assert await beyond(tmp_path, [row], -30, left=(7,)) == 0
    assert await beyond(tmp_path, [row], -30, left=(7, 8)) == 1
    both = (INPUT, dataclasses.replace(INPUT, app="app3", receiver=3))
    assert await beyond(tmp_path, [row], -30, left=(7,), inputs=both) == 1, "of the other app"
    assert await beyond(tmp_path, [row | {"seq": 2}], -85, left=(7,)) == 1


# -- later messages of a channel -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "bounds", "looked", "expected"),
    [
        (False, {}, LOOKED, 0),  # the log has no more
        (True, {}, LOOKED, 1),
        (False, {"log_end": 201}, LOOKED, 1),  # it was not read to its end
        (False, {"end": 201, "log_end": 201}, LOOKED, 0),
        (False, {}, 199, 1),  # and what was appended after it was read may be older than the time
        (False, {}, 200, 0),
    ],
)
async def test_later_ones_may_cross_where_the_table_does_not_end_with_the_log(
    tmp_path: Path, more: bool, bounds: dict[str, Any], looked: int, expected: int
) -> None:
    rows = [red(1, 0, 130, 150), red(1, 1, 140, 160, more=more)]
    assert await beyond(tmp_path, rows, 200, end(1, -1), looked=looked, **bounds) == expected


async def test_by_a_clock_that_is_behind_the_log_was_looked_at_earlier(tmp_path: Path) -> None:
    """Sender 1 cut 40 ms earlier by its own clock than by the ledger's: at the latest when it sent its red record."""
    rows = [red(1, 0, 60, 65)]
    assert await beyond(tmp_path, rows, 160, end(1, -1), looked=200) == 0
    assert await beyond(tmp_path, rows, 161, end(1, -1), looked=200) == 1


async def test_later_ones_lie_behind_the_time_where_the_last_one_is_neither_sent_nor_received(
    tmp_path: Path,
) -> None:
    rows = [red(1, 0, 130, 150), red(1, 1, 140, 160, more=True)]
    for at, expected in ((105, 0), (115, 0), (138, 0), (139, 0), (140, 1), (200, 1)):
        assert await beyond(tmp_path, rows, at, end(1, -1)) == expected, at
    backward = [red(1, 0, 130, 100, more=True)]  # its receiver is ahead
    assert await beyond(tmp_path, backward, 105, end(1, -1)) == 0
    assert await beyond(tmp_path, backward, 115, end(1, -1)) == 1


async def test_a_channel_without_any_red_record_is_past_the_time_where_its_sender_is(tmp_path: Path) -> None:
    """The log goes on past what was sought."""
    far: dict[str, Any] = {"log_end": 900}
    assert await beyond(tmp_path, [white(1, 0, 90, 95)], 80, end(1, 0), **far) == 0
    assert await beyond(tmp_path, [white(1, 0, 90, 95)], 92, end(1, 0), **far) == 1
    other = dataclasses.replace(read_up_to("to-3", 0, 50), app="app3", receiver=3, agents=())
    elsewhere = white(1, 0, 98, receiver=3)
    for at, expected in ((97, 0), (98, 2)):
        found = await beyond(tmp_path, [elsewhere], at, end(1, -1), inputs=(INPUT, other), **far)
        assert found == expected, at
    left = white(7, 0, -90, -80, offset=3)
    assert await beyond(tmp_path, [left], 90, left=(7,), **far) == 0, "who has left sends nothing"


async def test_the_last_record_of_a_partition_shows_when_later_ones_were_received(tmp_path: Path) -> None:
    rows = [white(1, 0, 140, 105), red(3, 0, 142, 144, offset=90)]
    sent_later = [*rows, red(3, 1, 145, 147, offset=91)]
    assert await beyond(tmp_path, sent_later, 130, end(1, 0), end(3, -1), log_end=900) == 0
    assert await beyond(tmp_path, rows[:1], 130, end(1, 0), log_end=900) == 1
    full = [rows[0], red(1, 1, 141, more=True, offset=80), *rows[1:]]
    assert await beyond(tmp_path, full, 130, end(1, 0), end(3, -1), log_end=900) == 1


async def test_an_earlier_release_shows_a_window_that_is_full_by_the_largest(tmp_path: Path) -> None:
    """Then a window as large as the largest counts as full, and the log as read to its end."""
    rows = [red(1, 0, 130, 150), red(1, 1, 140, 160), red(3, 0, 130, 150, offset=80)]
    assert await beyond(tmp_path, rows, 200, end(1, -1), end(3, -1), earlier_release=True) == 1
    assert await beyond(tmp_path, rows, 120, end(1, -1), end(3, -1), earlier_release=True) == 0


# -- what lies between the position and the ends of senders --------------------------------------------------


SKIPS: dict[str, Any] = {"middle": 60, "late": 150}


async def test_records_that_were_received_above_the_position_may_lie_in_what_was_skipped(
    tmp_path: Path,
) -> None:
    above = dataclasses.replace(
        INPUT, agents=(Position(agent="a", topic="to-2", partition=0, offset=50, started_above=(90,)),)
    )
    row = white(1, 0, 30, 40)

    async def found(at: int, last_seq: int, source: InputCut = above, **bounds: Any) -> int:
        return await beyond(tmp_path, [row], at, end(1, last_seq), inputs=(source,), **bounds)

    assert await found(90, 1, **SKIPS) == 1
    assert await found(115, 1, **SKIPS) == 1, "received by then, and sent when nothing shows"
    assert await found(90, 0, **SKIPS) == 0, "it sent no other"
    assert await found(90, 1, INPUT, **SKIPS) == 0, "no other was received"
    assert await found(90, 1) == 0, "nothing was skipped"
    past = [row, red(1, 2, 105, 130, offset=180)]
    for at, expected in ((104, 1), (108, 1), (111, 0)):
        told = await beyond(tmp_path, past, at, end(1, 1), inputs=(above,), **SKIPS)
        assert told == expected, at


async def test_who_had_sent_nothing_may_have_sent_a_first_red_record_there(tmp_path: Path) -> None:
    rows = [red(1, 2, 140, 150, offset=170)]
    assert await beyond(tmp_path, rows, 130, **SKIPS) == 1
    assert await beyond(tmp_path, rows, 160, **SKIPS) == 0
    assert await beyond(tmp_path, [rows[0] | {"seq": 0}], 130, **SKIPS) == 0
    other = dataclasses.replace(read_up_to("to-3", 0, 50), app="app3", receiver=3, agents=())
    past = [*rows, white(1, 0, 98, receiver=3)]  # it had not cut at 97 ms, by its clock
    for at, expected in ((97, 0), (99, 1)):
        assert await beyond(tmp_path, past, at, inputs=(INPUT, other), **SKIPS) == expected, at
    assert await beyond(tmp_path, rows, 130, end(1, 1), **SKIPS) == 1, "its white ones are in no table"
    assert await beyond(tmp_path, rows, 130) == 0, "nothing was skipped"


async def test_received_red_records_may_have_others_before_them(tmp_path: Path) -> None:
    """Of a cut that is inconsistent."""
    row = red(1, 0, 130, 105, more=True) | {"received": True}
    assert await beyond(tmp_path, [row], 120, end(1, -1)) == 1
    assert await beyond(tmp_path, [row], 131, end(1, -1)) == 0
    assert await beyond(tmp_path, [row | {"more": False}], 120, end(1, -1)) == 0
