"""The plan and the result of a recovery, printed: restore, restore --into, fork create."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from snapkafka import ops
from snapkafka.cli.running import console
from snapkafka.units import rounded_ms, wall_ms

from .printed import count, headline


def print_plan(plan: ops.RecoveryPlan) -> None:
    """Print the planned work, the missing parts, and every reason to refuse it."""
    console.print(*headline(plan.snapshot, plan.epoch, plan.verdict))
    console.print(_head(plan))
    for line in _facts(plan):
        console.print("  ", line)
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
    if plan.kind == "in-place":
        console.table(plan.work, "topic", "kind", "records, at most=records:,")
    console.table(
        plan.topics,
        "new topic=topic",
        "partitions",
        ("settings", lambda it: _settings({k: v for k, v in it.settings.items() if k not in it.changed})),
        ("changed for this", lambda it: _settings(it.changed)),
    )
    console.table(plan.rules, "kind", "rule", "of=place", "matches=items:,")
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
    if done.topics:
        console.print(f"created: {count(len(done.topics), 'topic')}")
    external = f", {done.inputs:,} external records" if done.inputs else ""
    console.print(f"appended: {done.messages:,} messages{external}, {done.state:,} records of state")
    if done.suppressed or done.masked:
        console.print(f"suppressed: {done.suppressed:,} records and rows; masked: {done.masked:,} values")
    console.print(
        f"checked before the commit: {count(len(done.compared), 'table or input', 'tables and inputs')}"
    )
    _print_limits(plan)
    if done.suppressed:
        console.note("note", ["snapshots of before hold the erased keys until they are pruned"])


def _head(plan: ops.RecoveryPlan) -> str:
    apps = ", ".join(plan.apps)
    if plan.kind == "fork":
        return f"fork {plan.request.fork} of it: production is only read"
    if plan.kind == "cluster":
        return f"restore of {apps} into another cluster, namespace {plan.namespace}"
    return f"restore of {apps} to it: replaces all state"


def _facts(plan: ops.RecoveryPlan) -> Iterator[str]:
    if plan.taken_ms:
        yield f"the snapshot was taken {rounded_ms(wall_ms() - plan.taken_ms)} ago"
    if plan.resumes:
        yield f"continues plan {plan.resumes}, which is {plan.stage}"
    if plan.again:
        yield f"{plan.again:,} events since the snapshot will run again"
    if plan.work:
        stored = f", {plan.stored:,} stored external records" if plan.stored else ""
        yield f"appends {plan.messages:,} messages in flight{stored}, at most {plan.state:,} rows of state"
    if plan.open:
        yield f"not verified: paths through {', '.join(plan.open)}"
    if plan.existing:
        yield f"already there: {', '.join(plan.existing)}"


def _settings(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


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
    console.note("cannot be undone", _irrevocable(plan.irrevocable), "")


def _irrevocable(found: Iterable[ops.Irrevocable]) -> Iterator[str]:
    by_topic: dict[str, list[str]] = defaultdict(list)
    for it in found:
        by_topic[it.topic].append(f"{it.partition}: {it.start}-{it.end - 1}")
    yield from (f"outputs in {topic}, partition: offsets {', '.join(it)}" for topic, it in by_topic.items())


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
