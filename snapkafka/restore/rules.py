"""Rules about what is copied: the files that name erased keys and masks, and what they look at.

A person's name may be the whole of a key, the key within a window or a set, or one field of a key that is a JSON
object or array. Exact keys are compared with all of these, prefixes with those that are text.

A mask replaces a whole value, or fields of a JSON text: all other fields stay byte for byte, numbers of any size too. A
missing field is never added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeVar

import msgspec

from snapkafka.errors import BadInputError
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut
from snapkafka.store.database import database, locked, one_line
from snapkafka.wire import headers as wire

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILE_HINT: Final = "see docs/guide/fork.md for its form"
#: Control characters that are no whitespace: they belong to binary formats (framed Avro, integers of Java's).
CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")

#: The columns that an expression may use. `app`, `table_name`: empty for an input.
COLUMNS: Final = {
    "app": "VARCHAR",
    "table_name": "VARCHAR",
    "topic": "VARCHAR",
    "partition": "BIGINT",
    "key": "VARCHAR",
    "value": "VARCHAR",
    "headers": "VARCHAR",
    "key_raw": "BLOB",
    "value_raw": "BLOB",
}
SQL_HINT: Final = f"it is an expression over the columns {', '.join(COLUMNS)}"
Text = Annotated[str, msgspec.Meta(min_length=1)]
T = TypeVar("T")


class Suppression(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Erased keys: `keys` exactly, those that begin with one of `prefixes`, those for which one of `sql` holds.

    `binary`: tables and input topics that may hold keys, values and headers that are not text. Everywhere else such a
    record is refused, because it cannot be compared with erased keys.
    """

    keys: tuple[Text, ...] = ()
    prefixes: tuple[Text, ...] = ()
    sql: tuple[Text, ...] = ()
    binary: tuple[Text, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keys or self.prefixes or self.sql)


def read_suppression(path: str) -> Suppression:
    """Read a file of erased keys; it has to name one."""
    if found := read_toml(path, Suppression):
        return found
    raise BadInputError(f"{path} names no key", hint=FILE_HINT)


def read_toml(path: str, kind: type[T]) -> T:
    try:
        return msgspec.toml.decode(Path(path).read_bytes(), type=kind)
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path} cannot be read: {error}", hint=FILE_HINT) from error


def has_text(raw: bytes | None) -> bool:
    """Return whether it is null, or UTF-8 without control characters."""
    return raw is None or (CONTROLS.search(raw) is None and text_of(raw) is not None)


def text_of(raw: bytes | None) -> str | None:
    """Decode UTF-8, without a byte order mark; None: it is null, or not UTF-8."""
    try:
        return None if raw is None else raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None


class Key(NamedTuple):
    """A key in the form for comparison. `text`: the whole of it; None: it is null, or not text. `texts`, `numbers`:
    its parts. `problem`: why it could not be parsed; empty: it was."""

    text: str | None
    texts: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    problem: str = ""

    def rules(self, suppression: Suppression) -> Iterator[tuple[str, str]]:
        """Yield the rules by which it is erased: exact keys that it is, or that a field of it is, and prefixes of it,
        or of a text within it."""
        yield from (("key", key) for key in suppression.keys if key in self.texts or key in self.numbers)
        for prefix in suppression.prefixes:
            if any(text.startswith(prefix) for text in self.texts):
                yield "prefix", prefix


