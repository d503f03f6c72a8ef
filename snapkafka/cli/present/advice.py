"""Findings of `doctor`, printed: those of a kind together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from snapkafka.advice import Advice, Group, Weight, grouped, with_subject
from snapkafka.cli.running import console

WEIGHTS: Final = {Weight.PROBLEM: "red", Weight.WARNING: "yellow", Weight.NOTE: "dim"}
#: As many subjects of a group are named.
NAMED_MAX: Final = 3


def print_advice(found: Sequence[Advice], *, verbose: bool) -> None:
    """Print findings in their order.

    Args:
        verbose: each by itself, with the command that fixes it and the one that undoes that.
    """
    groups = [Group(first=advice, subjects=()) for advice in found] if verbose else grouped(found)
    for group in groups:
        advice = group.first
        console.print(
            (advice.weight, WEIGHTS[advice.weight]),
            f" {advice.code}: {_for_all(group, advice.what)}",
            hang=4,
        )
        if advice.do:
            console.print(f"  {_for_all(group, advice.do)}", style="dim")
        if verbose and advice.command:
            console.command(advice.command, indent=4)
            console.print("  to undo it:", style="dim")
            console.command(advice.undo, indent=4)
    if not verbose and (len(groups) < len(found) or any(advice.command for advice in found)):
        console.print("Add -v for each finding and for commands.", style="dim")


def _for_all(group: Group, text: str) -> str:
    """Return a text about one subject as a text about all of them."""
    if len(group.subjects) < 2:
        return text
    names, more = group.subjects[:NAMED_MAX], len(group.subjects) - NAMED_MAX
    named = ", ".join(names) + (f" and {more} more" if more > 0 else "")
    return with_subject(text, group.first.subject, named)
