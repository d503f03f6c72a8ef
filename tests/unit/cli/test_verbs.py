"""One table of verbs: command, REST and gRPC ask the same of `ops`, and answer with its results and errors.

Each verb gets a result in which every text is hostile to the printer, as what others have written may be (keys, values,
ids, topics, groups): emoji codes, markup, backslashes. It is printed as it is.
"""

import asyncio
import dataclasses
import enum
import inspect
import itertools
import json
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from unittest.mock import AsyncMock

import grpc
import msgspec
import pytest
from msgspec.structs import asdict

from snapkafka import ops
from snapkafka.advice import Advice, Weight
from snapkafka.cli import running
from snapkafka.cli.commands import trust as doctor_command
from snapkafka.cli.running import who
from snapkafka.cli.screen import UNBOUNDED
from snapkafka.cli.verbs import HELPS
from snapkafka.drivers import Bounds
from snapkafka.drivers.faust.offline import DescribedApp
from snapkafka.errors import EXIT_NOT_GOOD, ForkRefusedError, SnapkafkaError, all_errors
from snapkafka.options import options_of
from snapkafka.protocol import Verdict
from snapkafka.service import ROUTES, Settings
from snapkafka.service.grpc_api import messages as pb
from snapkafka.service.grpc_server import serving
from snapkafka.service.problems import REFUSALS, RefusedError
from snapkafka.service.views import Triggered
from snapkafka.verbs import CONTRACT, Request
from tests.golden.calls import ENVIRONMENT, Printed, call
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.grpc_stub import Stub
from tests.worlds.service_world import STORAGE, assembled, served, until

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
        self.results: list[Any] = []

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


def answering(name: str, filled: Filled, calls: list[dict[str, Any]] | None = None) -> Any:
    """Return what stands for a function of `ops`. `calls`: what it is given, that of requests by their fields."""
    hint = typing.get_type_hints(getattr(ops, name))["return"]
    signature = inspect.signature(getattr(ops, name))

    async def verb(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options).arguments
        if calls is not None:
            specs, requests = (
                [it for it in given.values() if isinstance(it, kind)] for kind in (ops.JobSpec, Request)
            )
            fields = [*map(asdict, specs), given, options, *map(asdict, requests)]
            calls.append({name: value for each in fields for name, value in each.items()})
        if notify := options.get("notify"):
            notify(filled.text())
        if report := options.get("report"):
            report(filled.value(ops.KeptRound))
        filled.results.append(queried(filled) if name == "query" else filled.value(hint))
        return filled.results[-1]

    return verb


def queried(filled: Filled) -> ops.Queried:
    found: ops.Queried = filled.structure(ops.Queried)
    columns = ("key", filled.text())
    return msgspec.structs.replace(
        found, columns=columns, rows=tuple({name: filled.text() for name in columns} for _ in "ab")
    )


def run_filled(
    verb: str, monkeypatch: pytest.MonkeyPatch, *more: str, flags: bool = False, filled: Filled | None = None
) -> Printed:
    arguments, functions = VERBS[verb]
    filled = filled or Filled(flags=flags)
    for name in functions:
        monkeypatch.setattr(ops, name, answering(name, filled))
    where = WHERE[:2] if verb in ("topics create", "prune") else WHERE
    return call([*verb.split(), *arguments, *where, *more])


# -- what is asked -------------------------------------------------------------------------------------------

#: Verbs that hand over their request as it is, and the fields that the command keeps to itself.
ASKING: Final[dict[str, tuple[str, ...]]] = {
    "trigger": (),
    "show": (),
    "keep": (),
    "query": ("csv",),
    "diff": (),
    "draw": ("output",),
    "trace": (),
    "invariants": (),
    "drill": (),
    "retire": (),
    "checkpoint": (),
    "topics create": ("compact", "settings"),
}
#: Values of fields that not every text or number fits.
GIVEN: Final[dict[str, Any]] = {
    "storage": STORAGE,
    "at_ms": 1_777_638_600_000,
    "invariants": ("conservation",),
    "against": "two",
}
#: By verb: its route, and the names of `ops` for fields that it has by another name.
ROUTED: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "trigger": ("POST", "/v1/snapshots/trigger", {}),
    "assemble": ("POST", "/v1/snapshots/{snapshot_id}/assemble", {}),
    "verify": ("POST", "/v1/snapshots/{snapshot_id}/verify", {}),
    "query": ("POST", "/v1/snapshots/{snapshot_id}/query", {}),
    "diff": ("GET", "/v1/snapshots/{snapshot_id}/diff", {"against": "after"}),
    "draw": ("GET", "/v1/snapshots/{snapshot_id}/diagram.svg", {"messages": "messages_max"}),
}


def request_of(kind: Any, names: Iterable[str]) -> Any:
    """Return a request in which these fields differ from their defaults."""
    filled, hints = Filled(flags=True), typing.get_type_hints(kind, include_extras=True)
    values = {name: filled.value(hints[name]) for name in names}
    values |= {name: 7_000 for name in values if name.endswith("_ms") and values[name] == 7}
    return kind(**values | {name: GIVEN[name] for name in GIVEN.keys() & values})


