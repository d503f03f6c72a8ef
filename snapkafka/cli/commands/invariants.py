"""`snapkafka invariants`: the invariants that snapshots evaluate, and the snapshots that first violate them."""

from __future__ import annotations

from collections.abc import Sequence

from snapkafka import ops
from snapkafka.cli.build import AsJson, printed
from snapkafka.cli.present.printed import coloured
from snapkafka.cli.running import connect, console, run
from snapkafka.ops import Evaluation, Holding, InvariantHistory
from snapkafka.units import utc_time
from snapkafka.verbs import Invariants, Where

#: How many of the newest snapshots of a history are printed; `--json` has them all.
SHOWN = 20


def invariants(at: Where, asked: Invariants, as_json: AsJson = False) -> None:
    found = run(lambda: ops.invariants(connect(at.bootstrap), at.namespace, asked.name), as_json=as_json)
    printed(
        found,
        (lambda found: _print_history(found[0])) if asked.name else _print_all,
        as_json=as_json,
        data=lambda found: {"invariants": [it.details() if asked.name else it.info() for it in found]},
    )


def _print_all(found: Sequence[InvariantHistory]) -> None:
    if not found:
        console.print("No snapshot evaluates an invariant. Add some by `snapkafka keep --invariants DIR`.")
        return
    console.table(
        found,
        "invariant=name",
        ("state", _state),
        ("rows", lambda it: it.last and it.last.found),
        ("last held in", lambda it: it.last_ok.id if it.last_ok else "none"),
        ("first violated in", lambda it: it.broke.id if it.broke and it.violated else ""),
    )


def _print_history(found: InvariantHistory) -> None:
    last, broke = found.last, found.broke
    console.print("invariant ", (found.name, "bold"), "  ", coloured(_state(found)))
    if broke is not None:
        _print_rows("first violated in", broke)
    if last is not None and found.violated and last != broke:
        _print_rows("last violated in", last)
    if found.last_ok is not None:
        console.print(f"last held in {found.last_ok.id}, {utc_time(found.last_ok.triggered_ms)} UTC")
    for item in found.other_query:
        console.print(f"{item.id} evaluated another query, so its rows are not comparable")
    console.table(
        found.evaluations[-SHOWN:],
        "snapshot=id",
        ("when (UTC)", lambda it: utc_time(it.triggered_ms)),
        "state=holding",
        "rows=found",
    )


def _print_rows(title: str, item: Evaluation) -> None:
    console.print(f"{title} {item.id}, {utc_time(item.triggered_ms)} UTC, rows: {item.found:,}")
    if item.unreadable:
        console.print(f"  its rows cannot be read: {item.unreadable}")
    for row in item.rows:
        console.print(f"  {row.what}")
        if row.topic and row.offset >= 0:
            console.print(f"    causes: snapkafka trace {row.topic} {row.partition} {row.offset}")


def _state(found: InvariantHistory) -> str:
    since = found.not_evaluated_since
    return (
        found.state
        if found.state is not Holding.UNPROVEN or since is None
        else f"not evaluated since {since.id}"
    )
