"""V6: invariants of the user's own, in SQL over the tables of a snapshot.

An invariant is a query that returns the rows which violate it: none, and it holds. It sees the tables as views named
`state`, `messages`, `channels`, `processes` and `positions`. A row with columns `topic`, `partition` and `offset`
points at a record, as every other witness does.

`${name}` stands for a parameter that has to be set, `${name:value}` for one that may be. The files beside this one are
ready to use by their names (`--invariants conservation --set total=1000 ...`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from snapkafka.errors import BadInputError
from snapkafka.manifest import InvariantEntry
from snapkafka.runtime.machine import expand_home

CHECK: Final = "check --invariants"
_PLACEHOLDER: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}")
#: A value lands inside SQL, often inside quotes: these would end the quotes, and outside of quotes call a function.
_UNSAFE: Final = re.compile(r"['\"\\`;()\n\r]")
#: A name is part of the ledger, of metrics, and of addresses of the service.
_NAME: Final = re.compile(r"[\w+-][\w .+-]{0,99}")


def ready_made() -> tuple[str, ...]:
    """Return the names of the invariants that come with snapkafka."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.sql")))


def parse_parameters(given: Iterable[str]) -> dict[str, str]:
    """Parse parameters as people write them, `name=value`.

    Raises:
        BadInputError: one has another form.
    """
    parameters = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name.replace(".", "").isidentifier():
            raise BadInputError(f"{item} is not NAME=VALUE", field="set")
        parameters[name] = value
    return parameters


def load(where: Iterable[str], parameters: Mapping[str, str]) -> tuple[InvariantEntry, ...]:
    """Read invariants and fill in their parameters.

    Args:
        where: folders (all `*.sql` in them), files, or names of ready-made ones.
        parameters: values for the placeholders; one that no invariant has is an error, as it is a slip.

    Raises:
        BadInputError: there is nothing to read, or it is unreadable; two have one name, or one has a name that is
            refused; a parameter is missing, unknown, or cannot be part of SQL.
    """
    for name, value in parameters.items():
        if _UNSAFE.search(value):
            raise BadInputError(
                f"{name}={value}: a value cannot have quotes, backslashes, semicolons or parentheses",
                field="set",
            )
    loaded, used = list[InvariantEntry](), set[str]()
    for path, sql in _read(where):
        if not _NAME.fullmatch(path.stem):
            raise BadInputError(
                f"invariant {path.stem[:20]!r}: a name has letters, digits, spaces and . _ + -",
                hint="rename the file; up to 100 characters, of which the first is no space and no dot",
            )
        if loaded and loaded[-1].name == path.stem:
            raise BadInputError(
                f"two invariants are called {path.stem}; one is {path}", hint="give one of them another name"
            )
        used |= {match[1] for match in _PLACEHOLDER.finditer(sql)}
        loaded.append(InvariantEntry(name=path.stem, sql=_filled(path, sql, parameters)))
    unknown = sorted(set(parameters) - used)
    if unknown:
        raise BadInputError(f"no invariant has a parameter {unknown[0]}", hint="check --set and --invariants")
    return tuple(loaded)


def parameters_of(where: Iterable[str]) -> frozenset[str]:
    """Return the names of the parameters that invariants have, whether they need a value or not.

    Args:
        where: as for `load`.

    Raises:
        BadInputError: there is nothing to read, or it is unreadable.
    """
    return frozenset(match[1] for _, sql in _read(where) for match in _PLACEHOLDER.finditer(sql))


def _read(where: Iterable[str]) -> list[tuple[Path, str]]:
    """Read the files, in the order of their names."""
    found: dict[Path, str] = {}
    for item in where:
        try:
            for path in _found(item, expand_home(item)):  # one file twice is one; a link keeps its own name
                found[path.parent.resolve() / path.name] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(f"invariant {item} cannot be read: {error}", hint=CHECK) from error
    return sorted(found.items(), key=lambda it: (it[0].stem, str(it[0])))


def _found(item: str, path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(path.glob("*.sql"))
    if not path.is_dir() and item in ready_made():
        found = [Path(__file__).parent / f"{item}.sql"]
    if not found:
        raise BadInputError(
            f"there are no invariants at {item}",
            hint=f"--invariants takes a folder with *.sql, a file, or one of: {', '.join(ready_made())}",
        )
    return found


def _filled(path: Path, sql: str, parameters: Mapping[str, str]) -> str:
    def fill(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if name in parameters:
            return parameters[name]
        if default is None:
            raise BadInputError(
                f"invariant {path.stem} needs a value for {name}", hint=f"add --set {name}=..."
            )
        return default

    return _PLACEHOLDER.sub(fill, sql)
