"""The plan and the result of a recovery, printed: restore, restore --into, fork create."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from snapkafka import ops
from snapkafka.cli.running import console
from snapkafka.units import rounded_ms, wall_ms

from .layout import Part, Table
from .printed import count


def print_plan(plan: ops.RecoveryPlan) -> None:
    """Print the planned work, the missing parts, and every reason to refuse it."""
    console.print(*_head(plan))
    for line in _facts(plan):
        console.print("  ", *(line if isinstance(line, list) else [line]))
    _print_moves(plan)
    _print_work(plan)
    _print_topics(plan)
    _print_rules(plan.rules)
    _print_missing(plan.absent, plan.notes)
    _print_irrevocable(plan.irrevocable)
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
        where = f" in {into}" if into else ""
        ran = f"{where} {took} (plan {plan.plan}): start the workers"
        console.print(f"restored {', '.join(plan.apps)} to ", (plan.snapshot, "bold"), ran)
    if done.topics:
        console.print(f"created: {count(len(done.topics), 'topic')}")
    external = f", {done.inputs:,} external records" if done.inputs else ""
    console.print(f"appended: {done.messages:,} messages{external}, {done.state:,} records of state")
    if done.suppressed or done.masked:
        console.print(f"suppressed: {done.suppressed:,} records and rows; masked: {done.masked:,} values")
    tables = sum(line.startswith("equal: table") for line in done.compared)
    console.print(
        f"checked before the commit: {tables} tables and {len(done.compared) - tables} inputs equal the snapshot"
    )
    _print_missing(plan.absent, plan.notes)
    _print_irrevocable(plan.irrevocable)
    if done.suppressed:
        console.print(("note", "yellow"), ": snapshots of before hold the erased keys until they are pruned")


def _head(plan: ops.RecoveryPlan) -> list[Part]:
    verdict = f"  epoch {plan.epoch}  {plan.verdict}".rstrip()
    snapshot: list[Part] = ["snapshot ", (plan.snapshot, "bold"), verdict]
    if plan.kind == "fork":
        return ["fork ", (plan.request.fork, "bold"), " of ", *snapshot, ": production is only read"]
    apps = (", ".join(plan.apps), "bold")
    if plan.kind == "cluster":
        where = f" into another cluster, namespace {plan.namespace}"
        return ["restore of ", apps, " from ", *snapshot, where]
    return ["restore of ", apps, " to ", *snapshot, ": replaces all state"]


def _facts(plan: ops.RecoveryPlan) -> Iterable[str | list[Part]]:
    now_ms = wall_ms()
    if plan.taken_ms:
        yield f"the snapshot was taken {rounded_ms(now_ms - plan.taken_ms)} ago"
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


def _print_moves(plan: ops.RecoveryPlan) -> None:
    if not plan.moves:
        return
    rows = Table(
        "app",
        "input",
        "partition",
        "committed",
        "new",
        "appended",
        "run again",
        right=("partition", "committed"),
    )
    for move in plan.moves:
        rows.add(
            move.app,
            move.topic,
            str(move.partition),
            "-" if move.before < 0 else str(move.before),
            "at the appended messages" if move.after is None else str(move.after),
            f"{move.appends:,}" if move.appends else "",
            f"{move.again:,}" if move.again else "",
        )
    console.table(rows)


def _print_work(plan: ops.RecoveryPlan) -> None:
    if plan.kind != "in-place" or not plan.work:
        return
    rows = Table("topic", "kind", "records, at most", right=("records, at most",))
    for item in plan.work:
        rows.add(item.topic, item.kind, f"{item.records:,}")
    console.table(rows)


def _print_topics(plan: ops.RecoveryPlan) -> None:
    if not plan.topics:
        return
    rows = Table("new topic", "partitions", "settings", "changed for this", right=("partitions",))
    for it in plan.topics:
        kept = {name: value for name, value in it.settings.items() if name not in it.changed}
        rows.add(it.topic, str(it.partitions), _settings(kept), _settings(it.changed))
    console.table(rows)


def _print_rules(rules: Iterable[ops.RuleCount]) -> None:
    """Print the numbers of records and rows that each rule about erased keys and each mask matches."""
    rows = Table("rule", "", "of", "matches", right=("matches",))
    for it in rules:
        rows.add(it.kind, it.rule, it.place, f"{it.items:,}")
    if rows:
        console.table(rows)


def _settings(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _print_missing(absent: Iterable[ops.AbsentInput], notes: Iterable[str]) -> None:
    for it in absent:
        console.print(
            ("not restored", "yellow"),
            f": up to {it.records:,} external records of {it.topic}[{it.partition}], unread at the cut and not stored",
        )
    for note in notes:
        console.print(("note", "yellow"), f": {note}")


def _print_irrevocable(found: Iterable[ops.Irrevocable]) -> None:
    by_topic: dict[str, list[ops.Irrevocable]] = defaultdict(list)
    for item in found:
        by_topic[item.topic].append(item)
    for topic, items in by_topic.items():
        ranges = ", ".join(f"{item.partition}: {item.start}-{item.end - 1}" for item in items)
        console.print(f"cannot be undone: outputs in {topic}, partition: offsets {ranges}")


def print_checked(checked: ops.CheckedRestore) -> None:
    """Print what differs from a snapshot."""
    rows = Table("table", "of app", "result")
    for it in checked.tables:
        result = (f"{it.differing:,} differ", "red") if it.differing else ("equal", "green")
        rows.add(it.table, it.app, result)
    console.table(rows)
    for it in checked.tables:
        for key in it.keys:
            console.print(("differs", "red"), f": table {it.table} of app {it.app}: {key}")
        if (more := it.differing - len(it.keys)) > 0:
            console.print(("differs", "red"), f": table {it.table} of app {it.app}: {more:,} more")
    for sentence in checked.misplaced:
        console.print(("differs", "red"), f": {sentence}")
    if checked.plan:
        console.print("last restored to ", (checked.restored, "bold"), f" (plan {checked.plan})")
    verdict = ("equals", "green") if checked.equal else ("differs from", "red")
    console.print(
        f"{', '.join(checked.apps)} ", verdict, " snapshot ", (checked.snapshot, "bold"),
        f", epoch {checked.epoch} ({checked.seconds:.1f} s)",
    )  # fmt: skip
