"""Pages of docs/reference that are generated from code: `make docs` writes them, and nothing commits them."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from snapkafka.assembly.command import FLAGS
from snapkafka.assembly.schemas import SCHEMAS, comment, schema
from snapkafka.assembly.spec import OPTIONS, SYSTEM
from snapkafka.checks.kinds import KINDS
from snapkafka.cli.verbs import app
from snapkafka.config import Config
from snapkafka.drivers.metrics import Metrics, families
from snapkafka.errors import EXIT_NOT_GOOD, EXIT_OK, all_errors
from snapkafka.ops import Freshness, gauges
from snapkafka.options import Option, options_of
from snapkafka.runtime.signals import CODES, exit_status
from snapkafka.service.app import described
from snapkafka.service.problems import REFUSALS
from snapkafka.service.settings import Settings

ROOT: Final = Path(__file__).resolve().parents[1]
#: An option of so many commands is described once.
COMMON_MIN: Final = 4
#: Environment variable -> what reads it, what it holds. `settings` fails where the code knows others.
VARIABLES: Final[dict[str, tuple[str, str]]] = {
    "SNAPKAFKA": ("services", "`off`, `observe`, `stamp` or `on`; goes before `mode`"),
    "SNAPKAFKA_NAMESPACE": ("services, commands", "the namespace"),
    "SNAPKAFKA_BOOTSTRAP": ("commands", "the broker: host:port, several with commas"),
    "SNAPKAFKA_CONFIG": ("commands", "a file that describes the system, see above"),
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
    "SNAPKAFKA_FORK_DOOR": ("services", "set by a drill: the socket that gives its commands connections"),
    "SNAPKAFKA_SCHEMA_REGISTRY": ("`assemble`, `verify`", "URL of a schema registry"),
    "SNAPKAFKA_SCHEMA_REGISTRY_USERNAME": ("`assemble`, `verify`", "its user"),
    "SNAPKAFKA_SCHEMA_REGISTRY_PASSWORD": ("`assemble`, `verify`", "its password"),
    "SNAPKAFKA_SERVICE_TOKENS": ("`serve`", "lines as in the file of `--tokens`"),
    "SNAPKAFKA_CACHE": ("set-up, `demo`, the Spark job", "where Java and jars are kept"),
}


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    makers = (commands_page, settings_page, errors_page, findings_page, metrics_page, schemas_page)
    return {f"{make.__name__.removesuffix('_page')}.md": make() for make in makers}


def cell(text: str) -> str:
    """Return a text on one line that ends no cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(value: object) -> str:
    """Return a value as code; empty stays empty."""
    text = str(value)
    return f"`{text}`" if text else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown already."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# -- commands ------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """Return every command with its arguments and options, from the typer app."""
    head = ("option", "default", "meaning")
    group = get_command(app)
    found = dict(commands(group))
    rows = {
        name: [row for item in one.params if not item.hidden for row in _rows(item)]
        for name, one in found.items()
    }
    counts = Counter(row for own in rows.values() for row in own)
    common = [row for row, count in counts.items() if count >= COMMON_MIN]
    parts = [f"# Commands\n\n{group.help}\n\n## Shared options\n\n" + table(head, common)]
    for name, command in found.items():
        parts.append(f"\n## {name}\n\n{command.help}\n\n```\n{_usage(name, command)}\n```\n")
        if own := [row for row in rows[name] if row not in common]:
            parts.append("\n" + table(head, own))
        if shared := [row[0].split()[0].strip("`") for row in rows[name] if row in common]:
            parts.append("\nShared: " + ", ".join(map(code, shared)) + ".\n")
    return "".join(parts)


def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command with its name, those of groups by both names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield above + name, command


def _usage(name: str, command: Any) -> str:
    arguments = [
        _value(item) if item.required else f"[{_value(item)}]"
        for item in command.params
        if item.param_type_name == "argument"
    ]
    options = ["[OPTIONS]"] if any(item.param_type_name == "option" for item in command.params) else []
    return " ".join(["snapkafka", name, *options, *arguments])


def _value(item: Any) -> str:
    """Return the word that stands for the value of an argument or option."""
    return str(item.metavar or item.opts[0].lstrip("-").upper())


def _rows(item: Any) -> Iterator[tuple[str, str, str]]:
    if item.param_type_name == "argument":
        yield code(_value(item)), "", item.help or ""
        return
    names = " ".join([*item.opts, *item.secondary_opts])
    text = (item.help or "") + (f" Variable: `{item.envvar}`." if item.envvar else "")
    plain = isinstance(item.default, (str, int, float)) and not item.is_flag
    value = "" if item.is_flag else f" {_value(item)}"
    yield code(names + value), code(item.default) if plain else "", text


# -- settings ------------------------------------------------------------------------------------------------


def settings_page() -> str:
    """Return the settings of a service, of `serve` and of the job, and the environment variables.

    Raises:
        ValueError: a setting has no description, or the code knows other variables than are described.
    """
    if unknown := variables_in_code() ^ VARIABLES.keys():
        raise ValueError(f"environment variables without a description, or unknown: {sorted(unknown)}")
    flags = ", ".join(code(OPTIONS[field].flag) for field in FLAGS)
    variables = ((code(name), *described) for name, described in VARIABLES.items())
    return f"""# Settings

