"""Findings of the checks, and how they are reported.

A *finding* consists of numbers: the rule, the record, and two more numbers for the rule's sentence (`a`, `b`). A
*witness*, an entry of the manifest, is the same for people, with the sentence.

Each kind of finding has a weight: it *fails* its check (nothing harmless looks like that), or leaves it *unverifiable*
(the log can no longer show it either way), or is a *note* (worth knowing, accuses nobody).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from snapkafka.manifest import CheckEntry, WitnessEntry

from .coverage import Examined
from .kinds import KINDS, OF_TOPICS, Weight
from .log import LogRecord

#: As many witnesses of one check are kept: enough to see a pattern, few enough to read.
WITNESSES_MAX: Final = 20


class Status(StrEnum):
    """The status of a check that was run."""

    PASSED = "passed"
    FAILED = "failed"
    UNVERIFIABLE = "unverifiable"


_STATUSES: Final = {
    None: Status.PASSED,
    Weight.FAILS: Status.FAILED,
    Weight.UNVERIFIABLE: Status.UNVERIFIABLE,
}


class Finding(NamedTuple):
    """A record that broke a rule. `process` and `seq` are -1, `app` is empty, if the rule has none. `text`: what its
    sentence says besides numbers. `number`: of so many such records it is the first."""

    kind: str
    topic: str
    partition: int
    offset: int
    process: int = -1
    seq: int = -1
    app: str = ""
    a: int = -1
    b: int = -1
    text: str = ""
    number: int = 1

    @classmethod
    def at(cls, kind: str, record: LogRecord, *, app: str = "", a: int = -1, b: int = -1) -> Finding:
        """Return the finding for a record."""
        return cls(kind, *record[:3], record.process, record.seq, app, a, b)

    @property
    def order(self) -> tuple[str, int, int, str, int, str]:
        """The sort key: witnesses are listed by the place of their record."""
        return (self.topic, self.partition, self.offset, self.kind, self.process, self.app)


def witness_of(finding: Finding) -> WitnessEntry:
    """Return a finding with its sentence."""
    return WitnessEntry(
        topic=finding.topic,
        partition=finding.partition,
        offset=finding.offset,
        process=finding.process,
        seq=finding.seq,
        kind=finding.kind,
        what=KINDS[finding.kind].says.format(**finding._asdict()),
    )


def outcome(check: str, findings: Iterable[Finding], examined: Examined | None = None) -> CheckEntry:
    """Return the outcome of a check that was run.

    Args:
        check: "V1", ...
        findings: those of other checks are skipped.
        examined: the input of the check.
    """
    mine = sorted(
        (finding for finding in findings if KINDS[finding.kind].check == check),
        key=lambda f: (f.kind not in OF_TOPICS, f.order),
    )
    of_weight = {weight: [f for f in mine if KINDS[f.kind].weight is weight] for weight in Weight}
    worst = next((weight for weight in (Weight.FAILS, Weight.UNVERIFIABLE) if of_weight[weight]), None)
    accuse, notes = of_weight[worst] if worst else [], of_weight[Weight.NOTE]
    return CheckEntry(
        name=check,
        status=_STATUSES[worst],
        found=sum(f.number for f in accuse),
        witnesses=tuple(map(witness_of, accuse[:WITNESSES_MAX])),
        noted=sum(f.number for f in notes),
        notes=tuple(map(witness_of, notes[:WITNESSES_MAX])),
        **({} if examined is None else examined._asdict()),
        replayed=sum(f.number for f in notes if f.kind == "replayed"),
    )
