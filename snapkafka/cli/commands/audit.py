"""`snapkafka audit`: the tables of the workers, compared with their changelogs."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from snapkafka import ops
from snapkafka.cli.build import READING, AsJson, printed
from snapkafka.cli.present.layout import Part, Table
from snapkafka.cli.present.printed import count
from snapkafka.cli.progress import job_log, progress_lines
from snapkafka.cli.running import connect, console, run, who
from snapkafka.verbs import Audit, Where

#: So many findings are printed; `--json` has all of them.
SHOWN: Final = 20


def audit(
    at: Where,
    asked: Audit,
    spec: Annotated[ops.JobSpec, ("storage", *READING)],
    as_json: AsJson = False,
) -> None:
    with progress_lines(printed=not as_json) as capturing, job_log(printed=not as_json) as log:
        found = run(
            lambda: ops.audit(
                connect(at.bootstrap),
                msgspec.structs.replace(spec, namespace=at.namespace),
                **msgspec.structs.asdict(asked),
                who=who(),
                capturing=capturing,
                notify=log.print_line,
                progress=log.progress,
            ),
            as_json=as_json,
        )
    printed(found, _print, as_json=as_json, good=found.same)


def _print(found: ops.AuditReport) -> None:
    rows = Table("app", "table", "partition", "keys", "result", right=("partition", "keys"))
    for part in found.partitions:
        partition = "-" if part.partition < 0 else f"{part.partition}"
        rows.add(part.app, part.table, partition, f"{part.keys:,}", _result(part))
    console.table(rows)
    for finding in found.findings[:SHOWN]:
        console.print(("differs", "red"), f": {finding.cause}")
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


def _result(part: ops.AuditedPartition) -> list[Part]:
    if part.reason:
        return [(f"not audited: {part.reason}", "yellow")]
    left_out = [
        f"{keys:,} {what}"
        for keys, what in ((part.in_progress, "in progress"), (part.expired, "expired"))
        if keys
    ]
    result: Part = (f"{part.differing:,} differ", "red") if part.differing else ("same", "green")
    return [result, *(f", {item}" for item in left_out)]
