"""The Avro schemas of the ledger's records, which follow from the record classes.

The ends and ranges of many partitions are columns: a record with one list for each field. A number is the difference to
that of the item before, or to another one of the same item (`BESIDE`), so most are small. A list is empty where every
item has the field's default.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Final

from snapkafka.protocol import offsets, records
from snapkafka.protocol._dataclass import InParts
from snapkafka.protocol.records import ChannelRange, LedgerRecord, SentEnd

NAMESPACE: Final = "snapkafka.ledger"
#: The field that holds the last fields of a record in parts, as bytes with a schema of their own.
REST: Final = "ends"
#: Lists of these are columns.
IN_COLUMNS: Final = frozenset({SentEnd, ChannelRange})
#: A number of one of these, and the other number that it is near to.
BESIDE: Final[dict[tuple[Any, str], str]] = {
    (SentEnd, "marker"): "white_end",
    (SentEnd, "earlier_seq"): "last_seq",
    (SentEnd, "earlier_end"): "white_end",
    (ChannelRange, "end"): "start",
}
_PRIMITIVES: Final[dict[Any, str]] = {int: "long", bool: "boolean", str: "string", LedgerRecord: "bytes"}


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    """Return the fields of a record class with their types."""
    return typing.get_type_hints(kind, vars(offsets) | vars(records) | {"LedgerRecord": LedgerRecord})


def item_of(hint: Any) -> Any:
    """Return the type of the items of a list; None: it is none."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None


def head_and_rest(kind: type) -> tuple[list[str], list[str]]:
    """Return the fields that are read at once, and those that are read when somebody asks for one."""
    rest = kind.rest() if issubclass(kind, InParts) else []
    return [name for name in hints_of(kind) if name not in rest], rest


def schema_of(kind: type) -> dict[str, Any]:
    """Return the schema of a record class; of one in parts without its last fields."""
    head, rest = head_and_rest(kind)
    schema = _record(kind, set(), fields_of=head)
    if rest:
        schema["fields"].append({"name": REST, "type": "bytes"})
    return schema


def schema_of_rest(kind: type) -> dict[str, Any]:
    """Return the schema of the last fields of a record in parts."""
    return _record(kind, set(), name=f"{kind.__name__}Ends", fields_of=head_and_rest(kind)[1])


def published() -> dict[str, str]:
    """Return every schema as its file has it, by the name of that."""
    kinds = typing.get_args(LedgerRecord)
    found = {kind.__name__: schema_of(kind) for kind in kinds}
    found |= {f"{kind.__name__}Ends": schema_of_rest(kind) for kind in kinds if head_and_rest(kind)[1]}
    return {f"{name}.avsc": json.dumps(schema, indent=2) + "\n" for name, schema in found.items()}


def old_schemas() -> Iterator[Any]:
    """Yield the schemas of earlier releases: in the package if installed, beside it in a checkout."""
    from importlib.resources import files

    package = files("snapkafka")
    inside = package / "schemas"
    folder = (inside if inside.is_dir() else package / ".." / "schemas") / "ledger" / "old"
    if folder.is_dir():
        for file in sorted(folder.iterdir(), key=lambda file: file.name):
            if file.name.endswith(".avsc"):
                yield json.loads(file.read_text(encoding="utf-8"))


def _record(kind: type, known: set[str], *, name: str = "", fields_of: Iterable[str] = ()) -> dict[str, Any]:
    name = name or kind.__name__
    known.add(name)
    found = [
        {"name": field, "type": _type(hint, known)} | _default(kind, field)
        for field, hint in hints_of(kind).items()
        if not fields_of or field in fields_of
    ]
    doc = inspect.cleandoc(kind.__doc__ or "")
    return {"type": "record", "name": name, "namespace": NAMESPACE, "doc": doc, "fields": found}


def _type(hint: Any, known: set[str]) -> Any:
    if typing.get_origin(hint) is typing.Literal:
        return "string"
    if (item := item_of(hint)) in IN_COLUMNS:
        doc = inspect.cleandoc(item.__doc__ or "")
        columns = [
            {"name": name, "type": {"type": "array", "items": _type(of, known)}, "default": []}
            for name, of in hints_of(item).items()
        ]
        return {"type": "record", "name": f"{item.__name__}Columns", "doc": doc, "fields": columns}
    if item:
        return {"type": "array", "items": _type(item, known)}
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    return f"{NAMESPACE}.{hint.__name__}" if hint.__name__ in known else _record(hint, known)


def _default(kind: Any, field: str) -> dict[str, Any]:
    for one in fields(kind) if hasattr(kind, "__dataclass_fields__") else ():
        if one.name == field and one.default is not MISSING:
            item = item_of(hints_of(kind)[field])
            columns = {name: [] for name in hints_of(item)} if item in IN_COLUMNS else []
            return {"default": columns if one.default == () else one.default}
    return {}
