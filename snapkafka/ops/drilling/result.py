"""The result of a drill: whether the backup can be trusted, and why; and what it is computed from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from snapkafka.assembly.spec import JobResult
from snapkafka.manifest import CheckEntry
from snapkafka.protocol import LedgerState
from snapkafka.protocol.forking import prefix_of, prefixed
from snapkafka.verbs import Result

#: Parameters of ready-made invariants that hold names of topics or apps.
NAMES: Final = ("topics", "apps")
#: Stands in invariants for what names of the fork begin with; empty for the snapshot itself.
PREFIX: Final = "prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase of a drill. `status`: "done", "failed" or "not-run"; a phase that was not run has not succeeded. `what`:
    its result, or why it failed."""

    name: str
    status: str
    seconds: float = 0.0
    what: str = ""


class Drill(Result, frozen=True, kw_only=True):
    """The result of a drill.

    `fork`: its name, which no other drill has. `trusted`: the backup can be trusted; otherwise `reasons` state why not,
    a sentence each. `rpo_s`: the age of the snapshot when the drill began, all of which a disaster would cost. `rto_s`:
    from the start of the fork until its apps had processed the messages in flight, of which there were `in_flight`;
    None: they did not. `source`, `of_fork`: both snapshots as they were verified; None: they were not. `removed`:
    nothing of the fork is left; `kept`: it was to be kept. `logs`: the last lines of the commands, if a phase failed.
    """

    fork: str
    trusted: bool
    reasons: tuple[str, ...]
    namespace: str
    snapshot: str
    epoch: int
    started_at: str
    rpo_s: float | None
    rto_s: float | None
    apps: tuple[str, ...]
    phases: tuple[Phase, ...]
    in_flight: int = 0
    source: JobResult | None = None
    of_fork: JobResult | None = None
    removed: bool = False
    kept: bool = False
    logs: Mapping[str, str] = {}


def records_of(found: JobResult) -> int:
    """Count the records that the checks of a snapshot have read, without its invariants."""
    return sum(check.records or 0 for check in found.checks if check.run and not is_invariant(check))


def is_invariant(check: CheckEntry) -> bool:
    """Return whether it is an invariant; `V6` without a name is the manifest's entry for none."""
    return check.name.startswith("V6 ")


def of_the_fork(given: Mapping[str, str], wanted: Iterable[str], fork: str) -> list[str]:
    """Return the parameters of invariants for the fork: names of topics and apps are its own, and `prefix` is the
    prefix of its names."""
    found = dict(given)
    for name in NAMES:
        if found.get(name):
            found[name] = ",".join(prefixed(fork, item.strip()) for item in found[name].split(","))
    if PREFIX in {*wanted}:
        found.setdefault(PREFIX, prefix_of(fork))
    return [f"{name}={value}" for name, value in found.items()]


def unassigned(state: LedgerState, apps: Iterable[str]) -> str:
    """Name an app that does not have all its inputs; empty: there is none."""
    joined = {view.hello.app for view in state.participants()}
    if absent := sorted({*apps} - joined):
        return f"no worker of app {absent[0]} has joined"
    lacking = (f"no worker of app {app} is assigned {tp}" for app, tp in state.unassigned([*apps]))
    return next(lacking, "")
