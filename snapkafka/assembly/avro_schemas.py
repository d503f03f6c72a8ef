"""Avro schemas from files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from snapkafka.errors import BadInputError, Option

from .avro_types import parsed


def read_schemas(given: Iterable[str]) -> dict[str, str]:
    """Read the texts of schemas, by their subjects.

    Args:
        given: `name=file`; a name is `TOPIC-key`, `TOPIC-value`, or a number in a schema registry.

    Raises:
        BadInputError: a name is not one of these, or a file cannot be read or is not a schema.
    """
    schemas = {}
    for item in given:
        name, equals, path = item.rpartition("=")
        if not equals or not (name.isdecimal() or name.endswith(("-key", "-value"))):
            raise BadInputError(
                f"{item} is not NAME=FILE",
                field="avro",
                hint="NAME is TOPIC-key, TOPIC-value, or the number of a schema in a registry",
            )
        try:
            schemas[name] = Path(path).read_text(encoding="utf-8")
            parsed(schemas[name])
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(
                f"schema {path} cannot be read: {error}", hint=("check ", Option("avro"))
            ) from error
        except ValueError as error:
            raise BadInputError(
                f"invalid Avro schema {path}: {error}", hint=("check ", Option("avro"))
            ) from error
    return schemas
