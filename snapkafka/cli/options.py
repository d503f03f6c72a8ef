"""Arguments that several commands take, and times as people write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from snapkafka.errors import BadInputError
from snapkafka.units import duration_ms

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="SNAPKAFKA_BOOTSTRAP",
        help="Broker addresses, separated by commas.",
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        metavar="NAME",
        envvar="SNAPKAFKA_NAMESPACE",
        help="Namespace: the `namespace=` of snapkafka.install.",
    ),
]
Ttl = Annotated[
    str, typer.Option("--ttl", metavar="TIME", help="Fail if not captured within TIME: 5s, 1min, 500 (ms).")
]
AllowUnmatched = Annotated[
    bool, typer.Option("--allow-unmatched", help="Accept rules of --suppress or --mask that match nothing.")
]
Stored = Annotated[
    str,
    typer.Option(
        "--storage", metavar="URI", help="Directory or URI of the tables. Default: from the ledger."
    ),
]
ManifestPath = Annotated[
    str, typer.Option("--manifest", metavar="PATH", help="Path of the manifest: no broker, no --storage.")
]
Suppress = Annotated[
    str, typer.Option("--suppress", metavar="FILE", help="TOML file with keys that stay erased.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan, or why it is refused; change nothing.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
KeepLast = Annotated[
    int | None, typer.Option("--keep-last", metavar="N", min=0, help="Keep the newest N snapshots.")
]
KeepDays = Annotated[
    float | None,
    typer.Option("--keep-days", metavar="D", min=0, help="Keep snapshots assembled in the last D days."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

# How snapshots are assembled and verified.
Storage = Annotated[
    str,
    typer.Option(
        "--storage", metavar="URI", help="Directory or URI of the tables. Default: from the trigger."
    ),
]
Invariants = Annotated[
    list[str] | None,
    typer.Option(
        "--invariants", metavar="SQL", help="Invariants (V6): *.sql file, folder or built-in. Repeatable."
    ),
]
Parameters = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Parameter of the SQL. Repeatable.")
]
Isolation = Annotated[
    str,
    typer.Option("--isolation", metavar="LEVEL", help="read_uncommitted also counts aborted transactions."),
]
Sinks = Annotated[
    list[str] | None,
    typer.Option(
        "--sink", metavar="GROUP", help="Group that writes nothing back to inputs, or *. Repeatable."
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source", metavar="TOPIC", help="Topic fed from outside, not by readers of the apps' output."
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="VERIFIED_OPEN for external records without a --source.")
]
Codecs = Annotated[
    list[str] | None,
    typer.Option("--codecs", metavar="MODULE", help="Module that registers Faust codecs. Repeatable."),
]
Unpickle = Annotated[
    bool, typer.Option("--unpickle", help="Decode pickles. Unsafe: this runs code that they contain.")
]
Avro = Annotated[
    list[str] | None,
    typer.Option(
        "--avro", metavar="NAME=FILE", help="Schema of TOPIC-key, TOPIC-value or a number. Repeatable."
    ),
]
SchemaRegistry = Annotated[
    str,
    typer.Option(
        "--schema-registry",
        metavar="URL",
        envvar="SNAPKAFKA_SCHEMA_REGISTRY",
        show_envvar=True,
        help="Schema registry for Avro data in its wire format.",
    ),
]
Around = Annotated[
    int,
    typer.Option("--around", metavar="N", help="Keep N records per channel and side of the cut, to draw it."),
]
WithInputs = Annotated[
    bool, typer.Option("--with-inputs", help="Store unread external records: restore without the log.")
]


def names_in(given: Iterable[str]) -> list[str]:
    """Split names that are separated by commas.

    Raises:
        BadInputError: a name is empty: an unset variable would mean all.
    """
    names = [name.strip() for text in given for name in text.split(",")]
    if not all(names):
        raise BadInputError("a name is empty", hint="write --apps a,b, or leave it out for all")
    return names


def ttl_ms_of(text: str) -> int:
    """Read `--ttl`, in milliseconds, which is also the unit of a plain number."""
    return duration_ms(text, "--ttl", bare="ms")
