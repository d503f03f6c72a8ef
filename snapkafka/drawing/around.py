"""Messages on both sides of a cut, from the table `around` of an assembled snapshot.

The table is part of the snapshot (`snapkafka.assembly.around`), so nothing here needs the log, or a broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from snapkafka.manifest import Manifest

from .layout import EXTERNAL
from .order import DrawnMessage

#: Of one channel and side so many are drawn that do not cross the cut.
OF_A_SIDE: Final = 3
VALUE_CHARS: Final = 80

#: Messages in flight come from `messages`, which has them all, with the causes that `around` has of the nearest.
_IN_FLIGHT: Final = """
SELECT * EXCLUDE nth FROM (
  SELECT 'white' AS side, false AS received, m.sender, receiver_app, topic,
         "partition", "offset", left(coalesce(m.key, ''), {chars}) AS key,
         left(coalesce(m.value, ''), {chars}) AS value, m.timestamp_ms AS sent_ms,
         a.cause_topic, a.cause_partition, a.cause_offset,
         row_number() OVER (PARTITION BY m.sender, receiver_app, topic, "partition" ORDER BY "offset") AS nth
  FROM messages m LEFT JOIN around a USING (receiver_app, topic, "partition", "offset"))
WHERE nth <= {of_a_channel} ORDER BY nth, topic, "partition" LIMIT {most}
"""
_NEAR: Final = """
SELECT * EXCLUDE nth FROM (
  SELECT side, received, sender, receiver_app, topic, "partition", "offset",
         left(coalesce(key, ''), {chars}) AS key, left(coalesce(value, ''), {chars}) AS value,
         sent_ms, cause_topic, cause_partition, cause_offset,
         row_number() OVER (PARTITION BY sender, receiver_app, topic, "partition", side, received
                            ORDER BY CASE WHEN received THEN -"offset" ELSE "offset" END) AS nth
  FROM around WHERE received OR side <> 'white')
WHERE nth <= {of_a_side} ORDER BY (received AND side = 'red') DESC, nth, topic, "partition" LIMIT {most}
"""
_TOTAL: Final = "SELECT count(*) FROM around WHERE received OR side <> 'white'"


def sql_of(most: int, of_a_channel: int) -> str:
    """Return the query for the messages of a picture: those in flight, and those that do not cross the cut.

    Args:
        most: the limit of each kind.
        of_a_channel: the limit of messages in flight of one channel.
    """
    flight = _IN_FLIGHT.format(chars=VALUE_CHARS, of_a_channel=of_a_channel, most=most)
    near = _NEAR.format(chars=VALUE_CHARS, of_a_side=OF_A_SIDE, most=most)
    return f"SELECT *, ({_TOTAL}) AS near FROM (SELECT * FROM ({flight}) UNION ALL SELECT * FROM ({near}))"


def messages_of(rows: Iterable[Mapping[str, Any]], manifest: Manifest) -> list[DrawnMessage]:
    """Convert rows of `sql_of` to messages; those of processes that the snapshot does not know are left out."""
    receivers = {(cut.app, cut.topic, cut.partition): cut.receiver for cut in manifest.captured.inputs}
    known = {cut.process for cut in manifest.captured.processes}
    found = []
    for row in rows:
        receiver = receivers.get((row["receiver_app"], row["topic"], row["partition"]))
        external = row["side"] == "external"
        if receiver not in known or (not external and row["sender"] not in known):
            continue
        caused = row["cause_topic"] is not None
        found.append(
            DrawnMessage(
                kind=_kind_at_cut(row, manifest.ledger.triggered_ms),
                sender=EXTERNAL if external else row["sender"],
                receiver=receiver,
                topic=row["topic"],
                partition=row["partition"],
                offset=row["offset"],
                key=row["key"],
                value=row["value"],
                sent_ms=row["sent_ms"],
                cause=(row["cause_topic"], row["cause_partition"], row["cause_offset"]) if caused else None,
            )
        )
    return found


def _kind_at_cut(row: Mapping[str, Any], triggered_ms: int) -> str:
    """Return the position of a record relative to the cut (`Message.kind`); for an unreceived external one its time
    decides."""
    match row["side"], row["received"]:
        case "white", False:
            return "in-flight"
        case "red", True:
            return "backward"
        case _, True:
            return "received"
        case "external", _ if (row["sent_ms"] or 0) < triggered_ms:
            return "waiting"
        case _:
            return "later"
