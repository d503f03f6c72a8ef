"""The cut that results from reading every process at one wall-clock time, from the table `around` of a snapshot.

A process is read at that time by its own clock: a send is placed by the time of its record, a receipt by the time of
the first record that its event sent. Clocks of processes differ, so such a cut may hold a message as received that no
state has sent ("backward"); and messages in flight across it are in no state at all. A receipt without a time is
placed by those of the records around it in its partition, and by the cut of its process, which lies, by its own clock,
between its last white and its first red record; a message that cannot be placed is counted as unknown.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from snapkafka.errors import BadInputError
from snapkafka.manifest import AROUND, Manifest
from snapkafka.protocol.captured_snapshot import ProcessCut
from snapkafka.store import sql_text
from snapkafka.units import duration_ms, moment_ms, utc_time

from .around import OF_A_SIDE, VALUE_CHARS, has_around, kind_at_cut
from .layout import EXTERNAL, DrawnMessage, WallClock

#: A field of a value that is JSON, with dots between levels; anything else is an SQL expression.
FIELD: Final = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*")
EXPRESSION_CHARS_MAX: Final = 2_000
#: Of an expression so many characters stand in a sentence.
FIELD_CHARS: Final = 40
#: Rows of inputs, where a snapshot has none.
NO_INPUTS: Final = "SELECT NULL::VARCHAR, NULL::VARCHAR, NULL::INTEGER, NULL::BIGINT WHERE false"
#: What is added up: whole numbers and decimals, without the rounding of floats.
NUMBER: Final = "DECIMAL(38, 6)"

#: The end of the year 9999, milliseconds since 1970.
LAST_MS: Final = 253_402_300_799_999

_SQL: Final = """
WITH cuts(process, at_ms) AS (VALUES {cuts}),
inputs(app, topic, "partition", process) AS ({inputs}),
runs AS (SELECT DISTINCT process, run.topic AS topic, run."partition" AS "partition", run."offset" AS "offset"
         FROM (SELECT process, unnest(running) AS run FROM processes)),
records AS (
  SELECT 'white' AS side, false AS received, m.sender, coalesce(a.receiver, i.process) AS receiver, m.receiver_app,
         m.topic, m."partition", m."offset", m.seq, m.key, m.value, coalesce(a.sent_ms, m.timestamp_ms) AS sent_ms,
         a.received_ms, a.cause_topic, a.cause_partition, a.cause_offset, a.bytes
  FROM messages m LEFT JOIN around a USING (receiver_app, topic, "partition", "offset")
  LEFT JOIN inputs i ON i.app = m.receiver_app AND i.topic = m.topic AND i."partition" = m."partition"
  UNION ALL
  SELECT side, received, sender, receiver, receiver_app, topic, "partition", "offset", seq, key, value, sent_ms,
         received_ms, cause_topic, cause_partition, cause_offset, bytes
  FROM around WHERE received OR side <> 'white'),
own AS (
  SELECT sender AS process, max(sent_ms) FILTER (WHERE side = 'white' AND runs.process IS NULL) AS low,
         min(sent_ms) FILTER (WHERE side = 'red') AS high
  FROM records LEFT JOIN runs ON runs.process = sender AND runs.topic = cause_topic
       AND runs."partition" = cause_partition AND runs."offset" = cause_offset
  WHERE sender IS NOT NULL GROUP BY sender),
clocks AS (
  SELECT process,
         CASE WHEN at_ms IS NOT NULL THEN greatest(low, least(high, at_ms)) END AS cut_ms
  FROM cuts LEFT JOIN own USING (process)),
