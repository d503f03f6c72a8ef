"""All checks of the log, and what they come to: V1 to V5.

The simulator and both engines run these; the engines differ in who reads the log and summarises it (`stretch`). None of
the checks raises.

A new kind of finding is an entry of `kinds.KINDS`, and a function of its name in the module of its check; if records
break it that no rule has accused before, `summary` keeps them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Final, NamedTuple

from snapkafka.manifest_entries import CheckEntry, ExternalEntry, OutsiderEntry
from snapkafka.protocol.records import TopicPartition

from . import ranges, v1_colour, v2_receipt, v3_state, v4_channels, v5_cause
from .coverage import examined
from .external import external_topics, outside_senders
from .kinds import KINDS, OF_STATE
from .ranges import OF_BOUNDS, bounds_findings
from .sequences import CutLog
from .stretch import Group
from .v3_state import StateFacts
from .view import CutView
from .witness import Finding, outcome

#: The checks that need nothing but the log, and the module of each.
LOG_CHECKS: Final[Mapping[str, ModuleType]] = MappingProxyType(
    {"V1": v1_colour, "V2": v2_receipt, "V3": v3_state, "V4": v4_channels, "V5": v5_cause}
)


class Checked(NamedTuple):
    """The outcomes of checks; the facts about the changelogs; the inputs with external records; the outsiders whose
    records were received."""

    outcomes: list[CheckEntry]
    held: dict[TopicPartition, StateFacts]
    external: tuple[ExternalEntry, ...] = ()
    outside: tuple[OutsiderEntry, ...] = ()


def run(log: CutLog) -> Checked:
    """Run V1 to V5. If no record shows its cause, V5 is not run: it would pass, and nothing would have been checked."""
    view, causes = log.view, _reports_causes(log.view, log.groups)
    first, counts = bounds_findings(view)
    for one in log.stretches.values():
        first += ranges.crowded(one) if one.crowded else ()
    counts = counts + Counter(finding.kind for finding in first if finding.kind.startswith("crowded"))
    found, of_state = v3_state.find(log)
    first += found
    for check in ("V1", "V2", "V4", *(["V5"] if causes else ())):
        found = find(check, log)
        first += found
        counts += Counter(finding.kind for finding in found)
    firsts, read = [group.record for group in log.groups], examined(view, log.groups)
    counts += of_state
    return Checked(
        [outcome(check, first, counts, read[check]) for check in LOG_CHECKS if causes or check != "V5"],
        v3_state.facts_by_partition(log),
        tuple(external_topics(view, firsts)),
        tuple(outside_senders(view, firsts)),
    )


def find(check: str, log: CutLog) -> list[Finding]:
    """Return the findings of a check in the records, by `Finding.order`; without those of the bounds of the log. Of V3
    the first of each kind."""
    if check == "V3":
        found, _ = v3_state.find(log)
    else:
        found = [finding for function in functions(check) for finding in function(log)]
    return sorted(found, key=lambda finding: finding.order)


def functions(check: str) -> list[Callable[[CutLog], Iterable[Finding]]]:
    """Return the functions of V1, V2, V4 or V5, one for each kind that it finds in records."""
    return [getattr(LOG_CHECKS[check], name_of(kind)) for kind in kinds_of(check)]


def kinds_of(check: str) -> list[str]:
    """Return the kinds that a check finds in records."""
    return [kind for kind, it in KINDS.items() if it.check == check and kind not in OF_BOUNDS | OF_STATE]


def name_of(kind: str) -> str:
    """Return the name of the functions that find a kind."""
    return kind.replace("-", "_")


def _reports_causes(view: CutView, groups: Iterable[Group]) -> bool:
    """Return whether some record names its cause, or there is none of the snapshot's processes."""
    of_ours = False
    for group in groups:
        if group.caused:
            return True
        of_ours = of_ours or (group.record.process in view.processes and not group.record.marker)
    return not of_ours
