"""The arguments of the job."""

from __future__ import annotations

import argparse
import os

from snapkafka.checks.invariants import ready_made
from snapkafka.checks.ranges import TAIL_MAX

from .cluster import AROUND_RECORDS, DEFAULT_ISOLATION, ISOLATIONS


def parser() -> argparse.ArgumentParser:
    environ = os.environ
    made = argparse.ArgumentParser(
        prog="snapkafka-assembly",
        description="Turn captured snapshots into Parquet tables and prove from the log that they are consistent.",
    )
    add = made.add_argument
    add("--bootstrap", default=environ.get("SNAPKAFKA_BOOTSTRAP", ""), help="the broker: host:port[,...]")
    add("--namespace", default=environ.get("SNAPKAFKA_NAMESPACE", ""), help="whose ledger it is")
    add(
        "--snapshot",
        action="append",
        default=[],
        metavar="ID",
        help="id, epoch or latest; repeatable",
    )
    add("--storage", default="", help="where tables go; default: where the trigger put them")
    either = made.add_mutually_exclusive_group()
    either.add_argument(
        "--invariants",
        action="append",
        default=[],
        metavar="DIR",
        help=f"check these (V6): a folder of *.sql, a file, or one of {', '.join(ready_made())}; repeatable",
    )
    either.add_argument(
        "--ask",
        action="append",
        default=[],
        metavar="DIR",
        help="report whether these hold, and leave them out of checks and verdict; repeatable",
    )
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the invariants")
    add(
        "--isolation",
        choices=ISOLATIONS,
        default="",
        help=f"read_uncommitted takes what was aborted for sent; else {DEFAULT_ISOLATION}, or that of its manifest",
    )
    add(
        "--codecs",
        action="append",
        default=[],
        metavar="MODULE",
        help="import it where the data is, for the codecs that it registers with Faust; repeatable",
    )
    add("--unpickle", action="store_true", help="load pickles, which executes whatever they hold")
    add(
        "--avro",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="a schema, by TOPIC-key, TOPIC-value, or its number in a schema registry; repeatable",
    )
    add(
        "--schema-registry",
        default=environ.get("SNAPKAFKA_SCHEMA_REGISTRY", ""),
        metavar="URL",
        help="ask it for the schemas whose numbers keys and values begin with",
    )
    add(
        "--tail-max",
        type=int,
        default=TAIL_MAX,
        metavar="N",
        help="offsets to look at past the snapshot's ends",
    )
    add(
        "--around",
        type=int,
        default=AROUND_RECORDS,
        metavar="N",
        help="records of a channel to keep on each side of the cut, for pictures; 0: none",
    )
    add(
        "--with-inputs",
        action="store_true",
        help="store external records that are still to be read, for a restore without the old log",
    )
    add(
        "--sink",
        action="append",
        default=[],
        metavar="GROUP",
        help="a consumer group without snapkafka that writes nothing back to inputs; * for all; repeatable",
    )
    add(
        "--source",
        action="append",
        default=[],
        metavar="TOPIC",
        help="a topic whose external records are no effects of what the apps send; repeatable",
    )
    add(
        "--strict",
        action="store_true",
        help="external records leave a snapshot open unless declared (--source)",
    )
    add("--verify-only", action="store_true", help="verify again, from a manifest and the log alone")
    add(
        "--manifest",
        action="append",
        default=[],
        metavar="PATH",
        help="with --verify-only; repeatable",
    )
    add("--tables", action="store_true", help="with --verify-only: compare the stored tables with the log")
    add("--record", action="store_true", help="with --verify-only: write the verdict to the ledger")
    add("--ui", action="store_true", help="serve Spark's web page while it runs")
    add("--json", action="store_true", help="print the result as JSON")
    add("--result", default="", metavar="FILE", help="write the result to this file, not to standard output")
    add("--progress", action="store_true", help="print its progress as lines of JSON, on standard error")
    return made
