"""One table of verbs: command, REST and gRPC ask the same of `ops`, and answer with its results and errors.

Each verb gets a result in which every text is hostile to the printer, as what others have written may be (keys, values,
ids, topics, groups): emoji codes, markup, backslashes. It is printed as it is.
"""

import dataclasses
import enum
import inspect
import itertools
import json
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, Final
from unittest.mock import AsyncMock

import msgspec
import pytest
from msgspec.structs import asdict

from snapkafka import ops
from snapkafka.advice import Advice, Weight
from snapkafka.cli import running
from snapkafka.cli.commands import trust as doctor_command
from snapkafka.cli.running import who
from snapkafka.cli.verbs import HELPS
from snapkafka.drivers.faust.offline import DescribedApp
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError, ForkRefusedError, RestoreRefusedError
from snapkafka.options import options_of
from snapkafka.protocol import Verdict
from snapkafka.service import ROUTES
from snapkafka.service.views import Triggered
from snapkafka.verbs import CONTRACT, Request
from tests.golden.calls import Printed, call
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import STORAGE, assembled, served, until

pytestmark = pytest.mark.usefixtures("world")

#: What rich or a careless `replace` would change: codes of emojis, tags, a closing tag, escaped ones, paths of Windows.
TAIL: Final = r":user:id:42 00:ab:cd [x] [red] [/] [/bold] \[y] a\[b C:\dir\ :smile: \\ ends>"
#: Texts that are one of a few words, or a time.
WORDS = {"side": "white", "status": "done", "kind": "changed"}
WORDS |= dict.fromkeys(("assembled_at", "started_at"), "2026-01-01T00:00:00Z")
HOSTILE: Final = re.compile(r"<\d+")

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
    """Stands for `ops`: results in which every text is hostile, and its number shows whether it was printed as it is.
    `calls`: what functions were given, and that of requests by their fields; `results`: what they returned."""

    def __init__(self, *, flags: bool) -> None:
        self.flags, self._numbers = flags, itertools.count(1)
        self.calls, self.results = list[dict[str, Any]](), list[Any]()

    def text(self) -> str:
        return f"<{next(self._numbers)}{TAIL}"

    def value(self, hint: Any) -> Any:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if hint is str or hint is Any:
            return self.text()
        if hint in (bool, int, float, bytes):
            return {bool: self.flags, int: 7, float: 7.0, bytes: b"raw"}[hint]
        if origin is typing.Literal:
            return arguments[0]
        if origin in (typing.Annotated, typing.Union, types.UnionType):
            return self.value(arguments[0])
        if inspect.isclass(origin) and issubclass(origin, Mapping):
            return {self.value(arguments[0]): self.value(arguments[1])}
        if origin is tuple and arguments[-1] is not ...:
            return tuple(map(self.value, arguments))
        if origin in (tuple, list, frozenset) or getattr(origin, "__module__", "") == "collections.abc":
            return (tuple if origin is not frozenset else frozenset)(self.value(arguments[0]) for _ in "ab")
        if inspect.isclass(hint) and issubclass(hint, enum.Enum):
            return next(iter(hint))
        return self.structure(hint)

    def structure(self, kind: Any) -> Any:
        hints = typing.get_type_hints(kind, include_extras=True)
        words = {name: WORDS[name] for name in WORDS.keys() & hints.keys() if hints[name] is str}
        names = ("topic", "value") if kind is ops.Mask else fields_of(kind)
        values = {name: words.get(name) or self.value(hints[name]) for name in names}
        if kind is ops.Queried:
            columns = values["columns"] = ("key", self.text())
            values["rows"] = tuple({name: self.text() for name in columns} for _ in "ab")
        return kind(**values)

    def result_of(self, name: str) -> Any:
        return self.value(typing.get_type_hints(getattr(ops, name))["return"])

    def stand_for(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Answer instead of a function of `ops`."""
        signature, result = inspect.signature(getattr(ops, name)), self.result_of(name)

        async def verb(*arguments: Any, **options: Any) -> Any:
            given = signature.bind(*arguments, **options).arguments
            self.calls.append({**given, **options})
            for part in sorted(given.values(), key=lambda it: isinstance(it, Request)):
                self.calls[-1] |= {name: getattr(part, name) for name in fields_of(type(part))}
            if notify := options.get("notify"):
                notify(self.text())
            if report := options.get("report"):
                report(self.value(ops.KeptRound))
            self.results.append(result)
            return result

        monkeypatch.setattr(ops, name, verb)


def fields_of(kind: Any) -> tuple[str, ...]:
    """Return the names of what a struct, a dataclass or a named tuple is made from; of others nothing."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    found: tuple[str, ...] = getattr(kind, "__struct_fields__", getattr(kind, "_fields", ()))
    return found


def changed(printed: str) -> Iterator[str]:
    """Yield each text that was not printed as it was given."""
    for found in HOSTILE.finditer(printed):
        if not printed.startswith(TAIL, found.end()):
            yield printed[found.start() : found.end() + len(TAIL)]


def run_filled(verb: str, filled: Filled, monkeypatch: pytest.MonkeyPatch, *more: str) -> Printed:
    arguments, functions = VERBS[verb]
    for name in functions:
        filled.stand_for(name, monkeypatch)
    return call([*verb.split(), *arguments, *more])


# -- what is asked -------------------------------------------------------------------------------------------

#: Fields that a command keeps to itself, and the verbs that hand over all others of their request as they are.
KEPT: Final[dict[str, tuple[str, ...]]] = {
    "query": ("csv",),
    "draw": ("output",),
    "restore": ("into", "wait_s", "suppress", "abort", "check"),
    "fork create": ("suppress", "mask"),
    "topics create": ("compact", "settings"),
}
ASKING: Final = ["trigger", "show", "keep", "diff", "trace", "invariants", "drill", "retire", "checkpoint"]
#: Values of fields that not every text or number fits.
GIVEN: Final[dict[str, Any]] = {
    "storage": STORAGE,
    "at_ms": 1_777_638_600_000,
    "invariants": ("conservation",),
    "against": "two",
}
JOB: Final = {"invariants": ("money",), "parameters": ("n=1",), "unpickle": True, "engine": "embedded"}
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


@pytest.mark.parametrize("verb", [*ASKING, *KEPT])
def test_a_command_and_json_ask_the_same(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option arrives. The request as JSON, by the names of the contract, is that very request, too: so are the
    bodies of REST and the tasks of Airflow."""
    kind, filled = HELPS[verb].about, Filled(flags=True)
    assert isinstance(kind, type)
    asked = {name for name, it in options_of(kind).items() if it.flag or it.metavar} - {*KEPT.get(verb, ())}
    request = request_of(kind, asked)
    assert msgspec.json.decode(msgspec.json.encode(request), type=kind) == request
    filled.stand_for(VERBS[verb][1][0], monkeypatch)
    printed = call([*verb.split(), *words_of(request)])
    assert filled.calls, printed.stderr
    wanted = {name: getattr(request, name) for name in asked}
    assert {name: filled.calls[0][name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("trigger --wait --ttl 1min --align-timeout 500", {"ttl_ms": 60_000, "align_timeout_ms": 500}),
        ("trigger --apps a,b --apps c", {"apps": ("a", "b", "c")}),
        ("checkpoint --keep 0", {"keep_ms": 0}),
        ("topics create t --compact --set a=7", {"settings": {"cleanup.policy": "compact", "a": "7"}}),
        ("fork drop staging", {"fork": "staging", "expired": False}),
        ("fork drop --expired", {"fork": "", "expired": True}),
        ("show --at 2026-05-01T14:30:00+02:00", {"at_ms": 1_777_638_600_000}),
        ("restore --wait 90", {"wait_s": 90}),
        ("restore --check friday --into host:2", {"where.hosts": "host:2", "name": "friday"}),
        ("fork create a --mask mask.toml", {"masks": (ops.Mask(topic="orders", value="1"),)}),
        ("restore --suppress erased.toml", {"suppress.keys": ("ann",)}),
        *(
            (f"{verb} --invariants money --set n=1 --unpickle --engine embedded", JOB)
            for verb in ("assemble a --storage /s", "verify a", "keep --every 1h", "drill --app worker")
        ),
        *((f"trigger {wrong}", None) for wrong in ("--ttl soon", "--ttl 0", "--apps a,,b", "--apps ")),
        *((f"fork create a {wrong}", None) for wrong in ("--mask no.toml", "--suppress no.toml")),
        ("checkpoint --keep inf", None),
    ],
)
def test_options_are_read(words: str, given: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mask.toml").write_text("[[mask]]\ntopic = 'orders'\nvalue = '1'\n")
    Path("erased.toml").write_text("keys = ['ann']\n")
    filled = Filled(flags=True)
    for name in {"await_workers"}.union(*(names for _, names in VERBS.values())):
        filled.stand_for(name, monkeypatch)
    printed = call(words.split(" "))
    if given is None:
        assert (printed.status, filled.calls) == (BadInputError.exit_status, [])
        return
    found = types.SimpleNamespace(**filled.calls[0])
    assert {name: attrgetter(name)(found) for name in given} == given


@pytest.mark.parametrize("verb", ROUTED)
def test_a_route_asks_as_its_command_does(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method, path, others = ROUTED[verb]
    kind = ROUTES[method, path].takes["asked"]
    request = request_of(kind, kind.__struct_fields__)
    filled, cluster = Filled(flags=True), FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path), STORAGE), query_s=7.0, query_memory_mb=77) as client:
        for name in ("one", "two"):
            assembled(cluster, client, tmp_path, name)
        filled.stand_for(verb, monkeypatch)
        target, fields = path.format(snapshot_id="one"), msgspec.to_builtins(request)
        answer = client.request(method, target, **{"json" if method == "POST" else "params": fields})
        assert answer.status_code == ROUTES[method, path].status, answer.text
        until(lambda: bool(filled.calls), "the verb to be asked")
    (given,) = filled.calls
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


# -- what changes something ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "refusal", "clean", "error"),
    [
        ("restore", {"kind": "restore"}, {"refusals": ()}, RestoreRefusedError),
        ("fork create", {"kind": "fork"}, {"refusals": ()}, ForkRefusedError),
        ("fork drop", {}, {"kept": ""}, ForkRefusedError),
        ("prune", {}, {}, None),
    ],
)
def test_a_plan_is_printed_refused_confirmed_and_run_as_it_is(
    verb: str, refusal: Any, clean: Any, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def but_for(found: Any, changes: dict[str, Any]) -> Any:
        one = not isinstance(found, tuple)
        return dataclasses.replace(found, **changes) if one else tuple(but_for(it, changes) for it in found)

    (*arguments, _), names = VERBS[verb]
    filled = Filled(flags=False)
    found, done = map(filled.result_of, names)
    refused = but_for(found, refusal)
    planned = but_for(refused, clean)
    monkeypatch.setattr(ops, names[1], acted := AsyncMock(return_value=done))
    steps = [(planned, "--dry-run", 0), (planned, "", BadInputError.exit_status), (planned, "--yes", 0)]
    if error:
        steps += [(refused, "--dry-run", EXIT_NOT_GOOD), (refused, "--yes", error.exit_status)]
    for plan, how, status in steps:
        monkeypatch.setattr(ops, names[0], AsyncMock(return_value=plan))
        words = [*verb.split(), *arguments, *how.split()]
        printed, reported = call(words), call([*words, "--json"])
        assert (printed.status, reported.status) == (status, status), printed.stderr
        assert printed.stdout.count("<") and list(changed(printed.stdout)) == []
        fields = json.loads(reported.stdout)
        assert fields["planned"] == json.loads(msgspec.json.encode(plan))
        assert bool(fields.get("done")) is (how == "--yes" and not status)
    assert [planned in it.args for it in acted.await_args_list] == [True, True], "what was printed is run"


# -- what is answered ----------------------------------------------------------------------------------------


#: Verbs whose result is a judgement, which the exit status shows as well: by a flag, or as a finding or a refusal does.
JUDGING: Final = {"assemble", "verify", "verify --offline", "drill", "restore --check"}
REFUSING: Final = {"doctor": EXIT_NOT_GOOD, "fork drop": ForkRefusedError.exit_status}


@pytest.mark.parametrize("flags", [False, True])
@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"restore", "fork create", "prune"}))
def test_json_has_the_names_of_the_contract(verb: str, flags: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = Filled(flags=flags)
    into = [] if verb != "drill" else ["-"] if flags else ["drill.json"]
    printed = run_filled(verb, filled, monkeypatch, "--json", *into)
    is_bad = verb in JUDGING and not flags
    assert printed.status == REFUSING.get(verb, EXIT_NOT_GOOD if is_bad else 0)
    assert re.findall(rf'"({"|".join(CONTRACT)})": "', printed.stdout) == []
    if verb not in ("draw", "keep", "fork drop", "invariants"):
        text = Path("drill.json").read_text() if "drill.json" in into else printed.stdout
        found, result = json.loads(text), json.loads(msgspec.json.encode(filled.results[0]))
        assert found == result or [*found.values()] == [result]


def test_lists_and_details_are_the_same_over_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """REST adds to a snapshot what stands in its files, and which is the newest good one."""
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    connection = types.SimpleNamespace(from_environment=lambda *_: cluster)
    monkeypatch.setattr(running, "Connection", connection)
    verdicts = {"one": "VERIFIED", "two": "VERIFIED_OPEN", "three": "INCONSISTENT"}
    for number, (name, verdict) in enumerate(verdicts.items()):
        assert call(["trigger", "--wait", "--id", name]).status == 0
        epoch = json.loads(call(["show", name, "--json"]).stdout)["epoch"]
        cluster.the_ledger.put(Verdict(n=900 + number, epoch=epoch, verdict=verdict))

    def of_files(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"latest_good": row["snapshot_id"] == "two", "assembled": False}

    with served(cluster) as client:
        rows = client.get("/v1/snapshots").json()["snapshots"]
        listed = json.loads(call(["list", "--json"]).stdout)["snapshots"]
        assert rows[::-1] == [*map(of_files, listed)] and rows[0]["initiated_by_node_id"] == who()
        shown = json.loads(call(["show", "two", "--json"]).stdout)
        assert client.get("/v1/snapshots/two").json() == of_files(shown)
        for path in ("doctor", "invariants"):
            found = json.loads(call([path, "--json"]).stdout)
            assert client.get(f"/v1/{path}").json() == found


# -- what is printed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_prints_data_as_it_is(verb: str, flags: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_filled(verb, Filled(flags=flags), monkeypatch)
    assert "Traceback" not in found.stderr
    assert list(changed(found.stdout + found.stderr)) == []
    assert found.stdout.count("<") or verb in ("draw", "verify --offline")


def test_an_app_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    filled = Filled(flags=False)
    monkeypatch.setattr(doctor_command, "describe_app_at", lambda path: filled.structure(DescribedApp))
    found = call(["doctor", "-v", "--offline", "shop:app"])
    assert list(changed(found.stdout)) == []
    assert found.stdout.count("<") > 5


def test_of_a_group_of_findings_three_more_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    group = [Advice(code="c", weight=Weight.NOTE, what="w", subject=f"t{n}") for n in range(12)]
    doctor_command.print_advice(group, verbose=False)
    assert "likewise: t1, t2, t3 and 8 more" in capsys.readouterr().out
