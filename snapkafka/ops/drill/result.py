"""The result of a drill: whether the backup can be trusted, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from snapkafka.assembly.spec import JobResult
from snapkafka.manifest import CheckEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase of a drill. `status`: "done", "failed" or "not-run"; a phase that was not run has not succeeded. `what`:
    its result, or why it failed."""

    name: str
    status: str
    seconds: float = 0.0
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A number of the snapshot beside that of the fork. `equal`: whether they are equal, as they have to be; None:
    they need not be, as the fork has run since."""

    what: str
    snapshot: int
    fork: int
    equal: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """The result of a drill.

    `id`: of this drill alone, and the name of its fork. `trusted`: the backup can be trusted; otherwise `reasons`
    state why not, a sentence each. `rpo_s`: the age of the snapshot when the drill began, all of which a disaster
    would cost. `rto_s`: from the start of the fork until its apps had processed the messages in flight; None: they did
    not; `rto_phases`: the same by phase, in seconds. `source`, `of_fork`: both snapshots as they were
    verified; None: they were not. `removed`: nothing of the fork is left; `kept`: it was to be kept.
    """

    id: str
    trusted: bool
    reasons: tuple[str, ...]
    namespace: str
    fork: str
    snapshot: str
    epoch: int
    started_at: str
    rpo_s: float | None
    rto_s: float | None
    apps: tuple[str, ...]
    phases: tuple[Phase, ...]
    rto_phases: Mapping[str, float] = field(default_factory=dict)
    compared: tuple[Compared, ...] = ()
    source: JobResult | None = None
    of_fork: JobResult | None = None
    removed: bool = False
    kept: bool = False
    logs: Mapping[str, str] = field(default_factory=dict)


def records_of(found: JobResult) -> int:
    """Count the records that the checks of a snapshot have read, without its invariants."""
    return sum(check.records or 0 for check in found.checks if check.run and not is_invariant(check))


def is_invariant(check: CheckEntry) -> bool:
    """Return whether it is an invariant; `V6` without a name is the manifest's entry for none."""
    return check.name.startswith("V6 ")