## Of a service

`snapkafka.install(app, namespace="shop", ...)`. Each mistake is listed in one `InstallError`.

{_fields(Config)}
## Of `snapkafka serve`

Those with an option are of the command; the others are bounds ([service.md](../guide/service.md)).

{_of_options(options_of(Settings))}
## Of the job

Of `python -m snapkafka.assembly --spec FILE`, as one JSON object ([assembly.md](../guide/assembly.md)). {flags} have
flags of the job's own, too.

{_of_options(OPTIONS)}
## Of a system

Fields of the TOML file that `--config` or SNAPKAFKA_CONFIG names: {", ".join(map(code, SYSTEM))}, as above, and
`knows_markers`: consumer groups that accept markers. What a command is given goes before the file. No file is read
that nobody names.

## Environment variables

{table(("variable", "read by", "value"), variables)}"""


def _of_options(options: Mapping[str, Option]) -> str:
    rows = (
        (
            code(option.field),
            code("list" if option.many else getattr(option.type, "__name__", "")),
            code(str(list(option.default) if option.many else option.default)) if option.default else "",
            code(option.flag),
            option.help,
        )
        for option in options.values()
    )
    return table(("field", "type", "default", "option", "meaning"), rows)


def _fields(settings: type[Any]) -> str:
    args = inspect.cleandoc(settings.__doc__ or "").partition("Args:\n")[2]
    described: dict[str, str] = {}
    for names, text in re.findall(r"^ {4}(\w+(?:, \w+)*): (.+(?:\n {8}.+)*)", args, re.MULTILINE):
        described |= dict.fromkeys(names.split(", "), text)
    fields = dataclasses.fields(settings)
    if missing := [field.name for field in fields if field.name not in described]:
        raise ValueError(f"{settings.__name__}: {missing} are not described in the docstring of the class")
    rows = ((code(field.name), code(field.type), _default(field), described[field.name]) for field in fields)
    return table(("setting", "type", "default", "meaning"), rows)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
        return code(", ".join(map(repr, sorted(value))) if isinstance(value, frozenset) else repr(value))
    return "" if field.default_factory is not dataclasses.MISSING else "required"


def variables_in_code() -> set[str]:
    """Return the environment variables that the package names in a string, those of tests and the demo's own aside."""
    found = {
        name
        for path in (ROOT / "snapkafka").rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if '"' in line or "`" in line
        for name in re.findall(r"\b(SNAPKAFKA(?:_[A-Z]+)+)\b(?!_)", line)
    }
    login = "SNAPKAFKA_KAFKA_"
    named = {f"{login}*" if name.startswith(login) and name != f"{login}CONFIG" else name for name in found}
    return {name for name in named if not name.startswith(("SNAPKAFKA_TEST_", "SNAPKAFKA_DEMO_"))} | {
        "SNAPKAFKA"
    }


