"""`settings.md`: settings of a service, of `serve` and of the job; environment variables, from the code."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any, Final

from snapkafka.assembly.command_line import FLAGS
from snapkafka.assembly.spec import OPTIONS
from snapkafka.config import Config
from snapkafka.service.settings import Settings

from .markdown import code, table

PACKAGE: Final = Path(__file__).resolve().parents[2] / "snapkafka"
#: Variables of tests, and those by which the demo starts its own services, are not for users.
_OWN: Final = re.compile(r"SNAPKAFKA_(?:TEST|DEMO)_")
#: Environment variable -> what reads it, what it holds. `page` fails where the code knows others.
VARIABLES: Final[dict[str, tuple[str, str]]] = {
    "SNAPKAFKA": ("services", "`off`, `observe`, `stamp` or `on`; goes before `mode`"),
    "SNAPKAFKA_NAMESPACE": ("services, commands", "the namespace"),
    "SNAPKAFKA_BOOTSTRAP": ("commands", "the broker: host:port, several with commas"),
    "SNAPKAFKA_STORAGE": ("`prune`, `keep`", "where tables lie"),
    "SNAPKAFKA_KAFKA_CONFIG": (
        "everything that connects",
        "a properties file ([security.md](../guide/security.md))",
    ),
    "SNAPKAFKA_KAFKA_*": (
        "everything that connects",
        "the same settings one by one: `SNAPKAFKA_KAFKA_SASL_USERNAME`",
    ),
    "SNAPKAFKA_FORK": ("services", "the fork that this worker belongs to ([fork.md](../guide/fork.md))"),
    "SNAPKAFKA_FORK_DOOR": (
        "services",
        "set by a drill: the socket that gives its commands connections ([drill.md](../guide/drill.md))",
    ),
    "SNAPKAFKA_LEDGER_KEY": (
        "services, commands, the Spark driver",
        "keys that sign the ledger, separated by commas",
    ),
    "SNAPKAFKA_LEDGER_KEY_FILE": ("services, commands, the Spark driver", "a file with one key a line"),
    "SNAPKAFKA_LEDGER_UNSIGNED": (
        "services, commands, the Spark driver",
        "`accept`: unsigned records count as well",
    ),
    "SNAPKAFKA_SCHEMA_REGISTRY": ("`assemble`, `verify`", "URL of a schema registry"),
    "SNAPKAFKA_SCHEMA_REGISTRY_USERNAME": ("`assemble`, `verify`", "its user"),
    "SNAPKAFKA_SCHEMA_REGISTRY_PASSWORD": ("`assemble`, `verify`", "its password"),
    "SNAPKAFKA_SERVICE_TOKENS": ("`serve`", "lines as in the file of `--tokens`"),
    "SNAPKAFKA_CACHE": ("set-up, `demo`, the Spark job", "where Java and jars are kept"),
    "SNAPKAFKA_IVY_SETTINGS": ("set-up", "an Ivy settings file, for a Maven repository of your own"),
}


def page() -> str:
    """Return the page.

    Raises:
        ValueError: a setting has no description, or the code knows other variables than are described.
    """
    found = variables_in_code()
    if found != VARIABLES.keys():
        raise ValueError(
            f"environment variables without a description, or unknown: {sorted(found ^ VARIABLES.keys())}"
        )
    return f"""# Settings

## Of a service

`snapkafka.install(app, namespace="shop", ...)`. Each mistake (no namespace, unknown names, invalid values) is listed in
one `InstallError`.

{_fields(Config)}
## Of `snapkafka serve`

Command options set the first seven ([commands.md](commands.md#serve)); the others are bounds
([service.md](../guide/service.md)).

{_fields(Settings)}
## Of the job

Of `python -m snapkafka.assembly --spec FILE`, as one JSON object ([assembly.md](../guide/assembly.md)). {_flags()} have
flags of the job's own, too.

{_of_the_job()}
## Environment variables

{table(("variable", "read by", "value"), ((code(name), *described) for name, described in VARIABLES.items()))}"""


def _flags() -> str:
    return ", ".join(code(OPTIONS[field].flag) for field in FLAGS)


def _of_the_job() -> str:
    rows = (
        (
            code(option.field),
            code("list" if option.many else option.type.__name__),
            code(str(list(option.default) if option.many else option.default)) if option.default else "",
            code(option.flag) if option.flag else "",
            option.help,
        )
        for option in OPTIONS.values()
    )
    return table(("field", "type", "default", "option of `assemble` or `verify`", "meaning"), rows)


def _fields(settings: type[Any]) -> str:
    described = _described(settings)
    rows = []
    for field in dataclasses.fields(settings):
        if field.name not in described:
            raise ValueError(
                f"{settings.__name__}.{field.name} is not described in the docstring of its class"
            )
        rows.append((code(field.name), code(field.type), _default(field), described[field.name]))
    return table(("setting", "type", "default", "meaning"), rows)


def _described(settings: type[Any]) -> dict[str, str]:
    """Return field -> its text in the section `Args` of the docstring; one text may be of several fields."""
    args = inspect.cleandoc(settings.__doc__ or "").partition("Args:\n")[2]
    described: dict[str, str] = {}
    for names, text in re.findall(r"^ {4}(\w+(?:, \w+)*): (.+(?:\n {8}.+)*)", args, re.MULTILINE):
        described |= dict.fromkeys(names.split(", "), text)
    return described


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
        return code(", ".join(map(repr, sorted(value))) if isinstance(value, frozenset) else repr(value))
    if field.default_factory is not dataclasses.MISSING:
        return ""
    return "required"


def variables_in_code() -> set[str]:
    """Return the environment variables that the package names in a string."""
    found = {
        name
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if '"' in line or "`" in line
        for name in re.findall(r"\b(SNAPKAFKA(?:_[A-Z]+)+)\b(?!_)", line)
    }
    login = "SNAPKAFKA_KAFKA_"
    named = {f"{login}*" if name.startswith(login) and name != f"{login}CONFIG" else name for name in found}
    return {name for name in named if not _OWN.match(name)} | {"SNAPKAFKA"}
