"""Leave out erased keys and mask values on the way from a snapshot into a restore or a fork.

`--suppress FILE` names keys of people who were erased since: by exact key, by prefix, or by SQL. They are left out of
every table, channel and window. `--mask FILE` replaces values by SQL expressions, per table or topic. Both fail closed:
a mask that names no table, or that cannot be applied to a value, ends the run instead of copying what it was to hide.

Both files are TOML. The SQL is DuckDB's, runs over batches in an engine that sees nothing else of this machine, and
knows the columns app, "table", topic, partition, key and value (texts; of a window or a set the key within).
"""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from snapkafka.errors import BadInputError
from snapkafka.kafka.bulk import LogRecord
from snapkafka.protocol.captured import Captured, ChangelogCut
from snapkafka.runtime.extras import extra_missing

from .state import Row

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["Editing", "Mask", "Suppression", "key_text", "read_masks", "read_suppression"]

#: Records that are looked at together.
BATCH: Final = 5_000
COLUMNS: Final = ("app", "table", "topic", "partition", "key", "value")
MASK_HINT: Final = "see docs/guide/fork.md for the form of the file"


T = TypeVar("T", Row, LogRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """Name erased keys: `keys` exactly, those that begin with one of `prefixes`, those for which one of `sql` holds."""

    keys: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    sql: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Replace values of a table or a topic. `value`: an expression for the whole of it; `fields`: one for each field of
    a JSON object, whose name may have dots."""

    app: str = ""
    table: str = ""
    topic: str = ""
    value: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"topic {self.topic}"
            if self.topic
            else f"table {self.table}" + (f" of {self.app}" * bool(self.app))
        )


# --- Files -----------------------------------------------------------------------------------------------------------


def read_suppression(path: str) -> Suppression:
    """Read a file of erased keys.

    Raises:
        BadInputError: it cannot be read, or names nothing.
    """
    found = _toml(path)
    if unknown := sorted(found.keys() - {"keys", "prefixes", "sql"}):
        raise BadInputError(
            f"{path} has {unknown[0]}", hint="it may have keys, prefixes and sql, each a list"
        )
    for name, texts in found.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
            raise BadInputError(f"{path}: {name} must be a list of texts, none empty", hint=MASK_HINT)
    if not any(found.values()):
        raise BadInputError(f"{path} names no key", hint="it may have keys, prefixes and sql, each a list")
    return Suppression(**{name: tuple(texts) for name, texts in found.items()})


def read_masks(path: str) -> tuple[Mask, ...]:
    """Read a file of masks.

    Raises:
        BadInputError: it cannot be read, or a mask has no target or no value.
    """
    found = _toml(path)
    masks = found.get("mask")
    if found.keys() != {"mask"} or not isinstance(masks, list):
        raise BadInputError(f"{path} must have one or more [[mask]], and nothing else", hint=MASK_HINT)
    return tuple(_mask(path, number, it) for number, it in enumerate(masks, 1))


def _mask(path: str, number: int, it: Mapping[str, Any]) -> Mask:
    what = f"{path}: mask {number}"
    if unknown := sorted(it.keys() - {"app", "table", "topic", "value", "fields"}):
        raise BadInputError(f"{what} has {unknown[0]}", hint=MASK_HINT)
    fields = it.get("fields", {})
    texts = [it[name] for name in it if name != "fields"] + list(
        fields.values() if isinstance(fields, dict) else [None]
    )
    if not all(isinstance(text, str) and text for text in texts):
        raise BadInputError(f"{what} has an entry that is not a text", hint=MASK_HINT)
    if bool(it.get("table")) == bool(it.get("topic")):
        raise BadInputError(f"{what} must name a table or a topic", hint=MASK_HINT)
    if bool(it.get("value")) == bool(fields):
        raise BadInputError(f"{what} must have a value or fields", hint=MASK_HINT)
    return Mask(**it)


def _toml(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path} cannot be read: {error}", hint=MASK_HINT) from error


# --- Applied ---------------------------------------------------------------------------------------------------------


class Editing:
    """Apply both to what a snapshot holds, by the names of production.

    Args:
        captured: names the tables of its changelogs.

    Raises:
        BadInputError: a mask names what the snapshot does not have, or its SQL is wrong.
        DependencyMissingError: it takes DuckDB, which is not installed.
    """

    def __init__(
        self, captured: Captured, suppression: Suppression | None = None, masks: tuple[Mask, ...] = ()
    ) -> None:
        self.suppressed = self.masked = 0
        self._cuts = {cut.topic: cut for cut in captured.changelogs}
        self._suppression = suppression or Suppression()
        self._masks = masks
        self._exact = frozenset(self._suppression.keys)
        inputs = {cut.topic for cut in captured.inputs}
        for mask in masks:
            if mask.topic not in inputs and not any(_is_of(mask, cut) for cut in captured.changelogs):
                raise BadInputError(
                    f"the snapshot has no {mask}: the mask would hide nothing",
                    hint="correct its name; inputs go by topic, changelogs by table",
                )
        self._database: DuckDBPyConnection | None = None
        if masks or self._suppression.sql:
            self._database = _engine()
            self._apply([])  # a wrong expression is found before anything is written

    def edit(self, items: Iterable[T]) -> Iterator[T]:
        """Leave out what is erased, and mask the rest; the order stays."""
        for item, erased in self.marked(items):
            if not erased:
                yield item

    def marked(self, items: Iterable[T]) -> Iterator[tuple[T, bool]]:
        """Mask, and mark each item that is erased."""
        remaining = iter(items)
        while batch := list(itertools.islice(remaining, BATCH)):
            yield from self._apply(batch)

    def erases_any(self, items: Iterable[T]) -> bool:
        """Is one of them erased?"""
        counted = self.suppressed, self.masked
        try:
            return any(erased for _, erased in self.marked(items))
        finally:
            self.suppressed, self.masked = counted

    @property
    def idle(self) -> bool:
        """Is there nothing to do?"""
        return not (self._exact or self._suppression.prefixes or self._suppression.sql or self._masks)

    def _apply(self, batch: list[T]) -> list[tuple[T, bool]]:
        if self.idle:
            return [(item, False) for item in batch]
        texts = [key_text(item.key, self._cuts.get(item.tp.topic)) for item in batch]
        erased = [
            text is not None
            and (text in self._exact or text.startswith(self._suppression.prefixes or ("\0",)))
            for text in texts
        ]
        if self._database is not None:
            self._fill(self._database, batch, texts)
            for sql in self._suppression.sql:
                for (number,) in self._ask(self._database, f"SELECT n FROM records WHERE ({sql})", sql):
                    erased[number] = True
            for mask in self._masks:
                self._apply_mask(self._database, mask, batch, erased)
        self.suppressed += sum(erased)
        return list(zip(batch, erased, strict=True))

    def _fill(self, database: DuckDBPyConnection, batch: list[T], texts: list[str | None]) -> None:
        cuts = [self._cuts.get(item.tp.topic) for item in batch]
        lists: list[list[Any]] = [
            list(range(len(batch))),
            [cut.app if cut is not None else None for cut in cuts],
            [cut.table if cut is not None else None for cut in cuts],
            [item.tp.topic for item in batch],
            [item.tp.partition for item in batch],
            list(texts),
            [_text(item.value) for item in batch],
        ]
        database.execute("DELETE FROM records")
        if batch:
            columns = ", ".join("unnest(?)" for _ in lists)
            database.execute(f"INSERT INTO records SELECT {columns}", lists)

    def _apply_mask(
        self, database: DuckDBPyConnection, mask: Mask, batch: list[T], erased: list[bool]
    ) -> None:
        of = "topic = $1" if mask.topic else """"table" = $1 AND ($2 = '' OR app = $2)"""
        names = [mask.topic] if mask.topic else [mask.table, mask.app]
        changed = mask.value or f"json_merge_patch(value, {_patch(mask.fields)})"
        fits = "true" if mask.value else "coalesce(json_type(value) = 'OBJECT', false)"
        sql = f"SELECT n, {fits}, CAST(({changed}) AS VARCHAR) FROM records WHERE {of}"
        for number, fitting, value in self._ask(database, sql, str(mask), names):
            item = batch[number]
            if item.value is None or erased[number]:
                continue
            if _text(item.value) is None or not fitting or value is None:
                raise BadInputError(
                    f"the mask of {mask} cannot be applied to a value in {item.tp}: it is"
                    f" {'masked by nothing' if fitting else 'no JSON object in UTF-8'}",
                    hint="mask the whole value, or suppress the key: nothing is copied as it is",
                )
            batch[number] = item._replace(value=value.encode())
            self.masked += 1

    def _ask(
        self, database: DuckDBPyConnection, sql: str, what: str, values: list[str] | None = None
    ) -> list[Any]:
        import duckdb

        try:
            found: list[Any] = database.execute(sql, values or []).fetchall()
            return found
        except duckdb.Error as error:
            raise BadInputError(
                f"the SQL of {what} fails: {' '.join(str(error).split())}",
                hint=f"it is an expression over the columns {', '.join(COLUMNS)}",
            ) from error


def key_text(key: bytes | None, cut: ChangelogCut | None) -> str | None:
    """Read a key as text: a JSON string as its content, of a window or a set the key within; None: it has no text.

    Args:
        cut: of the changelog that it is from; None: it is from an input.
    """
    text = _text(key)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if cut is not None and cut.sets and isinstance(found, list) and len(found) == 2:
        found = found[1]
    if cut is not None and cut.windowed and _is_window(found):
        found = found[0]
    return found if isinstance(found, str) else json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def _is_window(key: object) -> bool:
    """Is it what Faust has for a key of a windowed table: the key, and the first and last second?"""
    return (
        isinstance(key, list)
        and len(key) == 2
        and isinstance(key[1], list)
        and len(key[1]) == 2
        and all(isinstance(at, int | float) for at in key[1])
    )


def _is_of(mask: Mask, cut: ChangelogCut) -> bool:
    return bool(mask.table) and mask.table == cut.table and mask.app in ("", cut.app)


def _text(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None


def _patch(fields: Mapping[str, str]) -> str:
    """SQL of a JSON object of these fields; one with dots is of an object within."""
    nested: dict[str, dict[str, str]] = {}
    parts = []
    for name, sql in fields.items():
        first, dot, rest = name.partition(".")
        if dot:
            nested.setdefault(first, {})[rest] = sql
        else:
            parts.append(f"{_quoted(first)}, ({sql})")
    parts += [f"{_quoted(first)}, {_patch(within)}" for first, within in nested.items()]
    return f"json_object({', '.join(parts)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _engine() -> DuckDBPyConnection:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise extra_missing("query", "masks and suppression by SQL", "duckdb") from error
    database = duckdb.connect(
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
    )
    database.execute(
        'CREATE TABLE records (n BIGINT, app VARCHAR, "table" VARCHAR, topic VARCHAR, partition BIGINT,'
        " key VARCHAR, value VARCHAR)"
    )
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    return database
