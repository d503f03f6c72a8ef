"""`snapkafka audit`: the tables of the workers, compared with their changelogs."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from snapkafka import ops
from snapkafka.cli.build import AsJson, printed
from snapkafka.cli.present.layout import Part
from snapkafka.cli.present.printed import count
from snapkafka.cli.progress import print_line, progress_lines
from snapkafka.cli.running import connect, console, run, who
from snapkafka.verbs import Audit, Where

#: So many findings are printed; `--json` has all of them.
SHOWN: Final = 20


def audit(
    at: Where,
    asked: Audit,
    spec: Annotated[ops.JobSpec, ("storage", "unpickle", "engine")],
    as_json: AsJson = False,
) -> None:
    with progress_lines(printed=not as_json) as progress:
        found = run(
            lambda: ops.audit(
                connect(at.bootstrap),
                msgspec.structs.replace(spec, namespace=at.namespace),
                **msgspec.structs.asdict(asked),
                who=who(),
                capturing=progress,
                notify=None if as_json else print_line,
                progress=progress,
            ),
            as_json=as_json,
        )
    printed(found, _print, as_json=as_json, good=found.same)


def _print(found: ops.AuditReport) -> None:
    console.table(
        found.partitions,
        "app",
        "table",
        ("partition", lambda it: "-" if it.partition < 0 else it.partition),
        "keys:,",
        ("result", _result),
    )
    console.note("differs", (it.cause for it in found.findings[:SHOWN]), "red")
    if len(found.findings) > SHOWN:
        console.print(f"and {len(found.findings) - SHOWN:,} more: --json has them")
    unaudited = sum(bool(part.reason) for part in found.partitions)
    verdict: Part = ("are what their changelogs say", "green")
    if not found.partitions:
        verdict = ("were not audited: no app of it has tables", "yellow")
    elif found.findings:
        verdict = (f"differ from their changelogs in {count(len(found.findings), 'key')}", "red")
    elif unaudited:
        verdict = (f"were not all audited: {count(unaudited, 'partition')} left out", "yellow")
    console.print(
        "the tables at snapshot ", (found.snapshot, "bold"), " ", verdict, f" ({found.seconds:.1f} s)"
    )


def _result(part: ops.AuditedPartition) -> str:
    if part.reason:
        return f"not audited: {part.reason}"
    result = [f"{part.differing:,} differ" if part.differing else "same"]
    result += [f"{part.in_progress:,} in progress"] if part.in_progress else []
    result += [f"{part.expired:,} expired"] if part.expired else []
    return ", ".join(result)
