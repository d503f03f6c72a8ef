"""All checks of the log, and what they come to: V1 to V5.

The simulator and both engines run these; the engines differ in who reads the log and summarises it (`stretch`). None of
the checks raises.

A new kind of finding is an entry of `kinds.KINDS`, and what the module of its check yields; if records break it that no
rule has accused before, `summary` keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from snapkafka.manifest import CheckEntry, ExternalEntry, OutsiderEntry
from snapkafka.protocol.records import TopicPartition

from . import v1_colour, v2_receipt, v3_state, v4_channels, v5_cause
from .coverage import examined
from .external import external_topics, outside_senders
from .ranges import bounds_findings, crowded
from .sequences import CutLog
from .v3_state import StateFacts
from .witness import Finding, outcome

#: The checks that need nothing but the log, and what each finds in records.
LOG_CHECKS: Final[Mapping[str, Callable[[CutLog], Iterable[Finding]]]] = {
    "V1": v1_colour.find,
    "V2": v2_receipt.find,
    "V3": v3_state.find,
    "V4": v4_channels.find,
    "V5": v5_cause.find,
}


class Checked(NamedTuple):
    """The outcomes of checks; the facts about the changelogs; the inputs with external records; the outsiders whose
    records were received."""

    outcomes: list[CheckEntry]
    held: dict[TopicPartition, StateFacts]
    external: tuple[ExternalEntry, ...] = ()
    outside: tuple[OutsiderEntry, ...] = ()


def run(log: CutLog) -> Checked:
    """Run V1 to V5. If no record shows its cause, V5 is not run: it would pass, and nothing would have been checked."""
    view, read = log.view, examined(log.view, log.groups)
    causes = read["V5"].records > 0 or not read["V1"].records
    checks = [check for check in LOG_CHECKS if causes or check != "V5"]
    findings = bounds_findings(view)
    findings += (it for one in log.stretches.values() if one.crowded for it in crowded(one))
    findings += (it for check in checks for it in LOG_CHECKS[check](log))
    firsts = [group.record for group in log.groups]
    return Checked(
        [outcome(check, findings, read[check]) for check in checks],
        v3_state.facts_by_partition(log),
        tuple(external_topics(view, firsts)),
        tuple(outside_senders(view, firsts)),
    )


def find(check: str, log: CutLog) -> list[Finding]:
    """Return the findings of a check in the records, by `Finding.order`; without those of the bounds of the log."""
    return sorted(LOG_CHECKS[check](log), key=lambda finding: finding.order)
