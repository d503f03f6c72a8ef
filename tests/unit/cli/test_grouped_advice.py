"""Findings of `doctor`: those of a kind are one line; commands are printed with `-v`."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from snapkafka.advice import Advice, Weight
from snapkafka.cli import Screen
from snapkafka.cli.commands import trust as present


def compacted(topic: str) -> Advice:
    return Advice(
        code="compaction",
        weight=Weight.WARNING,
        what=f"Kafka may compact changelog {topic} at once: late assembly may lose values",
        do="change its settings",
        subject=topic,
        command=f"kafka-configs.sh --entity-name {topic} --add-config x=1",
        undo=f"kafka-configs.sh --entity-name {topic} --delete-config x",
    )


ALONE = Advice(code="nobody", weight=Weight.PROBLEM, what="no process is running", do="start the services")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    file = io.StringIO()
    monkeypatch.setattr(present, "console", Screen(Console(file=file, width=1_000)))
    return file


def test_a_group_is_printed_once_and_without_commands(screen: io.StringIO) -> None:
    present.print_advice([ALONE], verbose=False)
    assert "-v" not in screen.getvalue()
    screen.seek(0)
    present.print_advice([ALONE, *(compacted(f"t{n}") for n in range(12))], verbose=False)
    assert screen.getvalue().splitlines() == [
        "problem nobody: no process is running",
        "  start the services",
        "warning compaction: Kafka may compact changelog t0 at once: late assembly may lose values",
        "  likewise: t1, t2, t3 and 8 more",
        "  change its settings",
        "Add -v for each finding and for commands.",
    ]


def test_verbose_prints_each_with_its_commands(screen: io.StringIO) -> None:
    present.print_advice([compacted("a"), compacted("b")], verbose=True)
    assert screen.getvalue().splitlines() == [
        line
        for topic in "ab"
        for line in (
            f"warning compaction: Kafka may compact changelog {topic} at once: late assembly may lose values",
            "  change its settings",
            f"    kafka-configs.sh --entity-name {topic} --add-config x=1",
            "  to undo it:",
            f"    kafka-configs.sh --entity-name {topic} --delete-config x",
        )
    ]
