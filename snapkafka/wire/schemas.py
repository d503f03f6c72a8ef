"""The Avro schemas of the ledger's records, which follow from the record classes.

The ends and ranges of many partitions are columns: a record with one list for each field. A number is the difference to
that of the item before, or to another one of the same item (`BESIDE`), so most are small, and takes as many bits as the
largest of its list. A list is empty where every item has the field's default.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Iterable
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


def parts_of(kind: type) -> list[tuple[list[str], dict[str, Any]]]:
    """Return the fields of a record class that are read at once, and those that are read when somebody asks for one, if
    there are any; each with their schema."""
    rest = kind.rest() if issubclass(kind, InParts) else []
    head = [name for name in hints_of(kind) if name not in rest]
    schema = _record(kind, kind.__name__, head, set())
    if not rest:
        return [(head, schema)]
    schema["fields"].append({"name": REST, "type": "bytes"})
    return [(head, schema), (rest, _record(kind, f"{kind.__name__}Ends", rest, set()))]


def published() -> dict[str, str]:
    """Return every schema as its file has it, by the name of that."""
    found = [schema for kind in typing.get_args(LedgerRecord) for _, schema in parts_of(kind)]
    return {f"{schema['name']}.avsc": json.dumps(schema, indent=2) + "\n" for schema in found}


def _record(kind: type, name: str, names: Iterable[str], known: set[str]) -> dict[str, Any]:
    known.add(name)
    hints = hints_of(kind)
    doc = inspect.cleandoc(kind.__doc__ or "")
    found = [{"name": field, "type": _type(hints[field], known)} for field in names]
    return {"type": "record", "name": name, "namespace": NAMESPACE, "doc": doc, "fields": found}


def _type(hint: Any, known: set[str]) -> Any:
    if typing.get_origin(hint) is typing.Literal:
        return "string"
    if (item := item_of(hint)) in IN_COLUMNS:
        doc = inspect.cleandoc(item.__doc__ or "")
        columns = [
            {
                "name": name,
                "type": _numbers(known) if of is int else {"type": "array", "items": _type(of, known)},
            }
            for name, of in hints_of(item).items()
        ]
        return {"type": "record", "name": f"{item.__name__}Columns", "doc": doc, "fields": columns}
    if item:
        return {"type": "array", "items": _type(item, known)}
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    if hint.__name__ in known:
        return f"{NAMESPACE}.{hint.__name__}"
    return _record(hint, hint.__name__, hints_of(hint), known)


def _numbers(known: set[str]) -> Any:
    """Return the schema of a column of numbers."""
    name, fields = "Numbers", {"count": "int", "low": "long", "width": "int", "packed": "bytes"}
    if name in known:
        return f"{NAMESPACE}.{name}"
    known.add(name)
    doc = "`count` numbers, each as its excess over `low` in `width` bits, one after the other."
    return {
        "type": "record",
        "name": name,
        "doc": doc,
        "fields": [{"name": it, "type": fields[it]} for it in fields],
    }
