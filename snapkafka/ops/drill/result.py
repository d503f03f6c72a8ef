"""The result of a drill: whether the backup can be trusted, and why, as data and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from snapkafka.manifest import CheckEntry
from snapkafka.units import format_seconds

TRUSTED: Final = "the backup can be trusted"
NOT_TRUSTED: Final = "the backup cannot be trusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase of a drill. `status`: "done", "failed" or "not-run"; a phase that was not run has not succeeded. `what`:
    its result, or why it failed."""

    name: str
    status: str
    seconds: float = 0.0
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verified snapshot: that of the system, or that of the fork. `checks`: V1 to V5; `invariants`: V6, by name.
    `not_compared`: the parts of its tables that were not compared; `uncaptured`: state of its apps that it does not
    hold."""

    id: str
    epoch: int
    verdict: str
    good: bool
    checks: tuple[CheckEntry, ...] = ()
    invariants: tuple[CheckEntry, ...] = ()
    not_compared: tuple[str, ...] = ()
    uncaptured: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """The number of records that the checks have read."""
        return sum(check.records or 0 for check in self.checks if check.run)


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
    not; `rto_phases`: the same by phase, in seconds. `digests`: SHA-256 of the drilled objects, in hex. `not_shown`:
    the limits of this drill. `source`, `of_fork`: both snapshots as they were verified; None: they were not.
    `removed`: nothing of the fork is left; `kept`: it was to be kept.
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
    digests: Mapping[str, str] = field(default_factory=dict)
    not_shown: tuple[str, ...] = ()
    compared: tuple[Compared, ...] = ()
    source: Judged | None = None
    of_fork: Judged | None = None
    removed: bool = False
    kept: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)


def markdown(drill: Drill) -> str:
    """Format a drill for people, as Markdown."""
    return (
        "\n".join(
            [
                *_head(drill),
                *_phases(drill),
                *_compared(drill),
                *_judged(drill),
                *_not_shown(drill),
                *_tail(drill),
            ]
        )
        + "\n"
    )


def _head(drill: Drill) -> Iterator[str]:
    yield f"# Drill of {drill.namespace}, {drill.started_at}"
    yield ""
    yield f"**{(TRUSTED if drill.trusted else NOT_TRUSTED).capitalize()}**"
    yield ""
    yield from (f"- {reason}" for reason in drill.reasons)
    if drill.reasons:
        yield ""
    yield from _table(
        ("", ""),
        [
            ("drill", drill.id),
            ("snapshot", f"{drill.snapshot or 'none'} (epoch {drill.epoch})"),
            ("fork", drill.fork),
            ("RPO: age of the snapshot", format_seconds(drill.rpo_s)),
            (
                "RTO: from the start of the fork until in-flight messages were worked off",
                format_seconds(drill.rto_s),
            ),
            *((f"RTO: {name}", format_seconds(seconds)) for name, seconds in drill.rto_phases.items()),
            *((f"SHA-256 of {name}", f"`{digest}`") for name, digest in sorted(drill.digests.items())),
            ("left behind", _left(drill)),
        ],
    )


def _left(drill: Drill) -> str:
    if drill.kept:
        return f"fork {drill.fork}, as asked; `snapkafka fork drop {drill.fork}` removes it"
    return "nothing" if drill.removed else f"parts of fork {drill.fork}: `snapkafka fork drop {drill.fork}`"


def _phases(drill: Drill) -> Iterator[str]:
    yield from ("", "## Phases", "")
    rows = [(it.name, it.status, format_seconds(it.seconds), it.what) for it in drill.phases]
    yield from _table(("phase", "status", "time", "result"), rows)


def _compared(drill: Drill) -> Iterator[str]:
    if not drill.compared:
        return
    yield from ("", "## What was compared", "")
    words = {True: "equal", False: "DIFFERS", None: "need not be equal"}
    rows = [(it.what, f"{it.snapshot:,}", f"{it.fork:,}", words[it.equal]) for it in drill.compared]
    yield from _table(("", "snapshot", "fork", ""), rows)


def _judged(drill: Drill) -> Iterator[str]:
    yield from ("", "## Verdicts", "")
    both = [("the snapshot", drill.source), ("the fork's snapshot", drill.of_fork)]
    rows = [
        (name, it.verdict if it else "not verified", f"{it.records:,}" if it else "") for name, it in both
    ]
    yield from _table(("", "verdict", "records read"), rows)
    for title, kind in (("check", "checks"), ("invariant", "invariants")):
        checks = [
            (f"{check.name} of {name}", _status(check), _count(check.records), f"{check.found:,}")
            for name, it in both
            if it is not None
            for check in getattr(it, kind)
        ]
        if checks:
            yield ""
            yield from _table((title, "status", "rows read", "rows found"), checks)


def _not_shown(drill: Drill) -> Iterator[str]:
    yield from ("", "## What this drill does not show", "")
    yield from (f"- {sentence}" for sentence in drill.not_shown)


def _tail(drill: Drill) -> Iterator[str]:
    yield from ("", "## Apps and versions", "")
    yield from (f"- `{command}`" for command in drill.apps)
    yield from (f"- {name} {version}" for name, version in sorted(drill.versions.items()))
    for command, lines in drill.logs.items():
        yield from ("", f"Last lines of `{command}`:", "", "```", *lines.splitlines(), "```")


def _status(check: CheckEntry) -> str:
    return check.status if check.run else "not run"


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in row)} |"
