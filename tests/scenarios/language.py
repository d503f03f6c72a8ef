"""The language of the golden scenarios: what the files in this directory may say.

A file is a story in parts: comments (`#`), commands, a line `----`, and what came of the commands, up to an empty line.
`pytest tests/scenarios --rewrite` writes that part again. `play` knows the commands; README.md lists them.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from snapkafka.protocol import TopicPartition

SEPARATOR = "----"


class Part(NamedTuple):
    """Comments and commands as they stand, and the output that is expected of them."""

    head: str
    commands: list[str]
    expected: str


def parts_of(text: str) -> list[Part]:
    """The parts of a file."""
    parts = []
    for block in text.strip().split("\n\n"):
        head, separator, expected = block.partition(f"\n{SEPARATOR}")
        lines = [line.split(" #")[0].strip() for line in head.splitlines()]
        commands = [line for line in lines if line and not line.startswith("#")]
        assert separator or not commands, f"no {SEPARATOR} after {head!r}"
        parts.append(Part(head, commands, expected.strip("\n")))
    return parts


def tp_of(text: str) -> TopicPartition:
    """`A[0]`, or `A` for the only partition of A."""
    topic, _, partition = text.partition("[")
    return TopicPartition(topic, int(partition.rstrip("]") or 0))


def place_of(text: str) -> tuple[TopicPartition, int]:
    """`A[0]@3`."""
    tp, _, offset = text.partition("@")
    return tp_of(tp), int(offset or 0)


class Words:
    """The words of one command: taken one by one, all of them."""

    def __init__(self, line: str) -> None:
        self.line = line
        all_words = shlex.split(line)
        self.options = {w.split("=", 1)[0]: w.split("=", 1)[1] for w in all_words if "=" in w}
        self._plain = [w for w in all_words if "=" not in w]

    def next(self) -> str:
        assert self._plain, f"{self.line!r}: something is missing"
        return self._plain.pop(0)

    def rest(self) -> list[str]:
        rest, self._plain = self._plain, []
        return rest

    def flag(self, name: str) -> bool:
        if name in self._plain:
            self._plain.remove(name)
            return True
        return False

    def option(self, name: str, default: str = "") -> str:
        return self.options.pop(name, default)

    def options_list(self, name: str) -> list[str]:
        return [item for item in self.option(name).split(",") if item]

    def done(self) -> None:
        assert not self._plain and not self.options, f"{self.line!r}: what is {self._plain or self.options}?"
