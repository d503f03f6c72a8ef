"""What errors advise, in the words of the service: nothing that only the command has is left for its clients."""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from typer.main import get_command

from snapkafka import ops
from snapkafka.cli.verbs import app as command
from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    SnapkafkaError,
    StorageError,
    all_errors,
)
from snapkafka.kafka.cluster.external_groups import open_topics
from snapkafka.manifest import ExternalEntry
from snapkafka.protocol.records import Abort
from snapkafka.query import stored as query_stored
from snapkafka.service import grpc_server, requests, wording
from snapkafka.service.app import ROUTES, openapi
from snapkafka.service.problems import RefusedError
from snapkafka.service.wording import COMMAND_OF, FIELDS, PARAMETERS, PHRASES, ROUTE_OF
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
}
#: Module and option that may stand in a sentence of it, and why.
ALLOWED: Final = {
    ("snapkafka.assembly.command", "--result"): "of the job: `ops` names the file",
    ("snapkafka.assembly.pipeline", "--snapshot"): "of the job: the service always names one",
    ("snapkafka.assembly.spec", "--spec"): "of the job: `ops` writes the file",
    ("snapkafka.assembly.cluster", "--find-hanging"): "of kafka-transactions.sh, which is named",
    ("snapkafka.assembly.spark.reading.kafka_source", "--jars"): "of spark-submit, which is named",
    ("snapkafka.assembly.spark.reading.kafka_source", "--packages"): "of spark-submit, which is named",
    ("snapkafka.kafka.records.bulk", "--no-binary"): "of pip, which is named",
    (
        "snapkafka.kafka.login.properties",
        "--command-config",
    ): "of Kafka's command-line tools, which are named",
    ("snapkafka.ops.listing", "--at"): "of `ops.show`: the service finds snapshots by `Standing`",
    ("snapkafka.ops.listing", "--epoch"): "of `ops.show`: the service finds snapshots by `Standing`",
}
OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SPANS: Final = re.compile(r"`[^`]*`")


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


