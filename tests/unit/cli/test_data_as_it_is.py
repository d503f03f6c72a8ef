"""What others have written (keys, values, ids, topics, groups, errors) is printed as it is, by every verb.

Each verb gets a result in which every text is hostile to the printer: emoji codes, markup, backslashes.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import itertools
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import pytest

from snapkafka import ops
from snapkafka.advice import Advice, Weight
from snapkafka.cli import running
from snapkafka.cli.commands import trust as doctor_command
from snapkafka.cli.screen import UNBOUNDED
from snapkafka.drivers.faust.offline import DescribedApp
from snapkafka.errors import BadInputError
from snapkafka.verbs import CONTRACT
from tests.golden.calls import ENVIRONMENT, Printed, call

#: What rich or a careless `replace` would change: codes of emojis, tags, a closing tag, escaped ones, paths of Windows.
TAIL: Final = r":user:id:42 00:ab:cd [x] [red] [/] [/bold] \[y] a\[b C:\dir\ :smile: \\ ends>"
#: Texts that are one of a few words, or a time.
WORDS = {"side": "white", "status": "done", "kind": "changed"}
WORDS |= dict.fromkeys(("assembled_at", "started_at"), "2026-01-01T00:00:00Z")
HOSTILE: Final = re.compile(r"<\d+")

WHERE: Final = ["--bootstrap", "127.0.0.1:1", "--namespace", "shop"]
#: By verb: what is given, and the functions of `ops` that answer it.
VERBS: Final[dict[str, tuple[list[str], tuple[str, ...]]]] = {
    "trigger": (["--wait"], ("trigger",)),
    "list": ([], ("list_snapshots",)),
    "show": (["latest"], ("show",)),
    "query": (["SELECT 1"], ("query",)),
    "diff": (["a", "b", "--values"], ("diff",)),
    "draw": (["a"], ("draw",)),
    "trace": (["t", "0", "1"], ("trace",)),
    "assemble": (["a", "--storage", "/s"], ("assemble",)),
    "verify": (["a"], ("verify",)),
    "verify --offline": (["a", "--storage", "/s"], ("verify_offline",)),
    "keep": (["--every", "1h"], ("keep",)),
    "drill": (["--app", "worker"], ("drill",)),
    "invariants": ([], ("invariants",)),
    "invariants money": ([], ("invariants",)),
    "restore": (["a", "--yes"], ("plan_recovery", "recover")),
    "restore --check": (["a"], ("check_restored",)),
    "fork create": (["b", "--yes"], ("plan_recovery", "recover")),
    "fork list": ([], ("list_forks",)),
    "diff --fork": (["b"], ("diff",)),
    "fork drop": (["b", "--yes"], ("plan_drop", "drop_forks")),
    "doctor": (["-v"], ("doctor",)),
    "pause": ([], ("pause",)),
    "resume": ([], ("resume",)),
    "checkpoint": ([], ("checkpoint",)),
    "retire": (["--app", "shop"], ("retire",)),
    "prune": (["--storage", "/s", "--yes"], ("plan_pruning", "prune")),
    "topics create": (["t"], ("create_topics",)),
}


class Filled:
    """Results in which every text is hostile, and its number shows whether it was printed as it is."""

    def __init__(self, *, flags: bool) -> None:
        self.flags, self._numbers = flags, itertools.count(1)

    def text(self) -> str:
        return f"<{next(self._numbers)}{TAIL}"

    def value(self, hint: Any) -> Any:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if hint is str or hint is Any:
            return self.text()
        if hint is bool:
            return self.flags
        if hint in (int, float):
            return hint(7)
        if origin is typing.Literal:
            return arguments[0]
        if origin is typing.Annotated:
            return self.value(arguments[0])
        if origin in (typing.Union, types.UnionType):
            return self.value(arguments[0])
        if inspect.isclass(origin) and issubclass(origin, Mapping):
            return {self.value(arguments[0]): self.value(arguments[1])}
        if origin is tuple and arguments[-1] is not ...:
            return tuple(map(self.value, arguments))
        if origin in (tuple, list, frozenset) or getattr(origin, "__module__", "") == "collections.abc":
            return (tuple if origin is not frozenset else frozenset)(self.value(arguments[0]) for _ in "ab")
        if inspect.isclass(hint) and issubclass(hint, enum.Enum):
            return next(iter(hint))
        if hint is bytes:
            return b"raw"
        return self.structure(hint)

    def structure(self, kind: Any) -> Any:
        if kind is ops.Mask:
            return ops.Mask(topic=self.text(), value=self.text())
        hints = typing.get_type_hints(kind, include_extras=True)
        if issubclass(kind, msgspec.Struct):
            names = kind.__struct_fields__
        elif dataclasses.is_dataclass(kind):
            names = tuple(field.name for field in dataclasses.fields(kind) if field.init)
        else:
            names = kind._fields
        return kind(
            **{
                name: (WORDS.get(name) if hints[name] is str else "") or self.value(hints[name])
                for name in names
            }
        )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(running.console.console, "width", UNBOUNDED)
    monkeypatch.setattr(running.notices.console, "width", UNBOUNDED)
    monkeypatch.setattr(
        running, "Connection", types.SimpleNamespace(from_environment=lambda *_: types.SimpleNamespace())
    )


def changed(printed: str) -> Iterator[str]:
    """Yield each text that was not printed as it was given."""
    for found in HOSTILE.finditer(printed):
        if not printed.startswith(TAIL, found.end()):
            yield printed[found.start() : found.end() + len(TAIL)]


def answering(name: str, filled: Filled) -> Any:
    hint = typing.get_type_hints(getattr(ops, name))["return"]
    signature = inspect.signature(getattr(ops, name))

    async def verb(*arguments: Any, **options: Any) -> Any:
        signature.bind(*arguments, **options)
        if notify := options.get("notify"):
            notify(filled.text())
        if report := options.get("report"):
            report(filled.value(ops.KeptRound))
        if name == "query":
            return queried(filled)
        return filled.value(hint)

    return verb


def queried(filled: Filled) -> ops.Queried:
    found: ops.Queried = filled.structure(ops.Queried)
    columns = ("key", filled.text())
    return msgspec.structs.replace(
        found, columns=columns, rows=tuple({name: filled.text() for name in columns} for _ in "ab")
    )


def run_filled(verb: str, monkeypatch: pytest.MonkeyPatch, *more: str, flags: bool = False) -> Printed:
    arguments, functions = VERBS[verb]
    filled = Filled(flags=flags)
    for name in functions:
        monkeypatch.setattr(ops, name, answering(name, filled))
    where = WHERE[:2] if verb in ("topics create", "prune") else WHERE
    return call([*verb.split(), *arguments, *where, *more])


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"restore", "fork create", "prune"}))
def test_json_has_the_names_of_the_contract(verb: str, world: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_filled(verb, monkeypatch, "--json", *(["-"] if verb == "drill" else []))
    assert found.stdout.startswith("{")
    assert re.findall(rf'"({"|".join(CONTRACT)})": "', found.stdout) == []


@pytest.mark.parametrize("flags", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_prints_data_as_it_is(
    verb: str, flags: bool, world: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run_filled(verb, monkeypatch, flags=flags)
    assert "Traceback" not in found.stderr
    assert list(changed(found.stdout + found.stderr)) == []
    assert found.stdout.count("<") or verb in ("draw", "verify --offline")


def test_an_app_without_a_broker(world: None, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = Filled(flags=False)
    monkeypatch.setattr(doctor_command, "describe_app_at", lambda path: filled.structure(DescribedApp))
    found = call(["doctor", "-v", "--offline", "shop:app"])
    assert list(changed(found.stdout)) == []
    assert found.stdout.count("<") > 5


def test_errors_and_advice(world: None, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = Filled(flags=False)

    async def failing(*arguments: Any, **options: Any) -> Any:
        raise BadInputError(filled.text(), hint=filled.text())

    monkeypatch.setattr(ops, "list_snapshots", failing)
    found = call(["list", *WHERE])
    assert list(changed(found.stderr)) == []
    assert found.stderr.count("<") == 2


def test_of_a_group_of_findings_three_more_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    group = [Advice(code="c", weight=Weight.NOTE, what="w", subject=f"t{n}") for n in range(12)]
    doctor_command.print_advice(group, verbose=False)
    assert "likewise: t1, t2, t3 and 8 more" in capsys.readouterr().out
