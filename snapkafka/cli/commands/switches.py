"""Commands for a namespace as a whole: `pause`, `resume`, `retire` and `checkpoint`."""

from __future__ import annotations

from typing import Annotated

import typer

from snapkafka import ops
from snapkafka.cli.options import AsJson, Bootstrap, Namespace
from snapkafka.cli.present.printed import print_checkpointed, print_switched
from snapkafka.cli.running import connect, console, print_json, run
from snapkafka.ops.checkpointing import KEEP_MS
from snapkafka.units import duration_ms, wall_ms


def pause(bootstrap: Bootstrap = None, namespace: Namespace = "", as_json: AsJson = False) -> None:
    """Stop taking snapshots until `resume`.

    It applies to every service; none restarts.
    """
    _print_switched(run(lambda: ops.pause(connect(bootstrap), namespace), as_json=as_json), as_json=as_json)


def resume(bootstrap: Bootstrap = None, namespace: Namespace = "", as_json: AsJson = False) -> None:
    """Allow snapshots again after `pause`."""
    _print_switched(run(lambda: ops.resume(connect(bootstrap), namespace), as_json=as_json), as_json=as_json)


def retire(
    app_id: Annotated[str, typer.Option("--app", metavar="APP", help="App to retire.")],
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    as_json: AsJson = False,
) -> None:
    """Remove an app for good.

    No snapshot waits for its inputs any longer.
    """
    found = run(lambda: ops.retire(connect(bootstrap), namespace, app_id), as_json=as_json)
    _print_switched(found, as_json=as_json)


def checkpoint(
    keep: Annotated[
        str,
        typer.Option("--keep", metavar="TIME", help="Leave records younger than TIME: 1h, 2d, 90 (minutes)."),
    ] = f"{KEEP_MS // 60_000}min",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    as_json: AsJson = False,
) -> None:
    """Trim the ledger.

    Old records that still matter are rewritten at its end; then all of them are deleted.
    """
    found = run(
        lambda: ops.checkpoint(
            connect(bootstrap),
            namespace,
            now_ms=wall_ms(),
            keep_ms=duration_ms(keep, "--keep", bare="min", zero=True),
        ),
        as_json=as_json,
    )
    if as_json:
        print_json(found)
    else:
        print_checkpointed(console, found)


def _print_switched(found: ops.Switched, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_switched(console, found)
