"""`restore` and `fork`: the plan and the result of a recovery."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import typer

from snapkafka import ops
from snapkafka.cli.build import ask_one_way, command, propose, question
from snapkafka.cli.running import connect, console, notifier, print_json, run, who
from snapkafka.cli.screen import written
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError, ForkRefusedError
from snapkafka.kafka.ledger.reading import LATEST
from snapkafka.verbs import Change, ForkCreate, ForkDrop, Restore, Where

# -- restore --------------------------------------------------------------------------------------------------


@command("restore", own_json=True)
def restore(at: Where, asked: Restore, how: Change) -> None:
    into, said = asked.into or at.bootstrap, notifier()

    def answer(name: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        found = run(work)
        if console.as_json:
            print_json({name: found})
        else:
            console.show({name: found} if isinstance(found, str) else found)
        return found

    _check(asked, how)
    request = _request(at, asked, into=bool(asked.into))
    if asked.abort:
        why = f"aborted by {who()}"
        answer("aborted", partial(ops.abort_restore, connect(into), at.namespace, reason=why))
        return
    where = connect(into), at.namespace, asked.name
    if asked.check:
        check = partial(ops.check_restored, *where, storage=asked.storage, suppress=request.suppress)
        if not answer("checked", check).equal:
            raise typer.Exit(EXIT_NOT_GOOD)
        return
    if asked.wait_s and not how.dry_run:
        run(partial(ops.await_workers, *where, storage=asked.storage, wait_s=asked.wait_s, notify=said))
    _recover(into, request, how, lambda plan: f"restore {', '.join(plan.apps)} to {plan.snapshot}?")


def _recover(
    bootstrap: str, request: ops.RecoveryRequest, how: Change, question: Callable[[ops.RecoveryPlan], str]
) -> None:
    """Plan a restore or a fork, and run that plan."""
    said = notifier()
    propose(
        how,
        plan=lambda: ops.plan_recovery(connect(bootstrap), request),
        act=lambda plan: ops.recover(connect(bootstrap), plan, who=who(), notify=said),
        report=_print_recovered,
        question=question,
        refused=lambda plan: plan.error if plan.refusals else None,
    )


def _print_recovered(plan: ops.RecoveryPlan, done: ops.Recovered) -> None:
    console.show(done, ("plan", "author"))
    if fork := plan.request.fork:
        console.print(f"start its workers: SNAPKAFKA_FORK={fork} faust -A ... worker")
    else:
        console.print(f"restored {', '.join(plan.apps)} to ", (plan.snapshot, "bold"), ": start the workers")
    if plan.request.suppress:
        console.note("note", ["earlier snapshots hold the erased keys until they are pruned"])


def _check(asked: Restore, how: Change) -> None:
    """Refuse options that exclude each other."""
    beside = {
        "an ID": asked.name != LATEST,
        "--check": asked.check,
        "--dry-run": how.dry_run,
        "--suppress": bool(asked.suppress),
        "--wait": bool(asked.wait_s),
    }
    ask_one_way(*({"--abort": asked.abort, name: given} for name, given in beside.items()))
    ask_one_way({"--into": bool(asked.into), "--wait": bool(asked.wait_s)})


def _request(at: Where, asked: Restore | ForkCreate, **more: Any) -> ops.RecoveryRequest:
    names = "name", "storage", "force", "allow_unmatched"
    more |= {name: getattr(asked, name) for name in names}
    suppress = ops.read_suppression(asked.suppress) if asked.suppress else None
    return ops.RecoveryRequest(namespace=at.namespace, suppress=suppress, **more)


# -- fork -----------------------------------------------------------------------------------------------------


@command("fork create", own_json=True)
def create(at: Where, asked: ForkCreate, how: Change) -> None:
    masks = ops.read_masks(asked.mask) if asked.mask else ()
    more: Any = {"with_inputs": asked.with_inputs, "expires_ms": asked.expires_ms}
    request = _request(at, asked, fork=asked.fork, masks=masks, **more)
    _recover(at.bootstrap, request, how, lambda plan: f"create fork {plan.request.fork}?")


@command("fork drop", own_json=True)
def drop(at: Where, asked: ForkDrop, how: Change) -> None:
    async def plan() -> tuple[ops.Dropping, ...]:
        if bool(asked.name) == asked.expired:
            raise BadInputError("name a fork, or add --expired", hint="see `snapkafka fork list`")
        return await ops.plan_drop(connect(at.bootstrap), at.namespace, asked.name, expired=asked.expired)

    said = notifier()
    propose(
        how,
        plan=plan,
        act=lambda plan: ops.drop_forks(connect(at.bootstrap), plan, notify=said),
        show=lambda plan: console.table(
            plan, "fork", "namespace", "refused=kept", notes=lambda it: [name for name, _ in it.topics]
        ),
        report=lambda plan, done: console.table(done, "removed=fork", "refused=kept"),
        question=lambda plan: f"remove {', '.join(it.fork for it in plan if not it.kept)}?",
        refused=lambda plan: ForkRefusedError if plan and all(it.kept for it in plan) else None,
        empty=lambda plan: not plan,
    )


def _print_forks(found: Sequence[ops.Fork]) -> None:
    if not found:
        console.print("No forks.")
    columns = "fork", "of=source", "snapshot", "state=stage", "created=created_ms"
    expires = ("expires", lambda it: written("expires_ms", it.expires_ms) or "never")
    console.table(found, *columns, expires, ("topics", lambda it: len(it.topics)), "by=who")


question("fork list", _print_forks, key="forks")
