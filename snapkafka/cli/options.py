"""Arguments that several commands take, and times as people write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from snapkafka.durations import duration_ms
from snapkafka.errors import BadInputError

__all__ = [
    "AllowUnmatched",
    "Around",
    "AsJson",
    "Avro",
    "Bootstrap",
    "Codecs",
    "Invariants",
    "Isolation",
    "MaxMbS",
    "Namespace",
    "Parameters",
    "SchemaRegistry",
    "Sinks",
    "Sources",
    "Storage",
    "Strict",
    "Ttl",
    "Unpickle",
    "names_in",
    "ttl_ms_of",
]


Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", envvar="SNAPKAFKA_BOOTSTRAP", help="The broker: host:port, several with commas."
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", envvar="SNAPKAFKA_NAMESPACE", help="The systems that are snapshotted together."
    ),
]
Ttl = Annotated[
    str,
    typer.Option(
        "--ttl",
        metavar="TIME",
        help="A snapshot that is not captured by then fails: 5s, 1min; a number alone: milliseconds.",
    ),
]
AllowUnmatched = Annotated[
    bool,
    typer.Option(
        "--allow-unmatched",
        help="Accept rules of --suppress or --mask that match nothing; without it they are an error.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

# How snapshots are assembled and verified.
Storage = Annotated[
    str, typer.Option("--storage", help="Where tables lie; default: where the trigger put them.")
]
Invariants = Annotated[
    list[str] | None,
    typer.Option(
        "--invariants", help="Check these (V6): a folder of *.sql, a file, or a ready-made one; repeatable."
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the invariants; repeatable."),
]
Isolation = Annotated[
    str, typer.Option("--isolation", help="read_uncommitted takes what was aborted for sent.")
]
Sinks = Annotated[
    list[str] | None,
    typer.Option(
        "--sink",
        metavar="GROUP",
        help="A consumer group without snapkafka that writes nothing back to inputs; * for all; repeatable.",
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="TOPIC",
        help="A topic whose external records are no effects of what the apps send; repeatable.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="External records leave a snapshot VERIFIED_OPEN unless declared (--source)."
    ),
]
Codecs = Annotated[
    list[str] | None,
    typer.Option(
        "--codecs",
        metavar="MODULE",
        help="Import it where the data is, for the codecs that it registers with Faust; repeatable.",
    ),
]
Unpickle = Annotated[
    bool, typer.Option("--unpickle", help="Load pickles, which executes whatever they hold.")
]
Avro = Annotated[
    list[str] | None,
    typer.Option(
        "--avro",
        metavar="NAME=FILE",
        help="A schema, by TOPIC-key, TOPIC-value, or its number in a schema registry; repeatable.",
    ),
]
SchemaRegistry = Annotated[
    str,
    typer.Option(
        "--schema-registry",
        metavar="URL",
        envvar="SNAPKAFKA_SCHEMA_REGISTRY",
        show_envvar=True,
        help="Ask it for the schemas whose numbers keys and values begin with.",
    ),
]
Around = Annotated[
    int,
    typer.Option(
        "--around",
        metavar="N",
        help="Assembly keeps so many records of a channel on each side of the cut, for diagrams; 0: none.",
    ),
]
WithInputs = Annotated[
    bool,
    typer.Option(
        "--with-inputs",
        help="Assembly stores external records that are still to be read: a restore does not need the old log then.",
    ),
]
MaxMbS = Annotated[
    float | None,
    typer.Option(
        "--max-mb-s",
        metavar="N",
        help="Read at most so many megabytes a second from each broker; takes the right to set quotas.",
    ),
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
