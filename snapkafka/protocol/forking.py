"""The names of a fork: a snapshot that runs as a second system beside production.

Everything of fork NAME begins with `fork.NAME.`: topics, changelogs, consumer groups, transactional ids, and the
namespace, so its ledger is `_snapkafka.fork.NAME.<namespace>`. A name of a fork has no dot, so no prefix begins with
that of another fork.
"""

from __future__ import annotations

import re
from typing import Final

from .records import Fork, ForkStage, ForkTopic

#: What every name of a fork begins with.
FORK: Final = "fork."
#: What the topic of a ledger begins with, before its namespace.
LEDGER: Final = "_snapkafka."
#: The prefix is a part of every name, and Kafka takes 249 characters for a topic.
NAME_CHARS_MAX: Final = 40
#: In their order: later ones state more of a topic.
STAGES: Final[tuple[ForkStage, ...]] = ("begun", "created")
NAME: Final = re.compile(rf"[A-Za-z0-9-]{{1,{NAME_CHARS_MAX}}}")


def fork_problem(fork: str) -> str | None:
    """Explain why the name of a fork is invalid; None: it is valid."""
    if NAME.fullmatch(fork):
        return None
    return f"invalid name of a fork {fork!r}: it takes 1 to {NAME_CHARS_MAX} letters, digits and dashes"


def prefix_of(fork: str) -> str:
    """Return the prefix of every name of a fork."""
    return f"{FORK}{fork}."


def prefixed(fork: str, name: str) -> str:
    """Translate a name of production to that of the fork; one that is of the fork already stays.

    Faust derives some names by putting text before others (`group_by`), so the prefix is moved to the front.
    """
    prefix = prefix_of(fork)
    return prefix + name.replace(prefix, "")


def of_fork(fork: str, topic: str) -> bool:
    """Return whether a topic belongs to the fork: it is its ledger, or has its prefix."""
    return topic.removeprefix(LEDGER).startswith(prefix_of(fork))


def fork_of(name: str) -> str:
    """Return the fork to which a topic, group or namespace belongs; empty: none."""
    found = re.match(rf"({NAME.pattern})\.", name.removeprefix(LEDGER).removeprefix(FORK))
    return found[1] if found and name.removeprefix(LEDGER).startswith(FORK) else ""


class ForkView:
    """The ledger of a fork, as a view: the plan that was begun, and what it has created.

    Args:
        begun: the first record; later plans are ignored, for a fork that is created again has another ledger.
    """

    def __init__(self, begun: Fork) -> None:
        self.begun = begun
        self._parts: dict[tuple[ForkStage, int], Fork] = {}

    def apply(self, record: Fork) -> None:
        """Take in a record of the plan."""
        if record.plan == self.begun.plan:
            self._parts.setdefault((record.stage, record.part), record)

    @property
    def created(self) -> bool:
        """Whether all topics exist."""
        parts = self._of("created")
        return bool(parts) and len(parts) == parts[0].parts

    def topics(self) -> tuple[ForkTopic, ...]:
        """List the topics of the plan, with ids as far as they were created."""
        known = {it.topic: it for stage in STAGES for part in self._of(stage) for it in part.topics}
        return tuple(known.values())

    def _of(self, stage: ForkStage) -> list[Fork]:
        return [part for (of, _), part in sorted(self._parts.items()) if of == stage]
