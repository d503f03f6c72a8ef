"""All checks of the log on a list of records, and what they come to: V1 to V5 in their plainest form.

The simulator runs these on its logs, and Spark runs the same checks on Kafka's
(`snapkafka.assembly.spark.verify.rules`); a test compares the two, kind by kind, on random damage. What this module
finds is all that Spark can find: an engine without Spark needs nothing else. None of the checks raises.

A new kind of finding is an entry of `kinds.KINDS`, a function of its name in the module of its check, and a `Rule` of
its name in the module of that name in `snapkafka.assembly.spark.verify`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Final, NamedTuple

from snapkafka.protocol.records import TopicPartition

from . import v1_colour, v2_receipt, v3_state, v4_channels, v5_cause
from .coverage import Examined, on_list
from .external import ExternalTopic, OutsideSender, external_topics, outside_senders
from .kinds import KINDS, OF_STATE
from .log import LogRecord
from .ranges import OF_BOUNDS, bounds_findings
from .sequences import CutLog
from .v3_state import StateFacts, StillThere
from .view import CutView
from .witness import CheckOutcome, Finding, outcome

#: The checks that need nothing but the log, and the module of each.
LOG_CHECKS: Final[Mapping[str, ModuleType]] = MappingProxyType(
    {"V1": v1_colour, "V2": v2_receipt, "V3": v3_state, "V4": v4_channels, "V5": v5_cause}
)


class Checked(NamedTuple):
    """The outcomes of checks; the facts about the changelogs; the inputs with external records; the outsiders whose
    records were received."""

    outcomes: list[CheckOutcome]
    held: dict[TopicPartition, StateFacts]
    external: tuple[ExternalTopic, ...] = ()
    outside: tuple[OutsideSender, ...] = ()


def run(log: CutLog, still_there: StillThere | None = None) -> Checked:
    """Run V1 to V5. If no record shows its cause, V5 is not run: it would pass, and nothing would have been checked.

    Args:
        log: the records, with the bounds of the log.
        still_there: checks the log once more, for V3; None: the log does not change.
    """
    view = log.view
    wanted = LOG_CHECKS if _reports_causes(view, log.records) else LOG_CHECKS.keys() - {"V5"}
    found = [finding for check in wanted for finding in find(check, log, still_there)]
    of_bounds, counts = bounds_findings(view)
    return Checked(
        outcomes_of(
            (*of_bounds, *found),
            counts + Counter(finding.kind for finding in found),
            on_list(view, log.records),
            causes="V5" in wanted,
        ),
        v3_state.facts_by_partition(log),
        tuple(external_topics(view, log.records)),
        tuple(outside_senders(view, log.records)),
    )


def find(check: str, log: CutLog, still_there: StillThere | None = None) -> list[Finding]:
    """Return the findings of a check in the records, by `Finding.order`; without those of the bounds of the log."""
    if check == "V3":
        found = v3_state.find(log, still_there)
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


def outcomes_of(
    first: Iterable[Finding], counts: Mapping[str, int], examined: Mapping[str, Examined], *, causes: bool
) -> list[CheckOutcome]:
    """Return the outcomes of V1 to V5.

    Args:
        first: findings, at least the first 20 of each kind.
        counts: the number of findings of each kind.
        examined: what each check has read.
        causes: whether any record names its cause; else V5 has no outcome.
    """
    first = list(first)
    return [
        outcome(check, first, counts, examined.get(check)) for check in LOG_CHECKS if causes or check != "V5"
    ]


def _reports_causes(view: CutView, records: Iterable[LogRecord]) -> bool:
    """Return whether some record names its cause, or there is none of the snapshot's processes."""
    of_ours = False
    for record in records:
        if record.cause is not None:
            return True
        of_ours = of_ours or (record.process in view.processes and not record.marker)
    return not of_ours