def literals(node: ast.AST, *, of_message: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield texts, and whether each is the message of an error."""
    if isinstance(node, ast.expr) and (text := text_of(node)) is not None:
        yield text, of_message
        return
    raises = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error")
    for child in children(node):
        first = raises and isinstance(node, ast.Call) and node.args[:1] == [child]
        yield from literals(child, of_message=first or (of_message and not isinstance(child, ast.keyword)))


def sentences(module: str) -> Iterator[tuple[str, bool]]:
    """Yield the messages, hints and other sentences of a module that name an option or a command."""
    for text, of_message in literals(tree_of(module)):
        if " " in text.strip() and (OPTION.search(text) or "`snapkafka " in text):
            yield text, of_message


def left_in(text: str) -> set[str]:
    """Return the options outside of a whole command."""
    return set(OPTION.findall(SPANS.sub("", text)))


def options_of(name: str) -> set[str]:
    found: Any = get_command(command)
    for word in name.split():
        found = found.commands[word]
    return {option for item in found.params for option in (*item.opts, *item.secondary_opts)}


MODULES: Final = sorted(
    module for module in reached() - UNREACHED.keys() if not module.startswith("snapkafka.service.")
)


def test_the_modules_that_requests_reach_are_found() -> None:
    """Those that the walk must not lose; and nothing is excused that is not met."""
    assert {
        "snapkafka.errors", "snapkafka.kafka.preflight", "snapkafka.kafka.ledger.reading",
        "snapkafka.kafka.ledger.verdicts",
        "snapkafka.ops.triggering", "snapkafka.ops.aborting", "snapkafka.ops.assembling", "snapkafka.ops.diffing",
        "snapkafka.ops.querying", "snapkafka.drawing.wall_clock",
        "snapkafka.store.state_chain",
        "snapkafka.store.checked_files", "snapkafka.checks.invariants", "snapkafka.assembly.command",
        "snapkafka.assembly.base", "snapkafka.drivers.foreign.driver",
    } <= {*MODULES}  # fmt: skip
    assert UNREACHED.keys() <= reached()
    assert not any(module.startswith(("snapkafka.cli", "snapkafka.drivers.faust")) for module in MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_no_sentence_leaves_an_option_that_a_client_has_not(module: str) -> None:
    for text, of_message in sentences(module):
        worded = wording.message(SnapkafkaError(text)) if of_message else wording.sentence(text)
        left = {option for option in left_in(worded) if (module, option) not in ALLOWED}
        assert not left, f"{worded!r}: add {left} to a table of service/wording.py"
        for span in SPANS.findall(worded):
            assert not re.match(rf"`snapkafka ({'|'.join(ROUTE_OF)})`", span), worded


def test_every_error_class_advises_a_client() -> None:
    for cls in all_errors():
        worded = wording.hint(cls("x"))
        assert not left_in(worded), worded
        assert "see --help" not in worded


def test_what_the_service_refuses_itself_names_its_own_options() -> None:
    own = options_of("serve")
    for path in sorted((ROOT / "snapkafka" / "service").glob("*.py")):
        if path.stem != "wording":
            found = {
                option
                for text, _ in sentences(f"snapkafka.service.{path.stem}")
                for option in OPTION.findall(text)
            }
            assert found <= own, path.name


# -- the tables ----------------------------------------------------------------------------------------------


def test_fields_and_parameters_are_those_of_requests() -> None:
    document = yaml.safe_load(openapi().read_text("utf-8"))
    bodies = (
        requests.TriggerRequest,
        requests.AssemblyRequest,
        requests.VerifyRequest,
        requests.QueryRequest,
    )
    assert {*FIELDS.values()} <= {name for body in bodies for name in body.__dataclass_fields__}
    queried = {
        item["name"]
        for path in document["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict)
        for item in operation.get("parameters", ())
        if item.get("in") == "query"
    }
    assert {*PARAMETERS.values()} <= queried
    known = {option for name in ("trigger", "assemble", "verify") for option in options_of(name)}
    assert FIELDS.keys() <= known
    assert PARAMETERS.keys() <= options_of("diff") | options_of("draw")


def test_routes_are_those_of_the_service_and_commands_those_that_have_the_options() -> None:
    assert {route.replace("{id}", "{snapshot_id}") for route in ROUTE_OF.values()} <= {
        f"{method} {path}" for method, path in ROUTES
    }
    for name in ROUTE_OF:
        assert options_of(name)
    for option, name in COMMAND_OF.items():
        assert option in options_of(name), option
    serve = {option for option, name in COMMAND_OF.items() if name == "serve"}
    assert serve == options_of("serve") - {"--help"}


def test_no_phrase_is_left_that_nothing_says() -> None:
    texts = [text for module in MODULES for text, _ in literals(tree_of(module))]
    for phrase in PHRASES:
        assert any(phrase in text for text in texts), phrase
    met = {
        (module, option) for module in MODULES for text, _ in sentences(module) for option in left_in(text)
    }
    assert ALLOWED.keys() <= met


# -- single texts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "worded"),
    [
        ("`snapkafka list` lists the snapshots", "`GET /v1/snapshots` lists the snapshots"),
        ("`snapkafka show ID` names it", "`GET /v1/snapshots/{id}` names it"),
        ("`snapkafka show a b` names it", "`GET /v1/snapshots/a%20b` names it"),
        ("`snapkafka show a/b` names it", "`GET /v1/snapshots/{id}` names it"),
        ("`snapkafka show` names it", "`GET /v1/snapshots/{id}` names it"),
        ("`snapkafka assemble a` makes it", "`POST /v1/snapshots/a/assemble` makes it"),
        ("`snapkafka assemble a b`", "`POST /v1/snapshots/{id}/assemble` for each of a, b"),
        ("`snapkafka assemble a --around 5`", "`snapkafka assemble a --around 5`"),
        (
            "`snapkafka verify --tables --record` compares",
            '`POST /v1/snapshots/{id}/verify` with "tables": true and "record": true compares',
        ),
        ("`snapkafka verify --offline` lists", "`snapkafka verify --offline` lists"),
        ("`snapkafka fork list` lists", "`GET /v1/forks` lists"),
        ("`snapkafka resume` ends the pause", "`snapkafka resume` ends the pause"),
        ("`snapkafka doctor --fix`", "`snapkafka doctor --fix`"),
        ("`snapkafka lists`", "`snapkafka lists`"),
        ("leave it out (--apps)", "leave it out (apps)"),
        ("--ttl must be 100 to 86,400,000 ms", "ttl_ms must be 100 to 86,400,000 ms"),
        ("add --type incremental", 'add "snapshot_type": "incremental"'),
        ("--retries 1 starts its next attempt", '"retries": 1 starts its next attempt'),
        ("--keys 0 lists none", "keys=0 lists none"),
        ("add --wait, or the --id of a snapshot", "add the snapshot_id of a snapshot"),
        ("check --storage and the rights", "check target_storage_uri and the rights"),
        ("add --storage DIR, here", "add target_storage_uri, here"),
        ("check --bootstrap (or X)", "check `snapkafka serve --bootstrap` (or X)"),
        ("read it with --unchecked", "read it with `snapkafka query --unchecked`"),
        ("see --help", "see /openapi.yaml"),
        ("kafka-x.sh --bootstrap-server a --add", "kafka-x.sh --bootstrap-server a --add"),
        ("a--ttl and x---ttl", "a--ttl and x---ttl"),
    ],
)
def test_a_sentence_as_a_client_reads_it(text: str, worded: str) -> None:
    assert wording.sentence(text) == worded
    assert wording.hint(BadInputError("x", hint=text)) == worded


@pytest.mark.parametrize(
    ("text", "worded"),
    [
        ("--sum must have at most 9 characters", "sum must have at most 9 characters"),
        ("invalid --isolation: 0", "invalid `snapkafka assemble --isolation`: 0"),
        ("the query failed: SELECT 1 --sum", "the query failed: SELECT 1 --sum"),
        ("no snapshot '--ttl' in the ledger", "no snapshot '--ttl' in the ledger"),
        ("/data --storage/x is no folder", "/data --storage/x is no folder"),
        ("not made (`snapkafka list` shows it)", "not made (`GET /v1/snapshots` shows it)"),
    ],
)
def test_a_message_keeps_the_values_of_its_user(text: str, worded: str) -> None:
    assert wording.message(BadInputError(text)) == worded


# -- over the routes -----------------------------------------------------------------------------------------


def test_a_refused_trigger_names_fields(tmp_path: Path) -> None:
    cluster = FakeCluster()
    worker = Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path),)) as client:

        def hint(**more: Any) -> str:
            body = asked(target_storage_uri=str(tmp_path)) | more
            answer = client.post("/v1/snapshots/trigger", json=body)
            assert answer.status_code in (400, 404, 409), answer.text
            return str(answer.json()["hint"])

        assert hint(ttl_ms=1) == "ttl_ms must be 100 to 86,400,000 ms"
        assert hint(parent_snapshot_id="x") == 'add "snapshot_type": "incremental"'
        parent = {"snapshot_type": "incremental", "parent_snapshot_id": "none"}
        assert hint(**parent) == "`GET /v1/snapshots` lists the snapshots"
        assert hint(retries=-1, snapshot_id="x") == "add the snapshot_id of a snapshot that failed"
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
        assert (
            again.json()["hint"]
            == "only a running one can; `GET /v1/snapshots/{id}` states what became of it"
        )


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
        assert refused["hint"] == "start `snapkafka serve` with --storage-root URI"


def test_a_broker_that_is_away_is_an_option_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise BrokerUnavailableError("no broker at b:9092")

    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster) as client:
        monkeypatch.setattr(ops, "trigger", away)
        worded = client.post("/v1/snapshots/trigger", json=asked()).json()
        assert worded["hint"].startswith("check `snapkafka serve --bootstrap` (or SNAPKAFKA_BOOTSTRAP)")


def test_a_diagram_with_a_wrong_sum_and_a_job_that_fails(tmp_path: Path) -> None:
    async def fails(*_: Any, **__: Any) -> Any:
        raise StorageError("--sum of nothing", hint="check --storage; `snapkafka list` shows them")

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
        BadInputError("--sum of nothing"),
        BrokerUnavailableError("no broker", hint="check --bootstrap; `snapkafka list` shows them"),
        RefusedError(
            "forbidden", "topic 'x' is not open", "start `snapkafka serve` with --foreign-topic NAME"
        ),
    ):
        await grpc_server._abort(Context(), error)
    assert [details for _, details, _ in aborted] == [
        "sum of nothing; see schemas/snapshot.proto",
        "no broker; check `snapkafka serve --bootstrap`; `GET /v1/snapshots` shows them",
        "topic 'x' is not open; start `snapkafka serve` with --foreign-topic NAME",
    ]


def test_what_leaves_a_verdict_open_names_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences of a manifest are written by assembly, for the command, too."""
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    external = (ExternalEntry(topic="orders", mixed=True, declared=False),)
    why, stored = tuple(open_topics(external, strict=False)), query_stored.stored
    monkeypatch.setattr(
        "snapkafka.service.rows.stored", lambda place: dataclasses.replace(stored(place), left_open=why)
    )
    with served(cluster, (str(tmp_path),)) as client:
        assembled(cluster, client, tmp_path, "one")
        worded = client.get("/v1/snapshots/one").json()["left_open"]
        assert any("(if not, declare it: sources, or install(sources=...))" in text for text in worded), (
            worded
        )
