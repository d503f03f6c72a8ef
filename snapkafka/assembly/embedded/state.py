"""The table `state`: changes of tables, folded, as `spark.tables.state` folds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from snapkafka.assembly.rows import changelog_rows
from snapkafka.assembly.values.decoder import Codecs, Decoder, Texts
from snapkafka.assembly.values.json_text import UPDATE
from snapkafka.checks import CutView
from snapkafka.protocol.records import TopicPartition

from .log import Record


class Change(NamedTuple):
    """The last change of a key, decoded."""

    key_raw: bytes | None
    value_raw: bytes | None
    offset: int
    texts: Texts


def state_rows(view: CutView, records: Iterable[Record], decoded: Decoder) -> Iterator[dict[str, Any]]:
    """Yield the rows of every table: the fold of the white changes below the ends of the changelogs (R8)."""
    for table, changes in _white(view, records):
        if table["sets"]:
            found = _sets(changes, table, decoded)
        else:
            last = (record for record in _last_of_keys(changes) if record.value is not None)
            found = (_change(record, table, decoded) for record in last)
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
        if table["sets"]:
            found = _sets(changes, table, decoded)
        else:
            below = ends.get(_place(table), 0)
            last = (
                it
                for it in _last_of_keys(changes)
                if it.offset >= below or not parent.is_white(it.for_checks(parent))
            )
            found = (_change(record, table, decoded) for record in last)
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
                if it.offset < table["end"] and view.in_state(it.for_checks(view))
            ],
        )


def _place(table: dict[str, Any]) -> tuple[str, str, str, int]:
    return table["app"], table["table_name"], table["topic"], table["partition"]


def _last_of_keys(changes: list[Record]) -> Iterable[Record]:
    return {record.key: record for record in changes}.values()


def _change(record: Record, table: dict[str, Any], decoded: Decoder, *, unread: bool = False) -> Change:
    texts = decoded.texts(
        record.topic, record.key, record.value, _codecs(table), windowed=table["windowed"], unread=unread
    )
    return Change(record.key, record.value, record.offset, texts)


def _codecs(table: dict[str, Any]) -> Codecs:
    return table["key_codec"], table["value_codec"]


def _row(table: dict[str, Any], change: Change) -> dict[str, Any]:
    return {
        "app": table["app"],
        "table_name": table["table_name"],
        "partition": table["partition"],
        "key_raw": change.key_raw,
        "value_raw": change.value_raw,
        "changelog_topic": table["topic"],
        "changelog_offset": change.offset,
        **change.texts._asdict(),
    }


def _sets(changes: list[Record], table: dict[str, Any], decoded: Decoder) -> Iterator[Change]:
    """Yield one change per set, from the operations that made it; its bytes are one operation that recreates it.

    Unreadable operations stay as they are: the last one of those with the same bytes.
    """
    present: dict[str, dict[str, bool]] = {}
    latest: dict[str, int] = {}
    unread: dict[tuple[bytes | None, bytes | None], Change] = {}
    for record in changes:
        if record.value is None:
            continue
        operation = decoded.operation(record.topic, record.key, record.value, _codecs(table))
        if operation is None:
            unread[record.key, record.value] = _change(record, table, decoded, unread=True)
            continue
        members = present.setdefault(operation.of, {})
        members |= dict.fromkeys(operation.added, True) | dict.fromkeys(operation.lost, False)
        latest[operation.of] = record.offset
    for of, members in present.items():
        held = sorted((member for member, there in members.items() if there), key=str.encode)
        content = f"[{','.join(held)}]"
        texts = decoded.texts(
            "", of.encode(), content.encode(), ("json", "json"), windowed=table["windowed"]
        )  # of no topic: no schema is for these bytes
        yield Change(f"[{UPDATE},{of}]".encode(), f"[{content},[]]".encode(), latest[of], texts)
    yield from unread.values()