# -- errors and findings -------------------------------------------------------------------------------------

#: What ended the command, by the codes of `CODES`.
ENDED_BY: Final = {
    "hangup": "SIGHUP: the terminal was closed.",
    "interrupted": "SIGINT: Ctrl-C.",
    "terminated": "SIGTERM: `kill`, `timeout`, systemd, Kubernetes.",
}
NOT_GOOD: Final = (
    "A snapshot was examined and is INCONSISTENT, UNVERIFIABLE or damaged; or `doctor` found a problem."
)
#: (exit status, code, meaning), by status.
STATUSES: Final = sorted(
    [
        (EXIT_OK, "done", ""),
        (EXIT_NOT_GOOD, "not-good", NOT_GOOD),
        *((exit_status(number), code, ENDED_BY[code]) for number, code in CODES.items()),
        *((cls.exit_status, cls.code, cls.meaning) for cls in all_errors()),
    ]
)


def errors_page() -> str:
    """Return codes with exit statuses and HTTP statuses, from the tables of the command and of the service."""
    http = {cls.code: str(cls.http) for cls in all_errors()}
    rows = [
        (str(status), code(name if status else "ok"), http.get(name, ""), meaning)
        for status, name, meaning in STATUSES
    ]
    refusals = table(("code", "HTTP"), ((code(name), str(http)) for name, (http, _) in REFUSALS.items()))
    return f"""# Errors and exit statuses

The command returns the status; `--json` and REST give the code, a message, a hint and the status.

{table(("exit status", "code", "HTTP", "meaning"), rows)}
With `--json` an error is on standard output too:

```json
{{"error": {{"code": "unknown-snapshot", "message": "...", "hint": "...", "exit_status": 5}}}}
```

## Only from REST

{refusals}"""


def findings_page() -> str:
    """Return every finding of the checks, from the table of kinds."""
    parts = [
        """# Findings

What V1 to V5 print of a record, in the order of the checks. *fails* makes a snapshot `INCONSISTENT`, *unverifiable*
makes it `UNVERIFIABLE`, a *note* leaves the verdict as it is; `replayed` makes it `VERIFIED_WITH_REPLAYS`.
`tables` is also unverifiable where V3 or V4 did not pass. *Assemble sooner*: or keep records longer (`doctor`), and
take another snapshot. *Report it*: unless headers were forged.
[verification.md](../explanation/verification.md) explains the checks.
"""
    ]
    letters = {"process": "P", "seq": "N", "topic": "T", "offset": "O", "app": "APP", "a": "A", "b": "B"}
    letters["text"] = "table TABLE of APP: N keys lie in several partitions: KEY (PARTITIONS), ..."
    for check in sorted({kind.check for kind in KINDS.values()}):
        rows = [
            (code(name), str(kind.weight), kind.says.format_map(letters), kind.why)
            for name, kind in KINDS.items()
            if kind.check == check
        ]
        parts.append(
            f"\n## {check}\n\n" + table(("finding", "weight", "what it says", "why, and what to do"), rows)
        )
    return (
        "".join(parts)
        + """
## Other checks

| check | it fails | it is unverifiable |
|---|---|---|
| V6 | your SQL returned rows | the query failed, or needs `--set apps=...` |
| `tables` (`verify --tables`) | stored bytes differ from the log | only texts differ (other codecs, or an edit) |
"""
    )


# -- metrics -------------------------------------------------------------------------------------------------