class _Object(dict[str, Any]):
    """A JSON object that keeps all values of repeated names."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.every = [value for _, value in pairs]


_decoder: Final = json.JSONDecoder(object_pairs_hook=_Object)


def read_key(key: bytes | None, cut: ChangelogCut | None) -> Key:
    """Parse a key. `cut`: of its changelog; None: it is from an input, or a member of a set."""
    text = text_of(key)
    if text is None:
        return Key(None, problem="" if key is None else "is not UTF-8")
    try:
        found = _decoder.decode(text)
    except json.JSONDecodeError:
        return Key(text, frozenset([text]))
    except (ValueError, RecursionError):  # a number of thousands of digits, or as many brackets
        return Key(text, frozenset([text]), problem="is JSON that is too large to be taken apart")
    pair = isinstance(found, list) and len(found) == 2
    if cut is not None and (cut.sets or cut.windowed) and pair:  # a kind and a set; a key and a window
        found = found[1 if cut.sets else 0]
    if isinstance(found, str):
        return Key(found, frozenset([found]))
    whole = _written(found)
    leaves = list(_leaves(found))
    texts = frozenset([whole, *(leaf for leaf in leaves if isinstance(leaf, str))])
    return Key(whole, texts, frozenset(_written(leaf) for leaf in leaves if not isinstance(leaf, str)))


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the texts and integers of a value of JSON."""
    remaining = [value]
    while remaining:
        match remaining.pop():
            case str() | int() as leaf if not isinstance(leaf, bool):
                yield leaf
            case _Object() as within:
                remaining += within.every
            case list() as within:
                remaining += within


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Expressions:
    """DuckDB, which sees a batch of records and nothing else of this machine."""

    def __init__(self) -> None:
        self._opened = database(())
        self._database, self._count = self._opened.__enter__(), 0
        columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
        self._database.execute(f"CREATE TABLE records (n BIGINT, {columns})")
        locked(self._database, ())

    def fill(self, subjects: Sequence[tuple[Any, ...]]) -> None:
        """Replace the batch: of each record the values of `COLUMNS`."""
        self._count = len(subjects)
        self._database.execute("DELETE FROM records")
        if subjects:
            lists: list[list[Any]] = [list(range(len(subjects))), *map(list, zip(*subjects, strict=True))]
            marks = ", ".join("unnest(?)" for _ in lists)
            self._execute(f"INSERT INTO records SELECT {marks}", "a record", lists)

    def ask(self, asked: str, what: str) -> list[Any]:
        """Evaluate an expression for each record. `what`: the name of its source, for the error."""
        found = [it for (it,) in self._execute(f"SELECT {asked} FROM records ORDER BY n", what).fetchall()]
        if len(found) != self._count:
            raise BadInputError(
                f"the SQL of {what} gives {len(found):,} values for {self._count:,} records", hint=SQL_HINT
            )
        return found

    def _execute(self, sql: str, what: str, lists: list[list[Any]] | None = None) -> DuckDBPyConnection:
        import duckdb

        try:
            return self._database.execute(sql, lists)
        except duckdb.Error as error:
            raise BadInputError(f"the SQL of {what} fails: {one_line(error)}", hint=SQL_HINT) from error


def header_texts(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Format the headers of a record, without ours, as JSON; values that are not text as hex digits."""
    found = []
    for name, value in wire.without_header(tuple(headers)):
        text = text_of(value)
        is_hex = value is not None and text is None
        found.append({"key": name, "hex": (value or b"").hex()} if is_hex else {"key": name, "value": text})
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


class Mask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A replacement for values of a table or topic. `value`: an expression for the whole of it; `fields`: one for each
    field of a JSON object, whose name may have dots. `headers`: empty: records with headers are refused."""

    app: str = ""
    table: str = ""
    topic: str = ""
    value: str = ""
    fields: dict[Text, Text] = {}
    headers: Literal["", "drop", "keep"] = ""

    def __post_init__(self) -> None:
        if bool(self.table) == bool(self.topic):
            raise ValueError("a mask must name a table or a topic")
        if self.headers and not self.topic:
            raise ValueError("rows of a table have no headers")
        if bool(self.value) == bool(self.fields) and (self.value or not self.headers):
            raise ValueError("a mask must have a value or fields")

    def __str__(self) -> str:
        of_app = f" of {self.app}" if self.app else ""
        return f"topic {self.topic}" if self.topic else f"table {self.table}{of_app}"

    def topics(self, captured: Captured) -> list[str]:
        tables = {
            it.topic for it in captured.changelogs if it.table == self.table and self.app in ("", it.app)
        }
        inputs = {it.topic for it in captured.inputs if it.topic == self.topic}
        return sorted(tables if self.table else inputs)

    @property
    def parts(self) -> dict[str, str]:
        fields = {f"field {path}": sql for path, sql in self.fields.items()}
        return {"value": self.value} if self.value else fields


class _Masks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mask: Annotated[tuple[Mask, ...], msgspec.Meta(min_length=1)]


def read_masks(path: str) -> tuple[Mask, ...]:
    return read_toml(path, _Masks).mask


_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array: Final = msgspec.json.Decoder(list[msgspec.Raw])


def fields_of(value: bytes) -> dict[str, msgspec.Raw] | None:
    """Return the fields of a JSON object as they are written; None: it is none."""
    try:
        return _object.decode(value)
    except (ValueError, RecursionError):
        return None


def replace_field(value: bytes, path: str, new: bytes) -> bytes | None:
    """Replace each value at a path in JSON by other JSON; None: it has no such field.

    A name may contain dots; of one that occurs twice the last counts. A path through an array applies to every element.
    """
    if value.startswith(b"["):
        items = _array.decode(value)
        replaced = [replace_field(bytes(item), path, new) for item in items]
        if not any(replaced):
            return None
        return b"[%s]" % b",".join(made or bytes(item) for made, item in zip(replaced, items, strict=True))
    fields, found = fields_of(value) or {}, False
    for name, of in fields.items():
        made = new if name == path else None
        if path.startswith(f"{name}."):
            made = replace_field(bytes(of), path[len(name) + 1 :], new)
        if made is not None:
            fields[name], found = msgspec.Raw(made), True
    return msgspec.json.encode(fields) if found else None
