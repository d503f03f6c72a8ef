"""`snapkafka doctor`: the findings in a cluster, or in an app without a broker (`--offline`)."""

from __future__ import annotations

from collections.abc import Mapping

from snapkafka import ops
from snapkafka.cli.build import AsJson, printed
from snapkafka.cli.present.advice import print_advice
from snapkafka.cli.running import connect, console, run
from snapkafka.drivers.faust.describe import DescribedApp, describe_app_at
from snapkafka.errors import BadInputError
from snapkafka.runtime.extras import extra_missing
from snapkafka.units import rounded_ms
from snapkafka.verbs import Doctor, Where


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


def doctor(at: Where, asked: Doctor, as_json: AsJson = False) -> None:
    """Print the findings; exit with status 30 if there is a problem."""
    if asked.offline:
        _look_offline(asked, as_json=as_json)
        return

    def show(found: ops.Checkup) -> None:
        apps = ", ".join(f"{app} ({count} running)" for app, count in found.apps.items())
        console.print(f"{found.namespace}: {apps or 'no app has joined'}")
        print_advice(found.found, verbose=asked.verbose)
        if not found.found:
            console.print(("No problems found.", "green"))

    found = run(lambda: ops.doctor(connect(at.bootstrap), at.namespace), as_json=as_json)
    printed(found, show, as_json=as_json, good=found.well)


# -- --offline ------------------------------------------------------------------------------------------------


def _look_offline(asked: Doctor, *, as_json: bool) -> None:
    """Print an app as it is defined; exit with status 30 if a snapshot would not work, or would not hold all of it."""
    found = run(lambda: _given(_described(asked.offline)), as_json=as_json)
    printed(
        found,
        lambda found: _print_described(found, verbose=asked.verbose),
        as_json=as_json,
        good=found.well,
    )


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
    console.table(
        found.agents,
        "agent=name",
        ("reads", lambda it: ", ".join(it.topics) or "an in-memory channel"),
        "concurrency",
    )
    console.table(found.topics, "topic=name", ("read by", lambda it: ", ".join(it.agents)))
    console.table(
        found.tables,
        "table=name",
        "kind",
        "changelog",
        ("partitions", lambda it: "as the app's" if it.partitions is None else it.partitions),
        ("windows live", lambda it: rounded_ms(it.expires_ms) if it.expires_ms else ""),
    )
    print_advice(found.found, verbose=verbose)
    if not found.found:
        console.print(("Snapshots hold all of this app.", "green"))
