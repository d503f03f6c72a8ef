"""`snapkafka doctor` in its four modes: report, `--fix`, `--acls`, `--offline`. The work of each is elsewhere; this
module asks and prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import typer

from snapkafka import ops
from snapkafka.cli.present.advice import print_advice
from snapkafka.cli.present.layout import Table
from snapkafka.cli.present.printed import count
from snapkafka.cli.propose import Proposal, propose
from snapkafka.cli.running import console, print_json, run
from snapkafka.drivers.faust.describe import DescribedApp, describe_app_at
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.runtime.extras import extra_missing
from snapkafka.units import duration_ms, rounded_ms


async def ask_one_way(*ways: Mapping[str, bool]) -> None:
    """Refuse modes that exclude each other.

    Args:
        ways: for modes that do, whether each is requested, by its option.

    Raises:
        BadInputError: more than one is requested.
    """
    for one_of in ways:
        asked = [name for name, given in one_of.items() if given]
        if len(asked) > 1:
            raise BadInputError(f"{' and '.join(asked)} cannot be combined", hint="ask for one at a time")


def examine(
    connected: Callable[[], Connection], namespace: str, within: str, *, verbose: bool, as_json: bool
) -> None:
    """Print the findings; exit with status 1 if there is a problem."""
    found = run(
        lambda: ops.doctor(
            connected(), namespace, assembly_within_ms=duration_ms(within, "--assembly-within")
        ),
        as_json=as_json,
    )
    if as_json:
        print_json(found)
    else:
        apps = ", ".join(f"{app} ({count} running)" for app, count in found.apps.items())
        console.print(f"{found.namespace}: {apps or 'no app has joined'}")
        print_advice(found.found, verbose=verbose)
        if not found.found:
            console.print(("No problems found.", "green"))
    if not found.well:
        raise typer.Exit(EXIT_NOT_GOOD)


# -- --fix ----------------------------------------------------------------------------------------------------


def fix(
    connected: Callable[[], Connection], namespace: str, within: str, *, yes: bool, as_json: bool
) -> None:
    """Print the planned changes, ask, make them, print the result; exit with status 1 if something was not changed."""
    propose(
        Proposal(
            plan=lambda: ops.plan_fixes(
                connected(), namespace, assembly_within_ms=duration_ms(within, "--assembly-within")
            ),
            act=lambda plan: ops.apply_fixes(connected(), namespace, plan),
            show=_print_plan,
            report=lambda plan, done: _print_applied(done),
            question=lambda plan: f"Change the settings of {count(len(plan), 'topic')}?",
            empty=lambda plan: not plan,
            good=lambda done: all(item.done for item in done),
        ),
        yes=yes,
        as_json=as_json,
    )


def _print_plan(planned: tuple[ops.PlannedFix, ...]) -> None:
    if not planned:
        console.print(("No topic setting needs a change.", "green"))
    for planned_fix in planned:
        console.print((planned_fix.topic, "bold"))
        for why in planned_fix.why:
            console.print(f"  {why}")
        for change in planned_fix.changes:
            origin = "" if change.own is not None else " (inherited)"
            console.print(f"  {change.setting}: {change.before}{origin} -> ", (change.after, "bold"))
        console.print(f"  needs disk space: {planned_fix.keeps}")
        console.print("  undo:")
        console.command(planned_fix.undo, indent=4)


def _print_applied(applied: tuple[ops.AppliedFix, ...]) -> None:
    for item in applied:
        now = ", ".join(f"{name}={value}" for name, value in item.now.items())
        if item.done:
            console.print(("changed", "green"), f" {item.topic}: now {now}")
        else:
            console.print(("not changed", "red"), f" {item.topic}: {item.refused}")


# -- --acls ---------------------------------------------------------------------------------------------------


def print_rights(connected: Callable[[], Connection | None], namespace: str, *, as_json: bool) -> None:
    """Print a table of rights, and the commands that grant them."""
    found = run(lambda: ops.rights(connected(), namespace), as_json=as_json)
    if as_json:
        print_json(found)
        return
    shown = Table("role", "on", "operations", "for", "without it")
    for right in found.rights:
        names = " ".join(right.names) + ("* (prefix)" if right.prefixed else "")
        shown.add(
            right.role,
            f"{right.kind} {names}" if right.kind != "cluster" else "the cluster",
            ", ".join(right.operations),
            right.why,
            right.without or "does not work",
        )
    console.table(shown)
    if found.guessed:
        console.print(f"TOPIC and GROUP are placeholders: {found.guessed}")
    for right in found.rights:
        console.command(right.command)


# -- --offline ------------------------------------------------------------------------------------------------


def look_offline(path: str, *, verbose: bool, as_json: bool) -> None:
    """Print an app as it is defined; exit with status 1 if a snapshot would not work, or would not hold all of it."""
    found = run(lambda: _given(_described(path)), as_json=as_json)
    if as_json:
        print_json(found)
    else:
        _print_described(found, verbose=verbose)
    if not found.well:
        raise typer.Exit(EXIT_NOT_GOOD)


async def _given(found: DescribedApp) -> DescribedApp:
    """Return an app that was imported before the event loop started, as Faust imports it."""
    return found


def _described(path: str) -> DescribedApp:
    try:
        return describe_app_at(path)
    except ModuleNotFoundError as error:
        if error.name != "faust":
            raise
        raise extra_missing("faust", "--offline", "faust") from error


def _print_described(found: DescribedApp, *, verbose: bool) -> None:
    console.print("app ", (found.app, "bold"))
    agents = Table("agent", "reads", "concurrency", right=("concurrency",))
    for agent in found.agents:
        agents.add(
            agent.name,
            ", ".join(agent.topics) or "an in-memory channel",
            str(agent.concurrency),
        )
    topics = Table("topic", "read by")
    for topic in found.topics:
        topics.add(topic.name, ", ".join(topic.agents))
    tables = Table("table", "kind", "changelog", "partitions", "windows live", right=("partitions",))
    for row in found.tables:
        tables.add(
            row.name,
            row.kind,
            row.changelog,
            "as the app's" if row.partitions is None else str(row.partitions),
            rounded_ms(row.expires_ms) if row.expires_ms else "",
        )
    for shown in (agents, topics, tables):
        if shown:
            console.table(shown)
    print_advice(found.found, verbose=verbose)
    if not found.found:
        console.print(("Snapshots hold all of this app.", "green"))
