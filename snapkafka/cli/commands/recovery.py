"""`restore` and `fork`: the plan and the result of a recovery."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from snapkafka import ops
from snapkafka.cli.build import Proposal, ask_one_way, command, propose, question
from snapkafka.cli.commands.snapshots import count, headline
from snapkafka.cli.running import connect, console, notifier, print_json, run, who
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError
from snapkafka.kafka.ledger.reading import LATEST
from snapkafka.units import rounded_ms, utc_time, wall_ms
from snapkafka.verbs import Change, ForkCreate, ForkDrop, Restore, Where


def print_plan(plan: ops.RecoveryPlan) -> None:
    """Print the planned work, the missing parts, and every reason to refuse it."""
    console.print(*headline(plan.snapshot, plan.epoch, plan.verdict))
    apps = ", ".join(plan.apps)
    console.print(
        {
            "fork": f"fork {plan.request.fork} of it: production is only read",
            "cluster": f"restore of {apps} into another cluster, namespace {plan.namespace}",
            "in-place": f"restore of {apps} to it: replaces all state",
        }[plan.kind]
    )
    console.table(
        [plan],
        ("taken", lambda it: f"{rounded_ms(wall_ms() - it.taken_ms)} ago" if it.taken_ms else ""),
        "events run again=again:,",
        "messages in flight=messages:,",
        ("external records", lambda it: f"{it.stored:,}" if it.stored else ""),
        "state, at most=state:,",
        ("continues", lambda it: f"{it.resumes}, {it.stage}" if it.resumes else ""),
    )
    console.table(
        plan.moves,
        "app",
        "input=topic",
        "partition",
        ("committed", lambda it: "-" if it.before < 0 else it.before),
        ("new", lambda it: "at the appended messages" if it.after is None else it.after),
        ("appended", lambda it: f"{it.appends:,}" if it.appends else ""),
        ("run again", lambda it: f"{it.again:,}" if it.again else ""),
    )
    console.table(
        plan.topics,
        "new topic=topic",
        "partitions",
        ("settings", lambda it: ", ".join(f"{k}={v}" for k, v in it.settings.items() if k not in it.changed)),
        "changed for this=changed",
    )
    console.table(plan.rules, "kind", "rule", "of=place", "matches=items:,")
    console.note("not verified", (f"paths through {group}" for group in plan.open))
    console.note("already there", plan.existing, "")
    _print_limits(plan)
    for refusal in plan.refusals:
        console.print(("refused", "red"), f" ({refusal.code}): {refusal.what}")
        console.print(f"        {refusal.hint}", hang=8)


def print_recovered(done: ops.Recovered, into: str = "") -> None:
    """Print what was done.

    Args:
        into: the address of another cluster.
    """
    plan, took = done.plan, f"in {done.seconds:.1f} s"
    if plan.kind == "fork":
        console.print("created fork ", (plan.request.fork, "bold"), f" of snapshot {plan.snapshot} {took}")
    else:
        ran = f"{f' in {into}' if into else ''} {took} (plan {plan.plan}): start the workers"
        console.print(f"restored {', '.join(plan.apps)} to ", (plan.snapshot, "bold"), ran)
    console.table(
        [done],
        ("new topics", lambda it: len(it.topics)),
        "messages:,",
        "external records=inputs:,",
        "state:,",
    )
    _print_limits(plan)
    if plan.request.suppress:
        console.note("note", ["earlier snapshots hold the erased keys until they are pruned"])


def _print_limits(plan: ops.RecoveryPlan) -> None:
    """Print what is not restored, and what cannot be undone."""
    console.note(
        "not restored",
        (
            f"up to {it.records:,} external records of {it.topic}[{it.partition}], unread at the cut and not stored"
            for it in plan.absent
        ),
    )
    console.note("note", plan.notes)
    console.note(
        "cannot be undone",
        (
            f"outputs in {it.topic}[{it.partition}], offsets {it.start}-{it.end - 1}"
            for it in plan.irrevocable
        ),
        "",
    )


def print_checked(checked: ops.CheckedRestore) -> None:
    """Print what differs from a snapshot."""
    console.table(
        checked.tables,
        "table",
        "app",
        ("result", lambda it: f"{it.differing:,} differ" if it.differing else "equal"),
        notes=lambda it: [
            *it.keys,
            *([f"{more:,} more"] if (more := it.differing - len(it.keys)) > 0 else []),
        ],
    )
    console.note("differs", checked.misplaced, "red")
    if checked.plan:
        console.print("last restored to ", (checked.restored, "bold"), f" (plan {checked.plan})")
    verdict = ("equals", "green") if checked.equal else ("differs from", "red")
    took = f", epoch {checked.epoch} ({checked.seconds:.1f} s)"
    console.print(f"{', '.join(checked.apps)} ", verdict, " snapshot ", (checked.snapshot, "bold"), took)


# -- restore --------------------------------------------------------------------------------------------------


@command("restore", own_json=True)
def restore(at: Where, asked: Restore, how: Change) -> None:
    into = asked.into or at.bootstrap
    suppression = run(lambda: _checked(asked, how))
    if asked.abort:
        plan = run(lambda: ops.abort_restore(connect(into), at.namespace, reason=f"aborted by {who()}"))
        if console.as_json:
            print_json({"aborted": plan})
        else:
            console.print(f"Plan {plan} is aborted. Nothing was appended; start the workers.")
        return
    if asked.check:
        checked = run(
            lambda: ops.check_restored(
                connect(into), at.namespace, asked.name, storage=asked.storage, suppress=suppression
            )
        )
        if console.as_json:
            print_json({"checked": checked})
        else:
            print_checked(checked)
        if not checked.equal:
            raise typer.Exit(EXIT_NOT_GOOD)
        return
    if asked.wait_s and not how.dry_run:
        run(
            lambda: ops.await_workers(
                connect(at.bootstrap),
                at.namespace,
                asked.name,
                wait_s=asked.wait_s,
                storage=asked.storage,
                notify=_notify(),
            )
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

    def report(plan: ops.RecoveryPlan, done: ops.Recovered) -> None:
        print_recovered(done, asked.into)

    _recover(into, request, how, report, lambda plan: f"restore {', '.join(plan.apps)} to {plan.snapshot}?")


def _recover(
    bootstrap: str,
    request: ops.RecoveryRequest,
    how: Change,
    report: Callable[[ops.RecoveryPlan, ops.Recovered], None],
    question: Callable[[ops.RecoveryPlan], str],
) -> None:
    """Plan a restore or a fork, and run that plan."""
    propose(
        Proposal(
            plan=lambda: ops.plan_recovery(connect(bootstrap), request),
            act=lambda plan: ops.recover(connect(bootstrap), plan, who=who(), notify=_notify()),
            show=print_plan,
            report=report,
            question=question,
            refused=lambda plan: plan.refused,
        ),
        how,
    )


def _notify() -> Callable[[str], None]:
    return notifier() or (lambda text: None)


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


# -- fork -----------------------------------------------------------------------------------------------------


@command("fork create", own_json=True)
def create(at: Where, asked: ForkCreate, how: Change) -> None:
    async def request() -> ops.RecoveryRequest:
        return ops.RecoveryRequest(
            namespace=at.namespace,
            name=asked.name,
            storage=asked.storage,
            force=asked.force,
            suppress=ops.read_suppression(asked.suppress) if asked.suppress else None,
            allow_unmatched=asked.allow_unmatched,
            masks=ops.read_masks(asked.mask) if asked.mask else (),
            fork=asked.fork,
            with_inputs=asked.with_inputs,
            expires_s=None if asked.expires_ms is None else asked.expires_ms / 1_000,
        )

    _recover(
        at.bootstrap, run(request), how, _print_created, lambda plan: f"create fork {plan.request.fork}?"
    )


def _print_created(plan: ops.RecoveryPlan, done: ops.Recovered) -> None:
    print_recovered(done)
    if done.expires_ms:
        console.print(f"expires {moment(done.expires_ms)}: `snapkafka fork drop --expired` removes it then")
    console.print(f"start its workers: SNAPKAFKA_FORK={plan.request.fork} faust -A ... worker")


@command("fork drop", own_json=True)
def drop(at: Where, asked: ForkDrop, how: Change) -> None:
    async def plan() -> tuple[ops.Dropping, ...]:
        if bool(asked.name) == asked.expired:
            raise BadInputError("name a fork, or add --expired", hint="see `snapkafka fork list`")
        return await ops.plan_drop(connect(at.bootstrap), at.namespace, asked.name, expired=asked.expired)

    propose(
        Proposal(
            plan=plan,
            act=lambda plan: ops.drop_forks(connect(at.bootstrap), plan, notify=_notify()),
            show=_print_dropping,
            report=lambda plan, done: _print_dropped(done),
            question=lambda plan: f"remove {', '.join(it.fork for it in plan if not it.kept)}?",
            refused=lambda plan: bool(plan) and all(it.kept for it in plan),
            empty=lambda plan: not plan,
            change="removed",
        ),
        how,
    )


def _print_dropping(planned: tuple[ops.Dropping, ...]) -> None:
    if not planned:
        console.print("No fork has expired.")
    for it in planned:
        if it.kept:
            console.print(("refused", "red"), f": fork {it.fork} stays: {it.kept}")
            console.print("        stop its workers and run this again")
            continue
        console.print(
            "removes fork ", (it.fork, "bold"), f" ({it.namespace}): {count(len(it.topics), 'topic')}"
        )
        for name, _ in it.topics:
            console.print(f"  {name}")


def _print_dropped(found: tuple[ops.Dropping, ...]) -> None:
    for it in found:
        if it.kept:
            console.print("fork ", (it.fork, "bold"), f" stays: {it.kept}")
        else:
            console.print("removed fork ", (it.fork, "bold"), f": {count(len(it.topics), 'topic')}")


def print_forks(found: Sequence[ops.Fork]) -> None:
    """Print one line for each fork."""
    if not found:
        console.print("No forks.")
    console.table(
        found,
        "fork",
        "of=source",
        "snapshot",
        "state=stage",
        "created=created_ms",
        ("expires", lambda it: moment(it.expires_ms) if it.expires_ms else "never"),
        ("topics", lambda it: len(it.topics)),
        "by=who",
    )


def moment(at_ms: int) -> str:
    return f"{utc_time(at_ms)}Z" if at_ms else "unknown"


question("fork list", print_forks, key="forks")
