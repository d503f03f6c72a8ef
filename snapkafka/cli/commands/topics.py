"""`snapkafka topics create`: topics of services."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from snapkafka import ops
from snapkafka.cli.build import AsJson, printed
from snapkafka.cli.running import connect, console, run
from snapkafka.errors import BadInputError
from snapkafka.verbs import TopicsCreate, Where


def create(at: Annotated[Where, ("bootstrap",)], asked: TopicsCreate, as_json: AsJson = False) -> None:
    async def work() -> tuple[ops.CreatedTopic, ...]:
        settings = ({"cleanup.policy": "compact"} if asked.compact else {}) | _settings(asked.settings)
        return await ops.create_topics(
            connect(at.bootstrap), asked.names, partitions=asked.partitions, settings=settings
        )

    printed(run(work, as_json=as_json), _print, as_json=as_json, data=lambda found: {"topics": found})


def _print(found: Sequence[ops.CreatedTopic]) -> None:
    console.table(
        found,
        "topic",
        ("result", lambda it: "created" if it.created else "exists already"),
        "partitions",
        ("cleanup", lambda it: "compact" if it.compacted else ""),
        ("its own settings", lambda it: ", ".join(f"{key}={value}" for key, value in it.other.items())),
    )


def _settings(given: Iterable[str]) -> dict[str, str]:
    pairs = {item: item.partition("=") for item in given}
    for item, (name, equals, _) in pairs.items():
        if not name or not equals:
            raise BadInputError(f"{item} is not NAME=VALUE", field="set")
    return {name: value for name, _, value in pairs.values()}
