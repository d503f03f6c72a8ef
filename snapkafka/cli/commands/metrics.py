"""`snapkafka metrics`: the freshness of a namespace's snapshots, for Prometheus' textfile collector."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.options import AsJson, Bootstrap, Namespace
from snapkafka.cli.running import connect, print_json, run
from snapkafka.errors import OutputError


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
        _replace(Path(output), text)
    else:
        print(text, end="")


def _replace(path: Path, text: str) -> None:
    """Write a file so that readers find either the old one or the new one."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error
