"""`snapkafka audit`: the tables of the workers, compared with their changelogs."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from snapkafka import ops
from snapkafka.cli.job_options import READING, Spec, job_options
from snapkafka.cli.options import AsJson, Bootstrap, Namespace, Ttl, names_in, ttl_ms_of
from snapkafka.cli.present.layout import Part, Table
from snapkafka.cli.present.printed import count
from snapkafka.cli.progress import job_log, progress_lines
from snapkafka.cli.running import connect, console, print_json, run, who
from snapkafka.errors import EXIT_NOT_GOOD

#: So many findings are printed; `--json` has all of them.
SHOWN: Final = 20


@job_options("storage", *READING)
def audit(
    snapshot: Annotated[
        str,
        typer.Argument(metavar="ID", help="One that was triggered for an audit. Default: trigger one."),
    ] = "",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    apps: Annotated[
        list[str] | None,
        typer.Option("--apps", metavar="APP", help="Only these apps, comma-separated. Repeatable."),
    ] = None,
    ttl: Ttl = "5s",
    spec: Spec = ops.JobSpec,
    as_json: AsJson = False,
) -> None:
    """Compare the tables of running workers with their changelogs.

    Finds values that were changed in place and never assigned, which every recovery loses.
    """
    with progress_lines(printed=not as_json) as capturing, job_log(printed=not as_json) as log:
        found = run(
            lambda: ops.audit(
                connect(bootstrap),
                spec(namespace=namespace),
                snapshot=snapshot,
                apps=names_in(apps or ()),
                who=who(),
                ttl_ms=ttl_ms_of(ttl),
                capturing=capturing,
                notify=log.print_line,
                progress=log.progress,
            ),
            as_json=as_json,
        )
    if as_json:
        print_json(found)
    else:
        _print(found)
    if not found.same:
        raise typer.Exit(EXIT_NOT_GOOD)


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
