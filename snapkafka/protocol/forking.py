"""The names of a fork: a snapshot that runs as a second system beside production.

Everything of fork NAME begins with `fork.NAME.`: topics, changelogs, consumer groups, transactional ids, and the
namespace, so its ledger is `_snapkafka.fork.NAME.<namespace>`. A name of a fork has no dot, so no prefix begins with
that of another fork.
"""

from __future__ import annotations

import re
from typing import Final

#: What every name of a fork begins with.
FORK: Final = "fork."
#: What the topic of a ledger begins with, before its namespace.
LEDGER: Final = "_snapkafka."
#: The prefix is a part of every name, and Kafka takes 249 characters for a topic.
NAME_CHARS_MAX: Final = 40
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