def metrics_page() -> str:
    """Return what workers and `snapkafka serve` give to Prometheus."""
    fresh = [
        (code(gauge.name), code(gauge.label), "gauge", gauge.help)
        for gauge in gauges(Freshness(now_ms=0, verdicts={}))
    ]
    head = ("metric", "label", "type", "meaning")
    worker = Metrics()
    return f"""# Metrics

## Freshness: what to alert on

{table(head, fresh)}
`snapkafka serve` has them at `/metrics`. All have the label `namespace`. An unknown metric is absent: there is no
good snapshot, or the broker does not show how long its topics keep records. `+Inf` seconds restorable: no topic ever
loses what is needed.

`docker/prometheus/rules.yaml` has alert rules, `docker/grafana/dashboards/snapkafka.json` a dashboard.

## Workers

`GET /snapkafka/metrics/` on the web server of each worker; counts are since its start.

{table(head, _metrics(families(worker, participating=True, ledger_lag=0)))}
## `snapkafka serve`

`GET /metrics`, beside those of freshness.

{table(head, _metrics(described()))}"""


def _metrics(found: Iterable[Any]) -> Iterator[tuple[str, str, str, str]]:
    for family in found:
        name = family.name + ("_total" if family.type == "counter" else "")
        values: dict[str, set[str]] = {}
        for sample in family.samples:
            for label, value in sample.labels.items():
                values.setdefault(label, set()).add(value)
        labels = getattr(family, "_labelnames", ()) or tuple(values)
        text = family.documentation
        for label in labels:
            if len(values.get(label, ())) > 1:
                text += f"; {label}: " + ", ".join(code(value) for value in sorted(values[label]))
        yield code(name), " ".join(code(label) for label in labels), family.type, text


# -- schemas -------------------------------------------------------------------------------------------------


def schemas_page() -> str:
    """Return the records of the ledger, from schemas/ledger/*.avsc, and the tables of a snapshot."""
    parts = [
        """# Records of the ledger

Avro in single-object encoding; `schemas/ledger/*.avsc` follow from the record classes.
[ledger.md](ledger.md) describes the topic. Every record has `process`, its author (the ledger offset of its `Hello`,
-1 where no process wrote it), and `n`, a count per author by which duplicates are recognised.
"""
    ]
    inner: dict[str, Any] = {}
    for path in sorted((ROOT / "schemas/ledger").glob("*.avsc")):
        parts.append(_record(json.loads(path.read_text("utf-8")), inner, "##"))
    parts.append("\n## Parts of records\n")
    done: set[str] = set()
    while todo := sorted(inner.keys() - done):
        for name in todo:
            done.add(name)
            parts.append(_record(inner[name], inner, "###"))
    parts.append(
        "\n## Tables of a snapshot\n\nParquet; the files hold the meaning of each column as its comment.\n"
    )
    for name in SCHEMAS:
        types = dict(part.split(" ", 1) for part in schema(name).split(", "))
        rows = [(code(column), code(kind), comment(name, column)) for column, kind in types.items()]
        parts.append(f"\n### {name}\n\n" + table(("column", "type", "meaning"), rows))
    return "".join(parts)


def _record(schema: dict[str, Any], inner: dict[str, Any], level: str) -> str:
    rows = [
        (code(field["name"]), code(" or ".join(_types(field["type"], inner))), field.get("doc", ""))
        for field in schema["fields"]
        if level == "###" or field["name"] not in ("process", "n")
    ]
    return f"\n{level} {schema['name']}\n\n{schema.get('doc', '')}\n\n" + table(
        ("field", "type", "meaning"), rows
    )


def _types(type_: Any, inner: dict[str, Any]) -> Iterator[str]:
    match type_:
        case str():
            yield type_.rpartition(".")[2]
        case list():
            for one in type_:
                yield from _types(one, inner)
        case {"type": "array", "items": items}:
            yield "list of " + " or ".join(_types(items, inner))
        case {"type": "map", "values": values}:
            yield "map to " + " or ".join(_types(values, inner))
        case {"type": "record", "name": name}:
            inner[name] = type_
            yield name
        case {"type": "enum", "symbols": symbols}:
            yield ", ".join(symbols)
        case {"type": named}:
            yield str(type_.get("logicalType", named))


if __name__ == "__main__":
    for page, written in pages().items():
        (ROOT / "docs/reference" / page).write_text(written, "utf-8")
