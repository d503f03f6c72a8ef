"""The language of the golden scenarios: what the files in this directory may say.

A file is a story in parts: comments (`#`), commands, a line `----`, and what came of the commands, up to an empty line.
`pytest tests/scenarios --rewrite` writes that part again. `play` knows the commands.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from snapkafka.protocol import TopicPartition

SEPARATOR = "----"


class Part(NamedTuple):
    """Comments and commands as they stand, and the commands alone."""

    head: str
    commands: list[str]


def parts_of(text: str) -> list[Part]:
    """The parts of a file."""
    parts = []
    for block in text.strip().split("\n\n"):
        head, separator, _ = block.partition(f"\n{SEPARATOR}")
        lines = [line.split(" #")[0].strip() for line in head.splitlines()]
        commands = [line for line in lines if line and not line.startswith("#")]
        assert separator or not commands, f"no {SEPARATOR} after {head!r}"
        parts.append(Part(head, commands))
    return parts


def tp_of(text: str) -> TopicPartition:
    """`A[0]`, or `A` for the only partition of A."""
    topic, _, partition = text.partition("[")
    return TopicPartition(topic, int(partition.rstrip("]") or 0))


def place_of(text: str) -> tuple[TopicPartition, int]:
    """`A[0]@3`."""
    tp, _, offset = text.partition("@")
    return tp_of(tp), int(offset or 0)


class Command:
    """One command: its words, and its options, which are taken one by one."""

    def __init__(self, line: str) -> None:
        self.line = line
        every = shlex.split(line)
        self.words = [word for word in every if "=" not in word]
        self.options = dict(word.split("=", 1) for word in every if "=" in word)

    def option(self, name: str, default: str = "") -> str:
        return self.options.pop(name, default)

    def options_list(self, name: str) -> list[str]:
        return [item for item in self.option(name).split(",") if item]
