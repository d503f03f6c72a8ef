"""Count the channels of which messages that no table of a snapshot holds may cross a wall-clock cut.

Known are channels with a record in the tables, or with the end of a living sender. Of what is white and not received,
`messages` has all. So there may be missing:

- `earlier`: white ones before the first of the channel, where its window is full, or where its seqs do not begin with
  that one and the log was not sought from its beginning;
- `received_above`, `red_above`: some of what was skipped, between the position and the first end of a sender. White
  ones there were started out of turn; red ones are of a process that had sent nothing before its cut;
- `earlier_red`: red ones that were received, of a snapshot that is inconsistent;
- `later`: red ones after the last of the channel, where its window is full, the log goes on past what was sought, or
  the time is after the log was looked at, by the clock of the sender as its cut shows that.

They do not cross the cut where all of them are sent and received before it, or none: a process sends by a clock that
does not run backwards, white before red (`low` is its last white one, `high` its first red), and receives a partition
in order. Where only the cut of a receiver shows when it received, that counts, as for records that are there.

Of processes that had left no end is known (`of_left`): those without a record in an input are one channel of it, if the
time is before the trigger. Until then they sent, by the ledger's time; their own clocks are in no data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from snapkafka.manifest import AROUND, Manifest

__all__ = ["BEYOND", "parts_of_beyond"]

#: The place of `BEYOND` is after the CTE `kinds` of the query; it ends with the CTE `beyond`, of one row and column.
BEYOND: Final = """parts AS (
  SELECT receiver_app, topic, "partition", min(by_ms) AS first_by, max(from_ms) AS last_from FROM timed GROUP BY ALL),
seen AS (
  SELECT sender, receiver_app, topic, "partition", min(seq) AS first_seq, {full_white} AS full_white,
         {full_backward} AS full_backward, {full_red} AS full_red,
         max(seq) FILTER (WHERE side = 'white') AS white_seq, min(seq) FILTER (WHERE side = 'red') AS red_seq,
         arg_min(sent, "offset") AS first_sent, arg_min(by_ms, "offset") AS first_by,
         arg_min(sent, "offset") FILTER (WHERE side = 'white' AND received) AS kept_sent,
         arg_min(by_ms, "offset") FILTER (WHERE side = 'white' AND received) AS kept_by,
         arg_min(kind, "offset") FILTER (WHERE side = 'red') AS first_red,
         arg_min(kind, "offset") FILTER (WHERE side = 'red' AND received) AS first_backward,
         arg_max(sent, "offset") AS last_sent, arg_max(from_ms, "offset") AS last_from
  FROM kinds WHERE known AND sender IS NOT NULL GROUP BY ALL),
pairs AS (
  SELECT sender, receiver_app, topic, "partition" FROM seen
  UNION SELECT sender, app, topic, "partition" FROM ends JOIN inputs USING (topic, "partition")),
sought AS (
  SELECT seen.*, ends.last_seq, above, start, skips, whole, s.has_left, s.low, s.high,
         {looked_ms} + coalesce(s.cut_ms - s.at_ms, 0) AS looked_ms, r.cut_ms,
         parts.first_by AS part_first_by, parts.last_from AS part_last_from,
         coalesce(last_seq >= 0, s.has_left OR white_seq IS NOT NULL) AS has_whites
  FROM pairs LEFT JOIN seen USING (sender, receiver_app, topic, "partition")
  LEFT JOIN ends USING (sender, topic, "partition")
  LEFT JOIN parts USING (receiver_app, topic, "partition")
  JOIN inputs i ON i.app = pairs.receiver_app AND i.topic = pairs.topic AND i."partition" = pairs."partition"
  JOIN clocks s ON s.process = pairs.sender JOIN clocks r ON r.process = i.process),
missing AS (
  SELECT
    (full_white OR (start > 0 AND has_whites)) AND coalesce(first_seq, 1) > 0 AND NOT (
      coalesce(high <= {at} OR CASE WHEN full_white THEN kept_sent ELSE first_sent END, false) AND
      coalesce(cut_ms <= {at} OR {at} >= CASE WHEN full_white THEN kept_by WHEN above THEN first_by
                                              ELSE part_first_by END, false)) AS earlier,
    skips AND above AND has_whites AND coalesce(white_seq < last_seq, true)
      AND NOT coalesce(high <= {at} AND cut_ms <= {at}, false) AS received_above,
    skips AND NOT has_left AND last_seq IS NULL AND coalesce(red_seq > 0, false)
      AND NOT coalesce(first_red = 'received' OR (low > {at} AND cut_ms >= {at}), false) AS red_above,
    full_backward AND first_backward <> 'received' AS earlier_red,
    NOT has_left AND (full_red OR NOT whole OR {at} > looked_ms) AND NOT (
      coalesce(NOT last_sent OR low > {at}, false) AND
      coalesce(cut_ms >= {at} OR last_from > {at} OR (NOT full_red AND part_last_from > {at}), false)) AS later
  FROM (SELECT * REPLACE (coalesce(full_white, false) AS full_white, coalesce(full_backward, false) AS full_backward,
                          coalesce(full_red, false) AS full_red) FROM sought)),
