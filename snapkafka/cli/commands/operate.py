"""The operation of a system: `keep`, `prune`, `topics create`, `serve`."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from snapkafka import ops
from snapkafka.assembly import parse_parameters
from snapkafka.cli.build import command, propose
from snapkafka.cli.running import connect, console, notices, print_json, reach, who
from snapkafka.cli.screen import COLOURS, written
from snapkafka.errors import EXIT_NOT_GOOD, EXIT_OK, BadInputError, all_errors
from snapkafka.ops import KeptRound, Outcome
from snapkafka.runtime.extras import require_extra
from snapkafka.service.access import Tokens
from snapkafka.service.settings import Settings
from snapkafka.units import format_bytes
from snapkafka.verbs import Change, Keep, Prune, TopicsCreate, Where

#: How many rows of a violated invariant are printed: rounds are frequent.
VIOLATING_SHOWN = 5

# -- keep -----------------------------------------------------------------------------------------------------


def _print_round(item: KeptRound) -> None:
    """Print a round on a line; below it what is violated, and the rows that say so."""
    word = str(item.answer or item.outcome)
    parts = [item.type, item.verdict, item.why, item.manifest]
    parts += [f"whole state: {item.why_full}"] if item.why_full else []
    parts += [f"pruned: {len(item.removed)}"] if item.removed else []
    parts += [f"held since {written('_ms', item.holds_ms)} at the latest"] if item.holds_ms else []
    parts += [f"not yet at {written('_ms', item.not_yet_ms)}"] if item.not_yet_ms else []
    if item.checkpoint_due:
        parts.append(f"{item.checkpoint_due:,} old records in the ledger: run snapkafka checkpoint")
    console.print(f"{item.id}  ", (word, COLOURS.get(word, "")), *(f"  {part}" for part in parts if part))
    for name, rows in [("", item.witnesses), *((it.name, it.rows) for it in item.violated)]:
        if name:
            console.print("  violated: ", (name, "bold red"))
        for row in rows[:VIOLATING_SHOWN]:
            console.print(f"    {written('', row)}")


def _status(found: KeptRound) -> int:
    failed = {cls.code: cls.exit_status for cls in all_errors()}
    by_outcome = {Outcome.NOT_GOOD: EXIT_NOT_GOOD, Outcome.FAILED: failed.get(found.code, EXIT_OK)}
    return by_outcome.get(found.outcome, EXIT_OK)


@command("keep", lambda found: None, status=_status, in_lines=True)
async def keep(
    at: Where, asked: Keep, spec: Annotated[ops.JobSpec, ("unpickle", "engine", "invariants", "parameters")]
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
        how,
        plan=plan,
        act=lambda plan: ops.prune(asked.storage, policy, plan, where=reach(at.bootstrap)),
        show=lambda plan: console.show(
            {"storage": plan.storage, "remove": plan.removed, "leftovers": plan.leftovers, "keep": plan.kept}
        ),
        report=lambda plan, done: console.show(done, ("kept", "storage")),
        question=lambda plan: f"remove {format_bytes(plan.bytes)}?",
        empty=lambda plan: not (plan.removed or plan.leftovers),
    )


# -- topics create --------------------------------------------------------------------------------------------


@command("topics create", partial(console.table, whole=True), key="topics")
async def create_topics_of(
    at: Annotated[Where, ("bootstrap",)], asked: TopicsCreate
) -> tuple[ops.CreatedTopic, ...]:
    settings = ({"cleanup.policy": "compact"} if asked.compact else {}) | parse_parameters(asked.settings)
    where = connect(at.bootstrap)
    return await ops.create_topics(where, asked.names, partitions=asked.partitions, settings=settings)


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