def words_of(request: Any) -> Iterator[str]:
    """Yield the words of a command for the fields of a request that differ from their defaults."""
    for name, option in options_of(type(request)).items():
        value = getattr(request, name)
        if value == option.default or not (option.flag or option.metavar):
            continue
        if option.type is bool:
            yield option.flag.rpartition("/")[2]
            continue
        if option.is_time:
            value = "2026-05-01T12:30:00Z" if name == "at_ms" else f"{value}ms"
        for item in value if option.many else (value,):
            yield from (option.flag, str(item)) if option.flag else (str(item),)


@pytest.mark.parametrize("verb", ASKING)
def test_a_command_and_json_ask_the_same(verb: str, world: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option arrives. The request as JSON, by the names of the contract, is that very request, too: so are the
    bodies of REST and the tasks of Airflow."""
    kind, calls = HELPS[verb].about, list[dict[str, Any]]()
    assert isinstance(kind, type)
    asked = [name for name, it in options_of(kind).items() if it.flag or it.metavar]
    request = request_of(kind, [name for name in asked if name not in ASKING[verb]])
    assert msgspec.json.decode(msgspec.json.encode(request), type=kind) == request
    name = HELPS[verb].run or {"topics create": "create_topics"}.get(verb, verb)
    monkeypatch.setattr(ops, name, answering(name, Filled(flags=True), calls))
    where = WHERE[: 2 if verb == "topics create" else 4]
    printed = call([*verb.split(), *where, *words_of(request)])
    assert calls, printed.stderr
    (given,) = calls
    wanted = {name: getattr(request, name) for name in asked if name not in ASKING[verb]}
    assert {name: given[name] for name in wanted} == wanted


@pytest.mark.parametrize("verb", ["assemble", "verify", "keep", "drill"])
def test_a_command_passes_on_how_the_job_runs(
    verb: str, world: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ops.JobSpec(invariants=("money",), parameters=("n=1",), unpickle=True, engine="embedded")
    calls = list[dict[str, Any]]()
    monkeypatch.setattr(ops, verb, answering(verb, Filled(flags=True), calls))
    call([verb, *VERBS[verb][0], *WHERE, *words_of(spec)])
    fields = "invariants", "parameters", "unpickle", "engine"
    assert [calls[0][name] for name in fields] == [getattr(spec, name) for name in fields]


@pytest.mark.parametrize("verb", ROUTED)
def test_a_route_asks_as_its_command_does_and_answers_with_the_result(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, path, others = ROUTED[verb]
    kind = ROUTES[method, path].takes["asked"]
    request = request_of(kind, kind.__struct_fields__)
    calls, filled = list[dict[str, Any]](), Filled(flags=True)
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path), STORAGE), query_s=7.0, query_memory_mb=77) as client:
        for name in ("one", "two"):
            assembled(cluster, client, tmp_path, name)
        answered = answering(verb, filled, calls)

        async def once(*arguments: Any, **options: Any) -> Any:
            found = await answered(*arguments, **options)
            return found[:1] if isinstance(found, tuple) else found

        monkeypatch.setattr(ops, verb, once)
        target, fields = path.format(snapshot_id="one"), msgspec.to_builtins(request)
        answer = client.request(method, target, **{"json" if method == "POST" else "params": fields})
        assert answer.status_code == ROUTES[method, path].status, answer.text
        until(lambda: bool(calls), "the verb to be asked")
    (given,) = calls
    wanted = {others.get(name, name): value for name, value in asdict(request).items()}
    assert {name: given[name] for name in wanted} == wanted
    about = HELPS[verb].about
    named = options_of(ops.JobSpec if isinstance(about, str) else about)
    assert {*kind.__struct_fields__} - named.keys() <= {"rows_max", "against", "messages"}
    result = json.loads(msgspec.json.encode(filled.results[0]))
    assert given.get("bounds") in (None, ops.Bounds(seconds=7.0, memory_mb=77))
    assert ("bounds" in given) == (verb in ("query", "diff", "draw"))
    if verb in ("query", "diff"):
        assert answer.json() == result
    elif verb == "trigger":
        assert answer.json() == {name: result.get(name, 7) for name in Triggered.__struct_fields__}


# -- what is answered ----------------------------------------------------------------------------------------


#: Verbs whose result is a judgement, which the exit status shows as well: by a flag, or as a finding or a refusal does.
JUDGING: Final = {"assemble", "verify", "verify --offline", "drill", "restore --check"}
REFUSING: Final = {"doctor": EXIT_NOT_GOOD, "fork drop": ForkRefusedError.exit_status}


@pytest.mark.parametrize("flags", [False, True])
@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"restore", "fork create", "prune"}))
def test_json_is_the_result_by_the_names_of_the_contract(
    verb: str, flags: bool, world: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = Filled(flags=flags)
    printed = run_filled(verb, monkeypatch, "--json", *(["-"] if verb == "drill" else []), filled=filled)
    is_bad = verb in JUDGING and not flags
    assert printed.status == REFUSING.get(verb, EXIT_NOT_GOOD if is_bad else 0)
    assert re.findall(rf'"({"|".join(CONTRACT)})": "', printed.stdout) == []
    if verb not in ("draw", "keep", "fork drop", "invariants"):
        found, result = json.loads(printed.stdout), json.loads(msgspec.json.encode(filled.results[0]))
        assert found == result or [*found.values()] == [result]


def test_lists_and_details_are_the_same_over_rest(world: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """REST adds to a snapshot what stands in its files, and which is the newest good one."""
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    connection = types.SimpleNamespace(from_environment=lambda *_: cluster)
    monkeypatch.setattr(running, "Connection", connection)
    verdicts = {"one": "VERIFIED", "two": "VERIFIED_OPEN", "three": "INCONSISTENT"}
    for number, (name, verdict) in enumerate(verdicts.items()):
        assert call(["trigger", "--wait", "--id", name, *WHERE]).status == 0
        epoch = json.loads(call(["show", name, "--json", *WHERE]).stdout)["epoch"]
        cluster.the_ledger.put(Verdict(n=900 + number, epoch=epoch, verdict=verdict))

    def of_files(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"latest_good": row["snapshot_id"] == "two", "assembled": False}

    with served(cluster) as client:
        rows = client.get("/v1/snapshots").json()["snapshots"]
        listed = json.loads(call(["list", "--json", *WHERE]).stdout)["snapshots"]
        assert rows[::-1] == [*map(of_files, listed)] and rows[0]["initiated_by_node_id"] == who()
        shown = json.loads(call(["show", "two", "--json", *WHERE]).stdout)
        assert client.get("/v1/snapshots/two").json() == of_files(shown)
        for path in ("doctor", "invariants"):
            found = json.loads(call([path, "--json", *WHERE[:3], "ns"]).stdout)
            assert client.get(f"/v1/{path}").json() == found


# -- errors --------------------------------------------------------------------------------------------------

ERRORS: Final = [
    *(cls("there it lies", hint="do this") for cls in all_errors()),
    *(RefusedError(code, "there it lies", "do this") for code in REFUSALS),
]


@pytest.mark.parametrize("error", all_errors())
def test_an_error_is_a_line_with_a_line_of_advice_and_a_status(
    error: type[SnapkafkaError], world: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JSON it is data, too."""
    found = error("there it lies", hint="do this")
    monkeypatch.setattr(ops, "list_snapshots", AsyncMock(side_effect=found))
    printed = call(["list", "--json", *WHERE])
    details = {"code": found.code, "message": found.message, "hint": "do this"}
    assert json.loads(printed.stdout)["error"] == details | {"exit_status": found.exit_status}
    assert printed.status == found.exit_status not in (0, 1)
    assert printed.stderr == "error: there it lies\n       do this\n"


def test_errors_have_a_status_over_rest_and_grpc_each() -> None:
    assert {cls.code for cls in all_errors()} & REFUSALS.keys() == {"bad-input"}
    unforeseen = {cls.code for cls in all_errors() if cls.http == 500}
    assert unforeseen == {
        *("internal", "install", "output", "restore-failed", "fork-failed", "fork-isolation"),
    }
    raised = iter(ERRORS)

    async def list_forks(where: Any, namespace: str) -> Any:
        raise next(raised)

    with served(FakeCluster(), list_forks=list_forks) as client:
        for error in ERRORS:
            answer = client.get("/v1/forks")
            assert (answer.status_code, answer.json()["code"]) == (error.http, error.code)
            assert (answer.json()["detail"], answer.json()["hint"]) == ("there it lies", "do this")
            assert ("retry-after" in answer.headers) == (error.http == 503)

    async def over_grpc() -> None:
        raised = iter(ERRORS)

        def make(*_: str) -> Any:
            raise next(raised)

        async with (
            serving(make, Settings(grpc_port=0, remote_topics=("a",)), Bounds()) as address,
            grpc.aio.insecure_channel(address) as channel,
        ):
            for error in ERRORS:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await Stub(channel).Join(pb.JoinRequest(node_id="till")).read()
                metadata = dict(refused.value.trailing_metadata() or ())
                assert (refused.value.code().name, metadata["snapkafka-code"]) == (error.grpc, error.code)

    asyncio.run(over_grpc())


# -- what is printed -----------------------------------------------------------------------------------------


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


def test_of_a_group_of_findings_three_more_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    group = [Advice(code="c", weight=Weight.NOTE, what="w", subject=f"t{n}") for n in range(12)]
    doctor_command.print_advice(group, verbose=False)
    assert "likewise: t1, t2, t3 and 8 more" in capsys.readouterr().out
