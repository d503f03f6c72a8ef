"""The job's own command line: its flags, and the file of its options."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from snapkafka.errors import BadInputError

from .spec import OPTIONS, JobSpec, changed

#: The engine of the job as a program of its own (`spark-submit`), where neither a flag nor a file names another.
PROGRAM_ENGINE: Final = "spark"
#: Fields that have a flag under `spark-submit`; the others go into a file (`--spec`).
FLAGS: Final = (
    "bootstrap",
    "namespace",
    "snapshots",
    "manifests",
    "storage",
    "invariants",
    "parameters",
    "engine",
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's own command line."""
    made = argparse.ArgumentParser(
        prog="snapkafka-assembly",
        description="Turn captured snapshots into Parquet tables and prove from the log that they are consistent."
        " The result is printed as JSON.",
    )
    for option in (OPTIONS[name] for name in FLAGS):
        made.add_argument(
            option.flag,
            dest=option.field,
            default=None,
            metavar=option.metavar,
            action="append" if option.many else "store",
            help=option.help,
        )
    made.add_argument(
        "--spec",
        default="",
        metavar="FILE",
        help="Read all options from a JSON object, or from - (standard input); flags override it.",
    )
    made.add_argument("--result", default="", metavar="FILE", help="Write the result to FILE instead.")
    made.add_argument(
        "--progress", action="store_true", help="Print the progress as lines of JSON on standard error."
    )
    return made


def spec_of(given: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> JobSpec:
    """Return the options of a command line: flags, then the file, then variables, then defaults.

    Raises:
        BadInputError: the file cannot be read, or one of its fields is unknown or invalid.
    """
    spec = _read(given.spec) if given.spec else JobSpec(engine=PROGRAM_ENGINE)
    flags = {name: getattr(given, name) for name in FLAGS if getattr(given, name) is not None}
    unset = (option for option in OPTIONS.values() if option.env and not getattr(spec, option.field))
    variables = {option.field: environ[option.env] for option in unset if environ.get(option.env)}
    return changed(spec, **(variables | flags))


class _Named(msgspec.Struct):
    """The engine that a file names; empty: none."""

    engine: str = ""


_SPEC: Final = msgspec.json.Decoder(JobSpec)
_NAMED: Final = msgspec.json.Decoder(_Named)


def _read(path: str) -> JobSpec:
    try:
        text = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return changed(_SPEC.decode(text), engine=_NAMED.decode(text).engine or PROGRAM_ENGINE)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}", field="spec") from error
    except msgspec.DecodeError as error:
        raise BadInputError(
            f"{path}: {error}", hint="docs/reference/settings.md lists its fields", field="spec"
        ) from None
