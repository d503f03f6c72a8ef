"""`snapkafka metrics`: the freshness of a namespace's snapshots, for Prometheus' textfile collector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.options import AsJson, Bootstrap, Namespace
from snapkafka.cli.output_file import write_whole
from snapkafka.cli.running import connect, data_output, print_json, run


def metrics(
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    output: Annotated[
        str, typer.Option("--output", metavar="FILE", help="File to replace atomically. Default: print.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Print the age of the latest good snapshot for Prometheus."""
    found = run(lambda: ops.freshness(connect(bootstrap), namespace), as_json=as_json)
    if as_json:
        print_json(found)
        return
    text = ops.exposition(found, namespace)
    if output:
        write_whole(Path(output), text)
    else:
        data_output().write(text)