timed AS (
  SELECT *, max(received_ms) OVER (of_input ORDER BY "offset") AS from_ms,
         min(received_ms) OVER (of_input ORDER BY "offset" ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS by_ms
  FROM records WINDOW of_input AS (PARTITION BY receiver_app, topic, "partition")),
sided AS (
  SELECT timed.*, s.cut_ms AS sender_cut_ms, r.cut_ms AS receiver_cut_ms,
         r.process IS NOT NULL AND (sender IS NULL OR s.process IS NOT NULL) AS known, sent_ms <= {at} AS sent,
         CASE WHEN by_ms <= {at} OR (received AND r.cut_ms <= {at}) THEN true
              WHEN from_ms > {at} OR (NOT received AND r.cut_ms >= {at}) THEN false END AS got
  FROM timed LEFT JOIN clocks r ON r.process = receiver LEFT JOIN clocks s ON s.process = sender),
kinds AS (
  SELECT *, CASE WHEN NOT known THEN 'other'
    WHEN got AND (sent OR sender IS NULL) THEN 'received'
    WHEN got AND NOT sent THEN 'backward'
    WHEN NOT got AND sent AND sender IS NULL THEN 'waiting'
    WHEN NOT got AND sent THEN 'in-flight'
    WHEN NOT got AND NOT sent THEN 'later' ELSE 'unknown' END AS kind, {amount} AS amount
  FROM sided),
totals AS (
  SELECT count(*) AS total, count(*) FILTER (WHERE kind = 'backward') AS backward,
         count(*) FILTER (WHERE kind = 'in-flight') AS flight, count(*) FILTER (WHERE kind = 'unknown') AS unknown,
         sum(amount) FILTER (WHERE kind = 'backward') AS backward_sum,
         sum(amount) FILTER (WHERE kind = 'in-flight') AS flight_sum,
         count(*) FILTER (WHERE kind IN ('backward', 'in-flight') AND amount IS NULL) AS without
  FROM kinds),
ranked AS (
  SELECT *, kind IN ('backward', 'in-flight') AS crosses,
         row_number() OVER (PARTITION BY sender, receiver_app, topic, "partition", kind
                            ORDER BY CASE WHEN kind = 'received' THEN -"offset" ELSE "offset" END) AS nth
  FROM kinds WHERE kind NOT IN ('other', 'unknown')),
shown AS (
  SELECT *, row_number() OVER (PARTITION BY crosses ORDER BY kind = 'backward' DESC, nth, topic, "partition", "offset",
                               receiver_app) AS place
  FROM ranked WHERE nth <= CASE WHEN crosses THEN {of_a_channel} ELSE {of_a_side} END)
SELECT totals.*, kind, side, received, sender, receiver, topic, "partition", "offset",
       left(coalesce(key, ''), {chars}) AS key, left(coalesce(value, ''), {chars}) AS value, sent_ms, received_ms,
       cause_topic, cause_partition, cause_offset, sender_cut_ms, receiver_cut_ms
FROM totals LEFT JOIN shown ON place <= {most} ORDER BY crosses DESC, place
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """A wall-clock time at which to read every process, and a number to sum up.

    Attributes:
        at: ISO 8601, or `+80ms` after the trigger; empty: the median of the cuts.
        sum_of: the number to sum up over messages: a field of JSON values, or an SQL expression over a record's
            columns (`key`, `value`, `topic`, `bytes` ...); empty: nothing.
    """

    at: str = ""
    sum_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WallCut:
    """Messages that cross the cut at a wall-clock time: at least so many, as the table holds a window about the cut.

    Attributes:
        at_ms: milliseconds since 1970.
        backward: messages received before it and sent after it.
        in_flight: messages sent before it and not received.
        unknown: messages of which the table does not show whether they cross it.
        sum_of: as it was asked for.
        backward_sum, in_flight_sum: sums of it, as decimals; None: not asked for, or no message has a number.
        without: messages that cross it and have no such number.
        in_flight_at_cut: messages in flight across the snapshot's own cut: it holds them.
    """

    at_ms: int
    backward: int
    in_flight: int
    unknown: int
    sum_of: str
    backward_sum: str | None
    in_flight_sum: str | None
    without: int
    in_flight_at_cut: int


def instant_of(manifest: Manifest, asked: Instant) -> int:
    """Return the wall-clock time, in milliseconds since 1970.

    Raises:
        BadInputError: the time is invalid; the snapshot has no table `around`, or no times.
    """
    if not has_around(manifest):
        raise BadInputError(
            f"snapshot {manifest.id} has no table {AROUND}: it was assembled without it",
            hint="assemble it again, while its log exists",
        )
    cuts = [at for at in cut_times(manifest).values() if at is not None]
    if not manifest.ledger.triggered_ms or not cuts:
        raise BadInputError(
            f"snapshot {manifest.id} has no times of its cuts: an earlier release assembled it",
            hint="assemble it again, while its log exists",
        )
    text = asked.at.strip()
    if text[:1] in ("+", "-"):
        after = duration_ms(text[1:], "the time after the trigger", bare="ms", zero=True)
        at = manifest.ledger.triggered_ms + (after if text[0] == "+" else -after)
    else:
        at = moment_ms(text) if text else statistics.median_low(cuts)
    if not 0 <= at <= LAST_MS:
        raise BadInputError(f"the wall-clock time must lie in the years 1970 to 9999, got {asked.at!r}")
    return at


def cut_times(manifest: Manifest) -> dict[int, int | None]:
    """Return when each process cut, by the ledger's clock; None: it had left."""
    appended = {entry.offset: entry.at_ms for entry in manifest.ledger.appended}

    def at(cut: ProcessCut) -> int | None:
        return None if cut.left else appended.get(cut.report)

    return {cut.process: at(cut) for cut in manifest.captured.processes}


def sql_of_wall(manifest: Manifest, at_ms: int, sum_of: str, *, most: int, of_a_channel: int) -> str:
    """Return the query for the cut at a wall-clock time: its counts in every row, and a message in each to draw.

    Args:
        most: the limit of messages that cross it, and of the others.
        of_a_channel: the limit of messages of one channel that cross it.
    """
    cuts = ", ".join(
        f"({process}, {'NULL::BIGINT' if at is None else at})" for process, at in cut_times(manifest).items()
    )
    inputs = ", ".join(
        f"({sql_text(source.app)}, {sql_text(source.topic)}, {source.partition}, {source.receiver})"
        for source in manifest.captured.inputs
    )
    return _SQL.format(
        cuts=cuts,
        inputs=f"VALUES {inputs}" if inputs else NO_INPUTS,
        at=at_ms,
        amount=amount_sql(sum_of),
        most=most,
        of_a_channel=of_a_channel,
        of_a_side=OF_A_SIDE,
        chars=VALUE_CHARS,
    )


def amount_sql(sum_of: str) -> str:
    """Return SQL for the number of a message, NULL if it has none.

    Raises:
        BadInputError: the expression is too long.
    """
    if len(sum_of) > EXPRESSION_CHARS_MAX:
        raise BadInputError(
            f"must have at most {EXPRESSION_CHARS_MAX:,} characters, got {len(sum_of):,}", field="sum"
        )
    if not sum_of.strip():
        return f"NULL::{NUMBER}"
    if not is_expression(sum_of):
        path = "$" + "".join(f'."{name}"' for name in sum_of.strip().split("."))
        number = f"json_extract_string(CASE WHEN json_valid(value) THEN value END, {sql_text(path)})"
    else:
        number = f"TRY(({sum_of}\n))"
    return f"TRY_CAST({number} AS {NUMBER})"


def is_expression(sum_of: str) -> bool:
    """Return whether the number is an SQL expression, rather than the name of a field, or nothing."""
    return bool(sum_of.strip()) and FIELD.fullmatch(sum_of.strip()) is None


def wall_cut_of(rows: Iterable[Mapping[str, Any]], manifest: Manifest, at_ms: int, sum_of: str) -> WallCut:
    """Convert the first row of `sql_of_wall` to its counts."""
    row = next(iter(rows))
    return WallCut(
        at_ms=at_ms,
        backward=row["backward"],
        in_flight=row["flight"],
        unknown=row["unknown"],
        sum_of=sum_of.strip(),
        backward_sum=_number(row["backward_sum"]),
        in_flight_sum=_number(row["flight_sum"]),
        without=row["without"] if sum_of.strip() else 0,
        in_flight_at_cut=sum(table.rows for table in manifest.tables if table.name == "messages"),
    )


def messages_of_wall(rows: Iterable[Mapping[str, Any]], manifest: Manifest, at_ms: int) -> list[DrawnMessage]:
    """Convert rows of `sql_of_wall` to messages, each with its places relative to both cuts."""
    found = []
    for row in rows:
        if row["kind"] is None:  # nothing is to be drawn: the row has the counts
            continue
        caused = row["cause_topic"] is not None
        found.append(
            DrawnMessage(
                kind=row["kind"],
                at_cut=kind_at_cut(row, manifest.ledger.triggered_ms),
                sender=EXTERNAL if row["sender"] is None else row["sender"],
                receiver=row["receiver"],
                topic=row["topic"],
                partition=row["partition"],
                offset=row["offset"],
                key=row["key"],
                value=row["value"],
                what=_what(row, at_ms),
                sent_ms=row["sent_ms"],
                received_ms=row["received_ms"],
                cause=(row["cause_topic"], row["cause_partition"], row["cause_offset"]) if caused else None,
            )
        )
    return found


def wall_clock_of(rows: Iterable[Mapping[str, Any]], manifest: Manifest, at_ms: int) -> WallClock:
    """Return the instant as a picture has it, with the cuts of processes by clocks of their own."""
    cuts = {process: at for process, at in cut_times(manifest).items() if at is not None}
    for row in rows:
        for end in ("sender", "receiver"):
            if row[end] in cuts and row[f"{end}_cut_ms"] is not None:
                cuts[row[end]] = row[f"{end}_cut_ms"]
    return WallClock(at_ms=at_ms, name=utc_time(at_ms, "milliseconds"), cuts=cuts)


def wall_notes(cut: WallCut) -> Iterator[str]:
    """Yield sentences about it, to print below the picture."""
    field = cut.sum_of if len(cut.sum_of) <= FIELD_CHARS else f"{cut.sum_of[:FIELD_CHARS]}..."

    def summed(number: str | None) -> str:
        return f", sum of {field} {number or 'unknown'}" if field else ""

    when = utc_time(cut.at_ms, "milliseconds")
    yield f"Every process read at {when} UTC by its own clock; the order is drawn, not the time."
    if cut.backward:
        yield (
            f"At least {_count(cut.backward)} received and not sent{summed(cut.backward_sum)}: such a cut"
            " is inconsistent."
        )
    else:
        yield "No message known to be received and not sent: by these clocks and records such a cut is consistent."
    held = f"the snapshot's own cut holds its {cut.in_flight_at_cut:,}."
    if cut.in_flight:
        yield f"At least {_count(cut.in_flight)} in flight across it{summed(cut.in_flight_sum)}: in no state; {held}"
    else:
        yield f"No message known to be in flight across it; {held}"
    if off := _off(cut):
        word = "less" if off < 0 else "more"
        yield f"By these messages all states together would hold {_plain(abs(off))} of {field} {word} than exists."
    if cut.without:
        yield f"{_count(cut.without)} of these without a number for {field}, or with a value cut off in the table."
    if cut.unknown:
        yield f"{_count(cut.unknown)} without a time of receipt: whether they cross the wall-clock cut is unknown."
    yield "The window about the cut may hide more: an assembly with more records around it keeps more of each channel."


def _what(row: Mapping[str, Any], at_ms: int) -> str:
    sent, received = row["sent_ms"], row["received_ms"]
    parts = [_relative("sent", sent, at_ms)] if sent is not None else []
    parts += [_relative("received", received, at_ms)] if received is not None else []
    return ", ".join(parts) + (" the wall-clock time" if parts else "")


def _relative(what: str, time_ms: int, at_ms: int) -> str:
    return f"{what} {abs(time_ms - at_ms):,} ms {'before' if time_ms <= at_ms else 'after'}"


def _off(cut: WallCut) -> Decimal | None:
    """Compute by how much the sum over the states would be too large; None if unknown."""
    if not cut.sum_of or cut.without:
        return None
    return Decimal(cut.backward_sum or 0) - Decimal(cut.in_flight_sum or 0)


def _count(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"


def _number(value: Any) -> str | None:
    return None if value is None else _plain(Decimal(str(value)))


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text
