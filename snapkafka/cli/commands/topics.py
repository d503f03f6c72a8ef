"""`snapkafka topics`: topics of services."""

from __future__ import annotations

from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.helps import command
from snapkafka.cli.options import AsJson, Bootstrap
from snapkafka.cli.present.printed import count
from snapkafka.cli.running import connect, console, print_json, run
from snapkafka.errors import BadInputError

app = typer.Typer(help="Create topics of services.", no_args_is_help=True, rich_markup_mode="rich")


@command(app, "topics create")
def create(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of the topics.")],
    partitions: Annotated[
        int, typer.Option("--partitions", metavar="N", min=1, help="Number of partitions of each.")
    ] = 1,
    compact: Annotated[
        bool, typer.Option("--compact", help="Keep the last record of each key: cleanup.policy=compact.")
    ] = False,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting, by Kafka's name. Repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Create topics; those that exist stay as they are.

    Faust does not consume a topic that is missing when a worker starts.
    """

    async def work() -> tuple[ops.CreatedTopic, ...]:
        settings = ({"cleanup.policy": "compact"} if compact else {}) | _settings(given or ())
        return await ops.create_topics(connect(bootstrap), names, partitions=partitions, settings=settings)

    found = run(work, as_json=as_json)
    if as_json:
        print_json({"topics": found})
        return
    for item in found:
        what = "created" if item.created else "exists already"
        kept = ", compacted" if item.compacted else ""
        console.print(f"{item.topic}: {what}, {count(item.partitions, 'partition')}{kept}")
        if item.other:
            other = ", ".join(f"{key}={value}" for key, value in item.other.items())
            console.print(f"  its own settings stay: {other}")


def _settings(given: list[str] | tuple[()]) -> dict[str, str]:
    pairs = {item: item.partition("=") for item in given}
    for item, (name, equals, _) in pairs.items():
        if not name or not equals:
            raise BadInputError(f"{item} is not NAME=VALUE", field="set")
    return {name: value for name, _, value in pairs.values()}
