"""`python -m snapkafka.assembly`: options in, JSON out, an exit status.

Progress goes to standard error, one line each; the result, or the error, goes as JSON to standard output, or to the
file that `--result` names (spark-submit makes one stream of the two).
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TextIO

import msgspec

from snapkafka.errors import EXIT_NOT_GOOD, EXIT_OK, BadInputError, OutputError, SnapkafkaError
from snapkafka.runtime.extras import require_engine
from snapkafka.runtime.signals import Interrupted, exit_status

from .interrupts import interrupted_by
from .job import Job
from .pipeline import assemble, verify
from .spark_errors import as_ours
from .spec import OPTIONS, JobError, JobReport, JobSpec, changed

#: The engine of the job as a program of its own (`spark-submit`), where neither a flag nor a file names another.
PROGRAM_ENGINE: Final = "spark"
#: Fields that have a flag under `spark-submit`; the others go into a file (`--spec`).
FLAGS: Final = (
    *("bootstrap", "namespace", "snapshots", "manifests", "storage", "invariants", "parameters", "engine"),
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's own command line."""
    made = argparse.ArgumentParser(
        prog="snapkafka-assembly",
        description="Turn captured snapshots into Parquet tables and prove from the log that they are consistent."
        " The result is printed as JSON.",
    )
    for option in (OPTIONS[name] for name in FLAGS):
        action = "append" if option.many else "store"
        made.add_argument(
            option.flag, dest=option.field, metavar=option.metavar, action=action, help=option.help
        )
    spec = "Read all options from a JSON object; flags override it."
    made.add_argument("--spec", default="", metavar="FILE", help=spec)
    made.add_argument("--result", default="", metavar="FILE", help="Write the result to FILE instead.")
    made.add_argument("--quiet", action="store_true", help="Print no error: the result has it.")
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


def _read(path: str) -> JobSpec:
    try:
        found = msgspec.json.decode(Path(path).read_bytes(), type=dict)
        return msgspec.convert({"engine": PROGRAM_ENGINE, **found}, JobSpec)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}", field="spec") from error
    except msgspec.MsgspecError as error:
        raise BadInputError(
            f"{path}: {error}", hint="docs/reference/settings.md lists its fields", field="spec"
        ) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; an error becomes one line, a line of advice, and an exit status."""
    options = parser().parse_args(arguments)
    # We report an unavailable broker ourselves, once.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        output = sys.stdout
        try:  # before the work, so that it is not done in vain
            if options.result:
                output = stack.enter_context(Path(options.result).open("w", encoding="utf-8"))
            return _run(options, output)
        except OSError as error:
            what = f"{options.result} cannot be written: {error.strerror}"
            failed = OutputError(what, hint="check the path and its rights", field="result")
            return _failed(failed, options, output)
        except Interrupted as interrupted:
            return _interrupted(interrupted.number)


def _run(options: argparse.Namespace, output: TextIO) -> int:
    try:
        spec = spec_of(options)
        require_engine(spec.engine)  # before a broker is asked
        job = Job(spec=spec, notify=_print_line)
        results = verify(job) if spec.manifests else assemble(job)
    except Exception as error:
        if (number := interrupted_by()) is not None:
            return _interrupted(number)
        return _failed(as_ours(error, _print_line), options, output)
    failed = tuple(JobError.of(error, name) for name, error in job.failed.items())
    _print(JobReport(snapshots=tuple(results), failed=failed), output)
    if failed:
        return failed[0].exit_status
    return EXIT_OK if all(result.good for result in results) else EXIT_NOT_GOOD


def _failed(error: SnapkafkaError, options: argparse.Namespace, output: TextIO) -> int:
    _print(JobReport(error=JobError.of(error)), output)
    if not options.quiet:
        message, hint = (" ".join(text.split()) for text in (error.message, error.hint))
        _print_line(f"error: {message}\n       {hint}")
    return error.exit_status


def _interrupted(number: int) -> int:
    _print_line(f"interrupted by {signal.Signals(number).name}; nothing half-written is left")
    return exit_status(number)


def _print_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(report: JobReport, output: TextIO) -> None:
    print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode(), file=output)
