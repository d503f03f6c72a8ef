"""The order-free digest of a table, as Spark computes it.

The digest of a table (`manifest.TableEntry.digest`) is the sum over its rows of Spark's `xxhash64` over all columns,
each preceded by its number (`assembly.spark.write.parquet.digests`). Spark hashes a value with the preceding hash as
the seed: numbers as their 4 or 8 bytes, little-endian, text and binary as their bytes, arrays and structs element by
element; a null leaves the hash as it is. A test compares the two on every type that a table has.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

#: Spark's seed.
SEED: Final = 42
BITS: Final = 1 << 64
UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)

#: The hash of a value that is not null, from the hash of what came before it.
Hasher: TypeAlias = Callable[[Any, int], int]


def row_digest(types: Sequence[str], rows: Iterator[Sequence[Any]]) -> tuple[int, str]:
    """Compute count and digest of rows; the digest is a decimal, as the manifest has it.

    Args:
        types: of the columns, in Spark's words (`bigint`, `map<string,binary>`).
        rows: values in the order of the columns.
    """
    numbered = [(struct.pack("<i", number), hasher(kind)) for number, kind in enumerate(types)]
    whole, count, total = _bytes(), 0, 0
    for row in rows:
        found = SEED
        for (number, column), value in zip(numbered, row, strict=True):
            found = whole(number, found)
            if value is not None:
                found = column(value, found)
        count += 1
        total += found - BITS if found >= BITS >> 1 else found  # Java's numbers have a sign
    return count, str(total)


# -- values ---------------------------------------------------------------------------------------------------


def hasher(kind: str) -> Hasher:
    """Build the hash function of a type.

    Args:
        kind: in Spark's words, as `DataFrame.dtypes` has them.

    Raises:
        ValueError: no table has that type.
    """
    if found := re.fullmatch(r"array<(.*)>", kind):
        return _array(hasher(found[1]))
    if found := re.fullmatch(r"map<(.*)>", kind):
        return _map(*map(hasher, _parts(found[1])))
    if found := re.fullmatch(r"struct<(.*)>", kind):
        fields = [part.split(":", 1) for part in _parts(found[1])]
        return _struct({name: hasher(of) for name, of in fields})
    simple = {"int": _int, "boolean": _int, "bigint": _bigint, "double": _double, "timestamp": _timestamp}
    if kind in simple:
        return simple[kind]()
    if kind == "binary":
        return _bytes()
    if kind == "string":
        of_bytes = _bytes()
        return lambda value, seed: of_bytes(value.encode(), seed)
    raise ValueError(f"no table has a column of type {kind}")


def _parts(text: str) -> list[str]:
    """Split the text between the outer brackets of a type at its commas."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _packed(form: str) -> Hasher:
    from xxhash import xxh64_intdigest

    pack = struct.Struct(form).pack
    return lambda value, seed: xxh64_intdigest(pack(value), seed)


def _int() -> Hasher:
    return _packed("<i")


def _bigint() -> Hasher:
    return _packed("<q")


def _double() -> Hasher:
    whole = _packed("<d")
    return lambda value, seed: whole(value + 0.0, seed)  # -0.0 counts as 0.0


def _timestamp() -> Hasher:
    whole = _packed("<q")

    def since(value: datetime) -> int:
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - UNIX_EPOCH) // MICROSECOND

    return lambda value, seed: whole(since(value), seed)


def _bytes() -> Hasher:
    from xxhash import xxh64_intdigest

    return xxh64_intdigest


def _array(of: Hasher) -> Hasher:
    def hashed(value: Sequence[Any], seed: int) -> int:
        for item in value:
            if item is not None:
                seed = of(item, seed)
        return seed

    return hashed


def _struct(fields: dict[str, Hasher]) -> Hasher:
    def hashed(value: dict[str, Any], seed: int) -> int:
        for name, of in fields.items():
            if value[name] is not None:
                seed = of(value[name], seed)
        return seed

    return hashed


def _map(key: Hasher, item: Hasher) -> Hasher:
    def hashed(value: Any, seed: int) -> int:
        pairs = value.items() if isinstance(value, dict) else value
        for name, of in sorted(pairs, key=_in_order):
            seed = key(name, seed)
            if of is not None:
                seed = item(of, seed)
        return seed

    return hashed


def _in_order(pair: tuple[Any, Any]) -> tuple[bytes, bool, Any]:
    """Return the sort key of Spark: text is sorted by its bytes, and nulls precede values."""
    name, of = pair
    return name.encode() if isinstance(name, str) else name, of is not None, b"" if of is None else of
