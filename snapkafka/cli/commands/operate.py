"""The operation of a system: `keep`, `prune`, `topics create`, `serve`."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from snapkafka import ops
from snapkafka.cli.build import Proposal, command, propose
from snapkafka.cli.commands.snapshots import coloured, witness_line
from snapkafka.cli.running import connect, console, notices, print_json, reach, who
from snapkafka.errors import EXIT_NOT_GOOD, EXIT_OK, BadInputError, all_errors
from snapkafka.ops import KeptRound, Outcome
from snapkafka.ops.pruning import PlannedSnapshot
from snapkafka.runtime.extras import require_extra
from snapkafka.service.access import Tokens
from snapkafka.service.settings import Settings
from snapkafka.store import Leftover
from snapkafka.units import format_bytes, local_time
from snapkafka.verbs import Change, Keep, Prune, TopicsCreate, Where

# -- keep -----------------------------------------------------------------------------------------------------


#: How many rows of a violated invariant are printed: rounds are frequent.
VIOLATING_SHOWN = 5


def _print_round(item: KeptRound) -> None:
    if item.answer is not None:
        _print_answer(item)
        return
    parts = [item.type, item.verdict, item.why, item.manifest]
    parts += [f"whole state: {item.why_full}"] if item.why_full else []
    parts += [f"pruned: {len(item.removed)}"] if item.removed else []
    if item.checkpoint_due:
        parts.append(f"{item.checkpoint_due:,} old records in the ledger: run snapkafka checkpoint")
    more = "  ".join(part for part in parts if part)
    console.print(f"{item.id}  ", coloured(item.outcome), f"  {more}")
    for violation in item.violated:
        name = violation.name
        where = "" if violation.id == item.id else f" in {violation.id}"
        console.print("  invariant ", (name, "bold red"), f" is violated{where}, rows: {violation.found:,}")
        for row in violation.rows[:VIOLATING_SHOWN]:
            console.print(f"    {row.what}")
        if violation.found > VIOLATING_SHOWN:
            console.print(f"    all of them: snapkafka invariants {name}")


def _print_answer(item: KeptRound) -> None:
    assert item.answer is not None
    more = item.why or item.verdict
    if item.witnesses:
        more = f"{item.found:,} rows, first: {witness_line(item.witnesses[0])}"
    console.print(f"{item.id}  ", coloured(item.answer), f"  {more}")
    if item.holds_ms is not None:
        held = f"It has held since {local_time(item.holds_ms, 'milliseconds')} at the latest"
        if item.not_yet_ms is not None:
            held += f"; at {local_time(item.not_yet_ms, 'milliseconds')} it did not hold"
        console.print(held)
        console.print(f"manifest: {item.manifest}")


def _status(found: KeptRound) -> int:
    failed = {cls.code: cls.exit_status for cls in all_errors()}
    by_outcome = {Outcome.NOT_GOOD: EXIT_NOT_GOOD, Outcome.FAILED: failed.get(found.code, EXIT_OK)}
    return by_outcome.get(found.outcome, EXIT_OK)


@command("keep", lambda found: None, status=_status, in_lines=True)
async def keep(
    at: Where,
    asked: Keep,
    spec: Annotated[ops.JobSpec, ("unpickle", "engine", "invariants", "parameters")],
) -> KeptRound:
    return await ops.keep(
        connect(at.bootstrap),
        at.namespace,
        asked,
        who=who(),
        spec=spec,
        report=print_json if console.as_json else _print_round,
        notify=None if console.as_json else notices.print,
    )


# -- prune ----------------------------------------------------------------------------------------------------


@command("prune", own_json=True)
def prune(at: Annotated[Where, ("bootstrap",)], asked: Prune, how: Change) -> None:
    policy = ops.Policy(last=asked.keep_last)

    async def plan() -> ops.Pruning:
        where = reach(at.bootstrap)
        planned = await ops.plan_pruning(asked.storage, policy, where=where)
        if planned.removed and where is None:
            raise BadInputError(
                "no broker is given, so snapshots that open restores and forks need are unknown",
                hint="add --bootstrap host:port",
            )
        return planned

    propose(
        Proposal(
            plan=plan,
            act=lambda plan: ops.prune(asked.storage, policy, plan, where=reach(at.bootstrap)),
            show=_print_pruning,
            report=_print_pruned,
            question=lambda plan: f"remove {format_bytes(plan.bytes)}?",
            empty=lambda plan: not (plan.removed or plan.leftovers),
            change="removed",
        ),
        how,
    )


def _print_pruning(planned: ops.Pruning) -> None:
    console.table(
        (*planned.kept, *planned.removed, *planned.leftovers),
        ("snapshot", lambda it: it.name if isinstance(it, Leftover) else it.id),
        ("namespace", lambda it: getattr(it, "namespace", "")),
        ("verdict", lambda it: getattr(it, "verdict", "")),
        ("assembled", lambda it: getattr(it, "assembled_at", "")[:16].replace("T", " ")),
        ("plan", lambda it: "keep" if getattr(it, "why", "") else ("remove", "bold")),
        ("why", _why),
        ("bytes", lambda it: "" if getattr(it, "why", "") else format_bytes(it.bytes)),
    )
    if not (planned.removed or planned.leftovers):
        console.print(("Nothing to remove.", "green"))


def _why(item: PlannedSnapshot | Leftover) -> str:
    return "never finished" if isinstance(item, Leftover) else item.why


def _print_pruned(planned: ops.Pruning, done: ops.Pruning) -> None:
    console.print(
        f"snapshots removed: {len(done.removed)}, leftovers: {len(done.leftovers)}, {format_bytes(done.bytes)}"
    )
    for item in planned.removed:
        if item not in done.removed:
            console.print(f"{item.id} was kept: it has changed, or a restore or fork needs it now")


# -- topics create --------------------------------------------------------------------------------------------


def _print_topics(found: Sequence[ops.CreatedTopic]) -> None:
    console.table(
        found,
        "topic",
        ("result", lambda it: "created" if it.created else "exists already"),
        "partitions",
    )


@command("topics create", _print_topics, key="topics")
async def create_topics_of(
    at: Annotated[Where, ("bootstrap",)], asked: TopicsCreate
) -> tuple[ops.CreatedTopic, ...]:
    settings = ({"cleanup.policy": "compact"} if asked.compact else {}) | _settings(asked.settings)
    where = connect(at.bootstrap)
    return await ops.create_topics(where, asked.names, partitions=asked.partitions, settings=settings)


def _settings(given: Iterable[str]) -> dict[str, str]:
    pairs = {item: item.partition("=") for item in given}
    for item, (name, equals, _) in pairs.items():
        if not name or not equals:
            raise BadInputError(f"{item} is not NAME=VALUE", field="set")
    return {name: value for name, _, value in pairs.values()}


# -- serve ----------------------------------------------------------------------------------------------------


@command("serve")
async def serve(
    at: Where,
    settings: Settings,
    tokens: Annotated[
        str,
        typer.Option(
            "--tokens", metavar="FILE", help="Lines ROLE:TOKEN with role `read`, `trigger` or `admin`."
        ),
    ] = "",
) -> None:
    require_extra("service", "the service")
    from snapkafka.config import namespace_problem
    from snapkafka.service.app import make_app
    from snapkafka.service.server import serve as serve_app

    if problem := namespace_problem(at.namespace):
        raise BadInputError(problem, hint="give --namespace, or set SNAPKAFKA_NAMESPACE")
    chosen = msgspec.structs.replace(settings, tokens=_tokens(tokens))
    chosen.validate()
    connection = connect(at.bootstrap)
    app = make_app(connection, at.namespace, chosen)
    async with AsyncExitStack() as stack:
        if chosen.grpc_port is not None:
            from snapkafka.service.grpc_server import serving_grpc

            address = await stack.enter_async_context(serving_grpc(connection, at.namespace, chosen))
            notices.print(f"serving {at.namespace} by gRPC on {address}")
        await serve_app(app, chosen, lambda url: notices.print(f"serving {at.namespace} on {url}"))


def _tokens(path: str) -> Tokens:
    """Return the tokens of a file or of the environment, where there are any."""
    if not path:
        text = os.environ.get("SNAPKAFKA_SERVICE_TOKENS", "")
        return Tokens.parse(text, "SNAPKAFKA_SERVICE_TOKENS") if text else Tokens()
    try:
        return Tokens.parse(Path(path).read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"--tokens {path} cannot be read: {error}", hint="check the path") from error


# -- broker, demo ---------------------------------------------------------------------------------------------


def _elsewhere(name: str, module: str) -> None:
    """Register a command whose own program parses its options."""

    def start(context: typer.Context) -> None:
        sys.argv = [f"snapkafka {name}", *context.args]
        runpy.run_module(module, run_name="__main__")

    parsed = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    command(name, context_settings=parsed)(start)


_elsewhere("broker", "snapkafka.testing")
_elsewhere("demo", "snapkafka.demo")
