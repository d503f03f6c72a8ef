"""The sequence of every command that changes something: print a plan, ask, run exactly that plan, and print the
result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

import typer

from snapkafka.errors import EXIT_NOT_GOOD, BadInputError
from snapkafka.verbs import Change

from .running import console, print_json, run

P = TypeVar("P")
D = TypeVar("D")


@dataclass(frozen=True, kw_only=True)
class Proposal(Generic[P, D]):
    """A change that is planned, shown, confirmed and made.

    `show`, `report`: print the plan, and the result. `refused`: whether the plan has a reason to refuse. `empty`:
    whether there is nothing to do, so that nothing is asked. `good`: whether everything planned was done. `change`: the
    participle for "nothing was ...": "changed" or "removed".
    """

    plan: Callable[[], Coroutine[Any, Any, P]]
    act: Callable[[P], Coroutine[Any, Any, D]]
    show: Callable[[P], None]
    report: Callable[[P, D], None]
    question: Callable[[P], str]
    refused: Callable[[P], bool] = lambda plan: False
    empty: Callable[[P], bool] = lambda plan: False
    good: Callable[[D], bool] = lambda done: True
    change: str = "changed"


def propose(proposal: Proposal[P, D], how: Change, *, as_json: bool) -> None:
    """Run a proposal: print the plan, refuse it or stop after it, ask, run it, and print the result.

    Raises:
        typer.Exit: it is refused, the answer is no, or not all was done.
    """
    planned = run(proposal.plan, as_json=as_json)
    if not as_json:
        proposal.show(planned)
    refused = proposal.refused(planned)
    if how.dry_run or refused or proposal.empty(planned):
        if as_json:
            print_json({"planned": planned, "done": None})
        if refused:
            raise typer.Exit(EXIT_NOT_GOOD)
        return
    if not how.yes:
        _confirm(proposal, planned, as_json=as_json)
    done = run(
        lambda: proposal.act(planned), as_json=as_json, beside={"planned": planned} if as_json else None
    )
    if as_json:
        print_json({"planned": planned, "done": done})
    else:
        proposal.report(planned, done)
    if not proposal.good(done):
        raise typer.Exit(EXIT_NOT_GOOD)


def _confirm(proposal: Proposal[P, D], planned: P, *, as_json: bool) -> None:
    def nobody_to_ask() -> NoReturn:
        raise BadInputError(
            f"not confirmed, as there is no terminal: nothing was {proposal.change}",
            hint="read the plan, then add --yes",
        )

    if as_json or not sys.stdin.isatty():
        run(nobody_to_ask, as_json=as_json, beside={"planned": planned})
    if not typer.confirm(proposal.question(planned), err=True):
        console.print(f"nothing was {proposal.change}")
        raise typer.Exit(EXIT_NOT_GOOD)
