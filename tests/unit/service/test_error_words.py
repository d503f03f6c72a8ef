"""Errors in the words of who reads them: the command's options, or fields and routes of REST and gRPC.

No text that a client can meet holds a word of the command: options and verbs are values in it, which REST renders.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
import yaml
from typer.main import get_command

from snapkafka import ops
from snapkafka.cli.verbs import app as command
from snapkafka.errors import (
    COMMAND,
    PLAIN,
    BadInputError,
    BrokerUnavailableError,
    Option,
    Reported,
    SnapkafkaError,
    StorageError,
    Text,
    Verb,
    all_errors,
)
from snapkafka.protocol.records import Abort
from snapkafka.service import grpc_server, requests
from snapkafka.service.app import ROUTES, openapi
from snapkafka.service.problems import (
    FIELDS,
    HTTP_STATUS,
    OF_SERVICE,
    REST,
    ROUTE_OF,
    WITHOUT_ROUTE,
    RefusedError,
)
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import asked, assembled, served, until

ROOT: Final = Path(__file__).resolve().parents[3]
#: Where requests enter, and the job that a request starts as a process.
ENTRANCES: Final = (
    "snapkafka.service.app",
    "snapkafka.service.grpc_server",
    "snapkafka.assembly.spark.entry",
)
#: Modules that are imported on the way and do nothing for a request, and why.
UNREACHED: Final = {
    "snapkafka.recovery.session": "restores and forks are made by the command; the service lists them",
    "snapkafka.recovery.record_refusals": "reasons against a restore, which the command makes",
    "snapkafka.service.settings": "checked before the service listens",
}
#: Module and option that may stand in a sentence of it, and why.
ALLOWED: Final = {
    ("snapkafka.assembly.cluster", "--find-hanging"): "of kafka-transactions.sh, which is named",
    ("snapkafka.assembly.spark.reading.kafka_source", "--jars"): "of spark-submit, which is named",
    ("snapkafka.assembly.spark.reading.kafka_source", "--packages"): "of spark-submit, which is named",
    ("snapkafka.kafka.records.bulk", "--no-binary"): "of pip, which is named",
    (
        "snapkafka.kafka.login.properties",
        "--command-config",
    ): "of Kafka's command-line tools, which are named",
}
#: Where verbs are rendered.
RENDERERS: Final = {"snapkafka.errors", "snapkafka.service.problems"}
#: Findings of `doctor`: their remedies are commands of an operator.
REMEDIES: Final = {
    "snapkafka.ops.doctoring",
    "snapkafka.ops.doctoring_cluster",
    "snapkafka.ops.lost_headers",
    "snapkafka.ops.topic_settings",
}
OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


# -- every sentence that a client can meet -------------------------------------------------------------------


def path_of(module: str) -> Path | None:
    """Return the file of a module, None where there is none."""
    place = ROOT.joinpath(*module.split("."))
    found = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in found if path.is_file()), None)


@functools.cache
def tree_of(module: str) -> ast.Module:
    path = path_of(module)
    assert path is not None, module
    return ast.parse(path.read_text("utf-8"))


class Imported(NamedTuple):
    module: str
    name: str
    known_as: str


def imports(module: str) -> Iterator[Imported]:
    """Yield what a module imports of this package."""
    path = path_of(module)
    assert path is not None
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")
            start = [*above[: len(above) - node.level + 1]] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            if base.split(".")[0] == "snapkafka":
                yield from (Imported(base, item.name, item.asname or item.name) for item in node.names)
        elif isinstance(node, ast.Import):
            mine = (item.name for item in node.names if item.name.split(".")[0] == "snapkafka")
            yield from (Imported(name, "", name) for name in mine)


def home(module: str, name: str) -> str:
    """Return the module that a name comes from; packages only pass names on."""
    if not name:
        return module
    if path_of(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    path = path_of(module)
    if path is not None and path.name == "__init__.py":
        for item in imports(module):
            if item.known_as == name:
                return home(item.module, item.name)
    return module


def uses(module: str) -> Iterator[str]:
    """Yield the modules that a module uses; of `ops` those whose functions it names."""
    for item in imports(module):
        found = home(item.module, item.name)
        if found != "snapkafka.ops":
            yield found
            continue
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == item.known_as:
                yield home("snapkafka.ops", node.attr)


def reached() -> set[str]:
    found, todo = set[str](), [*ENTRANCES]
    while todo:
        module = todo.pop()
        if module in found:
            continue
        found.add(module)
        if module not in UNREACHED:
            todo += uses(module)
    return found


def text_of(node: ast.expr) -> str | None:
    """Return the text of a literal, with `x1` for each value in it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "x1" for part in node.values)  # type: ignore[misc]
    return None


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may hold a sentence below a node: no docstring, no log line, no help of an option."""
    for child in ast.iter_child_nodes(node):
        is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        is_logged = isinstance(child, ast.Call) and ast.unparse(child.func).startswith("logger.")
        is_help = isinstance(child, ast.keyword) and child.arg == "help"
        if not (is_docstring or is_logged or is_help):
            yield child


def literals(node: ast.AST) -> Iterator[str]:
    """Yield the texts below a node."""
    if isinstance(node, ast.expr) and (text := text_of(node)) is not None:
        yield text
        return
    for child in children(node):
        yield from literals(child)


def of_the_command(module: str) -> Iterator[str]:
    """Yield the sentences of a module that have words of the command: an option, or itself."""
    for text in literals(tree_of(module)):
        if " " in text.strip() and (OPTION.search(text) or "`snapkafka " in text):
            yield text


@pytest.fixture(scope="module")
def modules() -> set[str]:
    """The modules whose texts a client can meet."""
    found = reached() - UNREACHED.keys()
    return {module for module in found if not module.startswith("snapkafka.assembly.spec")}


def test_the_modules_that_requests_reach_are_found(modules: set[str]) -> None:
    """Those that the walk must not lose; and nothing is excused that is not met."""
    assert {
        "snapkafka.errors", "snapkafka.kafka.preflight", "snapkafka.kafka.ledger.reading",
        "snapkafka.kafka.ledger.manifest_match",
        "snapkafka.ops.triggering", "snapkafka.ops.aborting", "snapkafka.ops.assembling", "snapkafka.ops.diffing",
        "snapkafka.ops.querying", "snapkafka.drawing.wall_clock",
        "snapkafka.store.state_chain",
        "snapkafka.store.checked_files", "snapkafka.checks.invariants", "snapkafka.assembly.command",
        "snapkafka.assembly.base", "snapkafka.drivers.foreign.driver", "snapkafka.service.routes",
    } <= modules  # fmt: skip
    assert UNREACHED.keys() <= reached()
    assert modules >= REMEDIES
    assert not any(module.startswith(("snapkafka.cli", "snapkafka.drivers.faust")) for module in modules)
    met = {
        (module, option)
        for module in modules
        for text in of_the_command(module)
        for option in OPTION.findall(text)
    }
    assert ALLOWED.keys() <= met


def test_no_text_that_a_client_can_meet_has_words_of_the_command(modules: set[str]) -> None:
    wrong = []
    for module in sorted(modules - RENDERERS - REMEDIES):
        for text in of_the_command(module):
            if left := {option for option in OPTION.findall(text) if (module, option) not in ALLOWED}:
                wrong.append(f"{module}: {text!r}: write Option(...) for {left}")
            if "`snapkafka " in text:
                wrong.append(f"{module}: {text!r}: write Verb(...)")
    assert not wrong


# -- options and verbs ---------------------------------------------------------------------------------------


def options_of(name: str) -> set[str]:
    """Return the options of a command by their long names, without dashes."""
    found: Any = get_command(command)
    for word in name.split():
        found = found.commands[word]
    return {
        option.removeprefix("--") for item in found.params for option in (*item.opts, *item.secondary_opts)
    }


def constants(node: ast.expr) -> Iterator[str]:
    yield from (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))  # type: ignore[misc]


@functools.cache
def named() -> tuple[set[str], set[tuple[str, tuple[str, ...]]]]:
    """Return the options that texts of the package name, and the verbs with their options."""
    options, verbs = set[str](), set[tuple[str, tuple[str, ...]]]()
    for path in (ROOT / "snapkafka").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name, keywords = ast.unparse(node.func), {item.arg: item.value for item in node.keywords}
            if name == "Option" and isinstance(node.args[0], ast.Constant):
                options.add(str(node.args[0].value))
            elif name == "Verb" and isinstance(node.args[0], ast.Constant):
                given = keywords.get("options", node.args[2] if len(node.args) > 2 else None)
                verbs.add((str(node.args[0].value), tuple(constants(given)) if given else ()))
            elif name.endswith("Error") and isinstance(keywords.get("field"), ast.Constant):
                options |= {*constants(keywords["field"])}
    return options, verbs


#: Of the job alone, as people start it by spark-submit.
OF_THE_JOB: Final = {"result", "snapshot", "spec"}
#: That of every command.
HELP: Final = "help"


def test_options_and_verbs_in_texts_are_those_of_the_command() -> None:
    verbs = (
        "trigger",
        "assemble",
        "verify",
        "query",
        "diff",
        "draw",
        "show",
        "serve",
        "trace",
        "keep",
        "restore",
    )
    in_texts, verbs_in_texts = named()
    known = {HELP} | {option for verb in verbs for option in options_of(verb)}
    assert known >= in_texts - OF_THE_JOB, in_texts - known
    assert len(in_texts) > 15
    for verb, options in verbs_in_texts:
        assert {*options} <= options_of(verb), verb
    assert {verb for verb, _ in verbs_in_texts} >= {"list", "show", "doctor", "resume", "assemble"}


def test_an_option_has_no_dashes_for_a_client() -> None:
    for option in (Option(name, *value) for name in named()[0] for value in ((), ("VALUE",))):
        assert not OPTION.search(REST.option(option)), option
        assert not OPTION.search(grpc_server.GRPC.option(option)), option
        assert not OPTION.search(PLAIN.option(option)), option
        assert COMMAND.option(option).startswith(f"--{option.name}")


def test_a_verb_is_a_route_for_a_client_or_one_for_operators() -> None:
    for name, options in named()[1]:
        verb = Verb(name, ("friday",), options)
        for worded in (REST.verb(verb), grpc_server.GRPC.verb(verb)):
            assert not OPTION.search(worded), verb
            route = re.match(r"`(GET|POST) (/v1/[^`]*)`", worded)
            assert route or worded == f"`snapkafka {name}` (for operators)"
            assert bool(route) is (name in ROUTE_OF and WITHOUT_ROUTE.isdisjoint(options)), verb


def test_fields_are_those_of_requests_and_routes_those_of_the_service() -> None:
    bodies = (
        requests.TriggerRequest,
        requests.AssemblyRequest,
        requests.VerifyRequest,
        requests.QueryRequest,
    )
    assert {*FIELDS.values()} <= {name for body in bodies for name in body.__struct_fields__}
    assert FIELDS.keys() <= {
        option for name in ("trigger", "assemble", "verify") for option in options_of(name)
    }
    assert options_of("serve") >= OF_SERVICE
    assert {route.replace("{id}", "{snapshot_id}") for route in ROUTE_OF.values()} <= {
        f"{method} {path}" for method, path in ROUTES
    }
    assert all(options_of(name) for name in ROUTE_OF)
    document = yaml.safe_load(openapi().read_text("utf-8"))
    queries = {"list": requests.ListRequest, "diff": requests.DiffRequest, "diagram": requests.DiagramRequest}
    for (method, path), (name, _) in ROUTES.items():
        if name in queries:
            given = document["paths"][path][method.lower()]["parameters"]
            assert {item["name"] for item in given if item.get("in") == "query"} == {
                *queries[name].__struct_fields__
            }


# -- single texts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "at_the_command", "of_rest"),
    [
        ((Verb("list"), " lists them"), "`snapkafka list` lists them", "`GET /v1/snapshots` lists them"),
        ((Verb("show", ("ID",)),), "`snapkafka show ID`", "`GET /v1/snapshots/{id}`"),
        ((Verb("show", ("a b",)),), "`snapkafka show a b`", "`GET /v1/snapshots/a%20b`"),
        ((Verb("show", ("a/b",)),), "`snapkafka show a/b`", "`GET /v1/snapshots/{id}`"),
        ((Verb("assemble", ("a",)),), "`snapkafka assemble a`", "`POST /v1/snapshots/a/assemble`"),
        (
            (Verb("assemble", ("a", "b")),),
            "`snapkafka assemble a b`",
            "`POST /v1/snapshots/{id}/assemble` for each of a, b",
        ),
        (
            (Verb("verify", options=("tables", "record")), " compares"),
            "`snapkafka verify --tables --record` compares",
            '`POST /v1/snapshots/{id}/verify` with "tables": true and "record": true compares',
        ),
        (
            (Verb("verify", options=("offline",)), " lists"),
            "`snapkafka verify --offline` lists",
            "`snapkafka verify` (for operators) lists",
        ),
        ((Verb("fork list"),), "`snapkafka fork list`", "`GET /v1/forks`"),
        ((Verb("resume"),), "`snapkafka resume`", "`snapkafka resume` (for operators)"),
        (("leave it out of ", Option("apps")), "leave it out of --apps", "leave it out of apps"),
        (
            ("add ", Option("type", "incremental")),
            "add --type incremental",
            'add "snapshot_type": "incremental"',
        ),
        ((Option("retries", "1"), " more"), "--retries 1 more", '"retries": 1 more'),
        (("check ", Option("storage")), "check --storage", "check target_storage_uri"),
        (("check ", Option("bootstrap")), "check --bootstrap", "check the service's bootstrap"),
        (("see ", Option("help")), "see --help", "see /openapi.yaml"),
        (
            "kafka-x.sh --bootstrap-server a",
            "kafka-x.sh --bootstrap-server a",
            "kafka-x.sh --bootstrap-server a",
        ),
    ],
)
def test_a_text_in_the_words_of_who_reads_it(text: Text, at_the_command: str, of_rest: str) -> None:
    assert (COMMAND.text(text), REST.text(text)) == (at_the_command, of_rest)
    error = BadInputError(text, hint=text)
    assert (COMMAND.message(error), REST.advice(error)) == (at_the_command, of_rest)


@pytest.mark.parametrize(
    ("field", "at_the_command", "of_rest"),
    [("ttl", "--ttl", "ttl_ms"), ("keys", "--keys", "keys"), ("storage", "--storage", "target_storage_uri")],
)
def test_a_field_stands_before_its_problem(field: str, at_the_command: str, of_rest: str) -> None:
    error = BadInputError("must be 0 or more, got '--ttl'", field=field)
    rest = " must be 0 or more, got '--ttl'"  # a value of a user is left as it is
    assert (COMMAND.message(error), REST.message(error)) == (at_the_command + rest, of_rest + rest)
    assert (str(error), error.message) == (f"{field}{rest}", f"{field}{rest}")


@pytest.mark.parametrize("kind", all_errors())
def test_an_error_passes_from_one_process_to_another(kind: type[SnapkafkaError]) -> None:
    error = kind((Option("ttl"), " and ", Verb("show", ("a",))), hint=(Option("apps", "x"),), field="ttl")
    line = msgspec.json.encode(Reported.of(error))
    again = msgspec.json.decode(line, type=Reported).error()
    assert type(again) is kind
    assert (again.problem, again.see, again.field) == (error.problem, error.see, "ttl")


# -- over the routes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.code)
def test_each_error_that_reaches_rest_has_no_word_of_the_command(
    kind: type[SnapkafkaError], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any, **__: Any) -> Any:
        raise kind(("needs ", *map(Option, sorted(named()[0]))), field="ttl")

    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    monkeypatch.setattr(ops, "trigger", fails)
    with served(cluster) as client:
        answer = client.post("/v1/snapshots/trigger", json=asked())
    assert answer.status_code == HTTP_STATUS[kind.code]
    assert (answer.json()["code"], answer.json()["field"]) == (kind.code, "ttl_ms")
    assert not OPTION.search(answer.text)
    commands = re.findall(r"`snapkafka [^`]*`(?! \(for operators\))", answer.text)
    assert not commands
    assert OPTION.search(COMMAND.message(kind(("needs ", Option("ttl")))))


def test_a_refused_trigger_names_fields(tmp_path: Path) -> None:
    cluster = FakeCluster()
    worker = Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path),)) as client:

        def hint(**more: Any) -> str:
            body = asked(target_storage_uri=str(tmp_path)) | more
            answer = client.post("/v1/snapshots/trigger", json=body)
            assert answer.status_code in (400, 404, 409), answer.text
            return str(answer.json()["hint"])

        assert hint(ttl_ms=1) == "see /openapi.yaml"
        assert hint(parent_snapshot_id="x") == 'add "snapshot_type": "incremental"'
        parent = {"snapshot_type": "incremental", "parent_snapshot_id": "none"}
        assert hint(**parent) == "`GET /v1/snapshots` lists the snapshots"
        assert hint(retries=-1, snapshot_id="x") == "0 tries it once"
        worker._closes = False
        running = client.post(
            "/v1/snapshots/trigger", json=asked(snapshot_id="runs", target_storage_uri=str(tmp_path))
        ).json()["epoch"]
        assert hint(**parent | {"parent_snapshot_id": "runs"}) == "`GET /v1/snapshots/runs` shows the reason"
        cluster.the_ledger.put(Abort(n=3, epoch=running, code="ttl", reason="late", culprit="shop"))
        until(lambda: client.get("/v1/snapshots/runs").json()["status"] == "FAILED", "it to fail")
        assert (
            hint(snapshot_id="runs")
            == '`GET /v1/snapshots/runs` has the details; "retries": 1 starts its next attempt'
        )
        again = client.post("/v1/snapshots/runs/abort", json={})
        assert again.json()["hint"] == "only a running one can; `GET /v1/snapshots/runs` shows its result"


def test_an_unknown_snapshot_is_looked_for_at_a_route() -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster) as client:
        for path in ("none", "none/diagram.svg", "latest"):
            worded = client.get(f"/v1/snapshots/{path}").json()
            assert (worded["code"], worded["hint"]) == (
                "unknown-snapshot",
                "`GET /v1/snapshots` lists the snapshots",
            )
        body = asked(target_storage_uri="s3://elsewhere/")
        refused = client.post("/v1/snapshots/trigger", json=body).json()
        assert refused["hint"] == "use a place below one; who runs the service can add another"


def test_a_broker_that_is_away_is_an_option_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise BrokerUnavailableError("no broker at b:9092")

    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster) as client:
        monkeypatch.setattr(ops, "trigger", away)
        worded = client.post("/v1/snapshots/trigger", json=asked()).json()
        assert worded["hint"].startswith("check the service's bootstrap (or SNAPKAFKA_BOOTSTRAP)")


def test_a_diagram_with_a_wrong_sum_and_a_job_that_fails(tmp_path: Path) -> None:
    async def fails(*_: Any, **__: Any) -> Any:
        raise StorageError(
            "of nothing", hint=("check ", Option("storage"), "; ", Verb("list"), " shows them"), field="sum"
        )

    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path),), assemble=fails) as client:
        assembled(cluster, client, tmp_path, "one")
        job = client.post("/v1/snapshots/one/assemble", json={}).json()["job_id"]
        until(lambda: client.get(f"/v1/jobs/{job}").json()["state"] == "failed", "the job to fail")
        assert client.get(f"/v1/jobs/{job}").json()["error"] == {
            "code": "storage",
            "detail": "sum of nothing",
            "hint": "check target_storage_uri; `GET /v1/snapshots` shows them",
        }


async def test_over_grpc_the_same_words_stand_and_the_contract_is_named() -> None:
    aborted: list[tuple[Any, ...]] = []

    class Context:
        async def abort(self, *args: Any) -> None:
            aborted.append(args)

    for error in (
        BadInputError("of nothing", field="sum"),
        BrokerUnavailableError(
            "no broker", hint=("check ", Option("bootstrap"), "; ", Verb("list"), " shows them")
        ),
        RefusedError("forbidden", "topic 'x' is not open", "ask for another"),
    ):
        await grpc_server._abort(Context(), error)
    assert [details for _, details, _ in aborted] == [
        "sum of nothing; see schemas/snapshot.proto",
        "no broker; check the service's bootstrap; `GET /v1/snapshots` shows them",
        "topic 'x' is not open; ask for another",
    ]
