"""`restore`: in place, or into another cluster."""

from __future__ import annotations

from collections.abc import Callable

from snapkafka import ops
from snapkafka.cli.build import AsJson, printed
from snapkafka.cli.present.plans import print_checked, print_plan, print_recovered
from snapkafka.cli.propose import Proposal, propose
from snapkafka.cli.running import connect, console, notices, run, who
from snapkafka.errors import BadInputError
from snapkafka.kafka.ledger.reading import LATEST
from snapkafka.verbs import Change, Restore, Where

from .doctor import ask_one_way


def restore(at: Where, asked: Restore, how: Change, as_json: AsJson = False) -> None:
    into = asked.into or at.bootstrap
    suppression = run(lambda: _checked(asked, how), as_json=as_json)
    if asked.abort:
        plan = run(
            lambda: ops.abort_restore(connect(into), at.namespace, reason=f"aborted by {who()}"),
            as_json=as_json,
        )
        printed(plan, _print_aborted, as_json=as_json, data=lambda plan: {"aborted": plan})
        return
    if asked.check:
        checked = run(
            lambda: ops.check_restored(
                connect(into), at.namespace, asked.name, storage=asked.storage, suppress=suppression
            ),
            as_json=as_json,
        )
        printed(
            checked,
            print_checked,
            as_json=as_json,
            data=lambda checked: {"checked": checked},
            good=checked.equal,
        )
        return
    notify = notifier("restore", as_json=as_json)
    if asked.wait_s and not how.dry_run:
        run(
            lambda: ops.await_workers(
                connect(at.bootstrap),
                at.namespace,
                asked.name,
                wait_s=asked.wait_s,
                storage=asked.storage,
                notify=notify,
            ),
            as_json=as_json,
        )
    request = ops.RecoveryRequest(
        namespace=at.namespace,
        name=asked.name,
        storage=asked.storage,
        into=bool(asked.into),
        force=asked.force,
        suppress=suppression,
        allow_unmatched=asked.allow_unmatched,
    )
    propose(
        Proposal(
            plan=lambda: ops.plan_recovery(connect(into), request),
            act=lambda plan: ops.recover(connect(into), plan, who=who(), notify=notify),
            show=print_plan,
            report=lambda plan, done: print_recovered(done, asked.into),
            question=lambda plan: f"restore {', '.join(plan.apps)} to {plan.snapshot}?",
            refused=lambda plan: plan.refused,
        ),
        how,
        as_json=as_json,
    )


async def _checked(asked: Restore, how: Change) -> ops.Suppression | None:
    """Refuse options that exclude each other, and read the file of erased keys."""
    beside = {
        "an ID": asked.name != LATEST,
        "--check": asked.check,
        "--dry-run": how.dry_run,
        "--suppress": bool(asked.suppress),
        "--wait": bool(asked.wait_s),
    }
    await ask_one_way(*({"--abort": asked.abort, name: given} for name, given in beside.items()))
    if asked.into and asked.wait_s:
        raise BadInputError(
            "--into and --wait cannot be combined", hint="stop the old workers, if there are any, before"
        )
    return ops.read_suppression(asked.suppress) if asked.suppress else None


def _print_aborted(plan: str) -> None:
    console.print(f"Plan {plan} is aborted. Nothing was appended; start the workers.")


def notifier(name: str, *, as_json: bool) -> Callable[[str], None]:
    """Return what prints the steps of a long command on standard error."""
    if as_json:
        return lambda text: None
    return lambda text: notices.print(f"{name}: {text}")
