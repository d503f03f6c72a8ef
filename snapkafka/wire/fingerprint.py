"""The fingerprint of an Avro schema: CRC-64-AVRO of its parsing canonical form (Avro specification, "Parsing
Canonical Form for Schemas"). `avro` has it, `avro-python3` 1.10 does not, and the two must agree on it."""

from __future__ import annotations

import json
from typing import Any, Final

#: The polynomial, which is also the fingerprint of nothing (Avro specification, "Schema Fingerprints").
EMPTY: Final = 0xC15D213AA4D7A795

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
#: What is kept, in this order; documentation, aliases and defaults do not change the bytes of a record.
KEPT: Final = ("name", "type", "fields", "symbols", "items", "values", "size")


def fingerprint(schema: Any) -> bytes:
    """Compute the fingerprint: eight bytes, little-endian, as single-object encoding wants them.

    Args:
        schema: the schema as parsed JSON.
    """
    return _crc64(canonical_form(schema).encode()).to_bytes(8, "little")


def canonical_form(schema: Any) -> str:
    """Reduce a schema to the parts that determine the bytes: two schemas with the same form can read each other's
    records."""
    return json.dumps(_reduced(schema, ""), separators=(",", ":"), ensure_ascii=False)


def _reduced(schema: Any, namespace: str) -> Any:
    if isinstance(schema, str):
        return schema if schema in PRIMITIVES else _full_name(schema, namespace)
    if isinstance(schema, list):
        return [_reduced(branch, namespace) for branch in schema]
    kind = schema["type"]
    if kind in PRIMITIVES:
        return kind
    found: dict[str, Any] = {"type": kind}
    if "name" in schema:
        found["name"] = _full_name(schema["name"], schema.get("namespace", namespace))
        namespace = found["name"].rpartition(".")[0]
    if "fields" in schema:
        found["fields"] = [
            {"name": f["name"], "type": _reduced(f["type"], namespace)} for f in schema["fields"]
        ]
    for part in ("items", "values"):
        if part in schema:
            found[part] = _reduced(schema[part], namespace)
    for part in ("symbols", "size"):
        if part in schema:
            found[part] = schema[part]
    return {key: found[key] for key in KEPT if key in found}


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _table() -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = (value >> 1) ^ (EMPTY & -(value & 1))
        return value

    return tuple(entry(byte) for byte in range(256))


def _crc64(data: bytes) -> int:
    table = _table()
    value = EMPTY
    for byte in data:
        value = (value >> 8) ^ table[(value ^ byte) & 0xFF]
    return value
