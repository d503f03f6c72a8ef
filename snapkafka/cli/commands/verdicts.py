"""`snapkafka verdicts`: a line of JSON for each verdict, for files, pipes and Kafka Connect."""

from __future__ import annotations

from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.options import Bootstrap, Namespace
from snapkafka.cli.running import connect, print_json, run


def verdicts(
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    start: Annotated[
        int, typer.Option("--from", metavar="OFFSET", min=0, help="First offset of the ledger to read.")
    ] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue with new verdicts, until Ctrl-C.")
    ] = False,
) -> None:
    """Print verdicts as lines of JSON.

    They come from the ledger; --follow continues with new ones.
    """

    async def lines() -> None:
        async for found in ops.verdicts(connect(bootstrap), namespace, start=start, live=follow):
            print_json(found, in_lines=True)

    run(lines, as_json=True, in_lines=True)
