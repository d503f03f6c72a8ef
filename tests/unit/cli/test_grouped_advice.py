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


def test_a_group_is_printed_once_and_each_with_its_commands_where_that_is_asked_for(
    screen: io.StringIO,
) -> None:
    present.print_advice([ALONE, *(compacted(f"t{n}") for n in range(12))], verbose=False)
    printed = screen.getvalue()
    assert printed.count("warning compaction") == printed.count("problem nobody") == 1
    assert "likewise: t1, t2, t3 and 8 more" in printed
    assert "kafka-configs.sh" not in printed and "Add -v" in printed
    present.print_advice([compacted("a"), compacted("b")], verbose=True)
    for topic in "ab":
        assert f"    kafka-configs.sh --entity-name {topic} --add-config x=1\n" in screen.getvalue()
        assert f"    kafka-configs.sh --entity-name {topic} --delete-config x\n" in screen.getvalue()