of_left AS (
  SELECT app FROM inputs i WHERE {at} < {triggered} AND start > 0 AND EXISTS (
    SELECT 1 FROM cuts WHERE has_left AND process NOT IN (
      SELECT sender FROM seen WHERE receiver_app = i.app AND topic = i.topic AND "partition" = i."partition"))),
beyond AS (
  SELECT count(*) FILTER (WHERE earlier OR received_above OR red_above OR earlier_red OR later)
         + (SELECT count(*) FROM of_left) AS beyond FROM missing)"""
#: Columns of the rows of `_ends` and `_inputs`.
_ENDS: Final = "NULL::BIGINT, NULL::VARCHAR, NULL::INTEGER, NULL::BIGINT"
_INPUTS: Final = (
    "NULL::VARCHAR, NULL::VARCHAR, NULL::INTEGER, NULL::BIGINT, NULL::BOOLEAN, NULL::BIGINT, NULL::BOOLEAN, "
    "NULL::BOOLEAN"
)
#: Kinds of records of a channel that have windows of their own.
_KINDS: Final = {
    "white": "side = 'white' AND received",
    "backward": "side = 'red' AND received",
    "red": "side = 'red' AND NOT received",
}
#: The size of the largest window, as far as the table shows it.
_WIDEST: Final = (
    "(SELECT max(n) FROM (SELECT count(*) AS n FROM around"
    ' GROUP BY sender, receiver_app, topic, "partition", side, received))'
)
#: An earlier release does not state when it looked at the log: later than any time that is asked for.
FAR_MS: Final = 1 << 60


def parts_of_beyond(manifest: Manifest) -> dict[str, Any]:
    """Return what the query is formatted with for `BEYOND`."""
    exact = _names_farthest(manifest)
    return {
        "ends": _values(_ENDS, _ends(manifest)),
        "inputs": _values(_INPUTS, _inputs(manifest)),
        "more": "coalesce(more, false)" if exact else "false",
        **{f"full_{name}": _full(kind, exact=exact) for name, kind in _KINDS.items()},
        "looked_ms": FAR_MS if manifest.around is None else manifest.around.looked_ms,
        "triggered": manifest.ledger.triggered_ms,
    }


def _names_farthest(manifest: Manifest) -> bool:
    """Return whether the table names the rows beyond which records of their kind lie; earlier releases wrote none."""
    columns = (column for table in manifest.tables if table.name == AROUND for column in table.schema)
    return any(column.name == "more" for column in columns)


def _full(kind: str, *, exact: bool) -> str:
    """SQL: do records of a kind of a channel lie beyond its window? Without `more` a window as large as any counts."""
    return f"bool_or(more) FILTER (WHERE {kind})" if exact else f"count(*) FILTER (WHERE {kind}) >= {_WIDEST}"


def _values(columns: str, rows: Iterable[str]) -> str:
    """SQL for rows, or for none of these columns."""
    return f"VALUES {listed}" if (listed := ", ".join(rows)) else f"SELECT {columns} WHERE false"


def _ends(manifest: Manifest) -> Iterator[str]:
    """Where the white records of each living sender end."""
    inputs = {(source.topic, source.partition) for source in manifest.captured.inputs}
    for end in manifest.captured.senders:
        if (end.topic, end.partition) in inputs:
            yield f"({end.process}, {_text(end.topic)}, {end.partition}, {end.last_seq})"


def _inputs(manifest: Manifest) -> Iterator[str]:
    """The inputs: who cut each, whether something above its position was started, and what of it assembly sought:
    `start`: from there on; `skips`: but for offsets between; `whole`: up to where its log ended. An earlier release
    does not state that: then something lies before `start`, and all of the rest was sought."""
    sought = {} if manifest.around is None else {
        (item.app, item.topic, item.partition): item for item in manifest.around.inputs
    }  # fmt: skip
    for source in manifest.captured.inputs:
        above = any(agent.started_above for agent in source.agents)
        start, skips, whole = 1, False, True
        if (item := sought.get((source.app, source.topic, source.partition))) is not None:
            start, skips, whole = item.start, item.late > item.middle, item.end >= item.log_end
        place = f"{_text(source.app)}, {_text(source.topic)}, {source.partition}"
        yield f"({place}, {source.receiver}, {above}, {start}, {skips}, {whole})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
