"""The table `state`: changes of tables, folded, as `spark.tables.state` folds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from snapkafka.assembly.rows import changelog_rows
from snapkafka.checks import CutView
from snapkafka.protocol.records import TopicPartition

from .handover import HandOverError
from .json_text import parsed, unparsed, window_of
from .log import Record
from .values import Decoder, Form, form, why_undecoded

#: The first part of the keys in the changelog of a table of sets (`faust.tables.sets`).
ADD: Final = 1
DISCARD: Final = 2
UPDATE: Final = 15


class Change(NamedTuple):
    """The last change of a key, decoded."""

    key_raw: bytes | None
    value_raw: bytes | None
    offset: int
    key: Form
    value: Form


def state_rows(view: CutView, records: Iterable[Record], decoded: Decoder) -> Iterator[dict[str, Any]]:
    """Yield the rows of every table: the fold of the white changes below the ends of the changelogs (R8)."""
    for table, changes in _white(view, records):
        codecs = table["key_codec"], table["value_codec"]
        if table["sets"]:
            found = _sets(changes, codecs, decoded)
        else:
            last = (record for record in _last_of_keys(changes) if record.value is not None)
            found = (_change(record, codecs, decoded) for record in last)
        for change in found:
            yield _row(table, change)


def delta_rows(
    view: CutView, records: Iterable[Record], parent: CutView, decoded: Decoder
) -> Iterator[dict[str, Any]]:
    """Yield the keys whose value at the cut differs from the parent's, with that value, or as `deleted`; and all sets,
    because for these every record of the changelog counts (`spark.tables.incremental`).

    Args:
        records: of each changelog those from its settled offset in the parent on; changelogs of sets as a whole.
    """
    ends = {_place(table): table["end"] for table in changelog_rows(parent)}
    for table, changes in _white(view, records):
        codecs = table["key_codec"], table["value_codec"]
        if table["sets"]:
            found = _sets(changes, codecs, decoded)
        else:
            below = ends.get(_place(table), 0)
            last = (
                it
                for it in _last_of_keys(changes)
                if it.offset >= below or not parent.white_below_end(it.for_checks())
            )
            found = (_change(record, codecs, decoded) for record in last)
        for change in found:
            yield _row(table, change) | {"deleted": change.value_raw is None}


def _white(view: CutView, records: Iterable[Record]) -> Iterator[tuple[dict[str, Any], list[Record]]]:
    """Yield each changelog with the changes that are part of the state."""
    by_partition: dict[TopicPartition, list[Record]] = {}
    for record in records:
        if record.tp in view.changelogs and record.tp not in view.recreated:
            by_partition.setdefault(record.tp, []).append(record)
    for table in changelog_rows(view):
        tp = TopicPartition(table["topic"], table["partition"])
        yield (
            table,
            [
                it
                for it in by_partition.get(tp, ())
                if it.offset < table["end"] and view.in_state(it.for_checks())
            ],
        )


def _place(table: dict[str, Any]) -> tuple[str, str, str, int]:
    return table["app"], table["table_name"], table["topic"], table["partition"]


def _last_of_keys(changes: list[Record]) -> Iterable[Record]:
    return {record.key: record for record in changes}.values()


def _change(record: Record, codecs: tuple[str, str], decoded: Decoder) -> Change:
    return Change(
        record.key,
        record.value,
        record.offset,
        decoded.key(record, codecs[0]),
        decoded.value(record, codecs[1]),
    )


def _row(table: dict[str, Any], change: Change) -> dict[str, Any]:
    key, start, end = change.key, None, None
    if table["windowed"] and key.why is None:
        window = None if key.json is None else window_of(key.json)
        if window is None:
            key = key._replace(why="no window")
        else:
            key, start, end = form(window[0]), window[1], window[2]
    return {
        "app": table["app"],
        "table_name": table["table_name"],
        "partition": table["partition"],
        "key": key.text,
        "value": change.value.text,
        "key_raw": change.key_raw,
        "value_raw": change.value_raw,
        "changelog_topic": table["topic"],
        "changelog_offset": change.offset,
        "why_undecoded": why_undecoded(key, change.value),
        "window_start": start,
        "window_end": end,
    }


# --- Sets -----------------------------------------------------------------------------------------------------------


def _sets(changes: list[Record], codecs: tuple[str, str], decoded: Decoder) -> Iterator[Change]:
    """Yield one change per set, from the operations that made it; its bytes are one operation that recreates it.

    Unreadable operations stay as they are: the last one of those with the same bytes.
    """
    present: dict[str, dict[str, bool]] = {}
    latest: dict[str, int] = {}
    unread: dict[tuple[bytes | None, bytes | None], Change] = {}
    for record in changes:
        if record.value is None:
            continue
        key, value = decoded.key(record, codecs[0]), decoded.value(record, codecs[1])
        operation = _operation(key.json, value.json)
        if operation is None:
            why = key.why or (None if value.why else "no operation of a set")
            unread[record.key, record.value] = Change(
                record.key, record.value, record.offset, key._replace(why=why), value
            )
            continue
        of, added, lost = operation
        members = present.setdefault(of, {})
        members |= dict.fromkeys(added, True) | dict.fromkeys(lost, False)
        latest[of] = record.offset
    for of, members in present.items():
        held = sorted((member for member, there in members.items() if there), key=str.encode)
        content = f"[{','.join(held)}]"
        yield Change(
            f"[{UPDATE},{of}]".encode(), f"[{content},[]]".encode(), latest[of], form(of), form(content)
        )
    yield from unread.values()


def _operation(key: str | None, value: str | None) -> tuple[str, list[str], list[str]] | None:
    """Return the set, and the members that an operation adds and removes, as JSON; None: it is unreadable."""
    if key is None or value is None:
        return None
    k, v = parsed(key), parsed(value)
    if not isinstance(k, list) or len(k) < 2:
        return None
    if not isinstance(k[0], int) or isinstance(k[0], bool):
        raise HandOverError("an operation of a set whose number is none")
    of = unparsed(k[1])
    if k[0] == ADD:
        return of, [unparsed(v)], []
    if k[0] == DISCARD:
        return of, [], [unparsed(v)]
    if (
        k[0] == UPDATE
        and isinstance(v, list)
        and len(v) > 1
        and all(isinstance(part, list) for part in v[:2])
    ):
        return of, list(map(unparsed, v[0])), list(map(unparsed, v[1]))
    return None
