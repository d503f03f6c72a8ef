"""Findings of `doctor`, printed: of a kind the first one, and the names of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from snapkafka.advice import Advice, Weight
from snapkafka.cli.running import console

WEIGHTS: Final = {Weight.PROBLEM: "red", Weight.WARNING: "yellow", Weight.NOTE: "dim"}
#: As many others of a kind are named.
NAMED_MAX: Final = 3


def print_advice(found: Sequence[Advice], *, verbose: bool) -> None:
    """Print findings in their order.

    Args:
        verbose: each by itself, with the command that fixes it and the one that undoes that.
    """
    kinds: dict[object, list[Advice]] = {}
    for advice in found:
        kinds.setdefault(advice.code if advice.subject and not verbose else id(advice), []).append(advice)
    for advice, *others in kinds.values():
        console.print((advice.weight, WEIGHTS[advice.weight]), f" {advice.code}: {advice.what}", hang=4)
        if others:
            named = ", ".join(other.subject for other in others[:NAMED_MAX])
            more = len(others) - NAMED_MAX
            console.print(f"  likewise: {named}" + (f" and {more} more" if more > 0 else ""))
        if advice.do:
            console.print(f"  {advice.do}", style="dim")
        if verbose and advice.command:
            console.command(advice.command, indent=4)
            console.print("  to undo it:", style="dim")
            console.command(advice.undo, indent=4)
    if not verbose and (len(kinds) < len(found) or any(advice.command for advice in found)):
        console.print("Add -v for each finding and for commands.", style="dim")
