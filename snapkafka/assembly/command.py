"""`python -m snapkafka.assembly`: options in, JSON out, an exit status.

Progress goes to standard error, one line each; the result, or the error, goes as JSON to standard output, or to the
file that `--result` names (spark-submit makes one stream of the two).
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from snapkafka.errors import BadInputError, OutputError
from snapkafka.runtime.extras import require_engine
from snapkafka.runtime.signals import Interrupted, exit_status

from .interrupts import interrupted_by
from .job import Job
from .pipeline import assemble, verify
from .spark_errors import as_ours
from .spec import OPTIONS, JobError, JobReport, JobSpec

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
    fields = {"engine": PROGRAM_ENGINE}
    fields |= {it.field: environ[it.env] for it in OPTIONS.values() if environ.get(it.env)}
    flags = {name: getattr(given, name) for name in FLAGS if getattr(given, name) is not None}
    try:
        found = msgspec.json.decode(Path(given.spec).read_bytes(), type=dict) if given.spec else {}
        return msgspec.convert(fields | found | flags, JobSpec)
    except OSError as error:
        raise BadInputError(f"{given.spec} cannot be read: {error.strerror}", field="spec") from error
    except msgspec.MsgspecError as error:
        raise BadInputError(
            f"{given.spec}: {error}", hint="docs/reference/settings.md lists its fields", field="spec"
        ) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; an error becomes one line, a line of advice, and an exit status."""
    options = parser().parse_args(arguments)
    # We report an unavailable broker ourselves, once.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        if options.result:
            Path(options.result).write_text("")  # before the work, so that it is not done in vain
        report = _done(options)
        _print(report, options.result)
    except OSError as error:
        what = f"{options.result} cannot be written: {error.strerror}"
        failed = OutputError(what, hint="check the path and its rights", field="result")
        report = JobReport(error=JobError.of(failed))
        _print(report)
    except Interrupted as interrupted:
        _print_line(f"interrupted by {interrupted.number.name}; nothing half-written is left")
        return exit_status(interrupted.number)
    if report.error is not None and not options.quiet:
        message, hint = (" ".join(text.split()) for text in (report.error.message, report.error.hint))
        _print_line(f"error: {message}\n       {hint}")
    return report.exit_status


def _done(options: argparse.Namespace) -> JobReport:
    try:
        spec = spec_of(options)
        require_engine(spec.engine)  # before a broker is asked
        job = Job(spec=spec, notify=_print_line)
        results = verify(job) if spec.manifests else assemble(job)
    except Exception as error:
        if (number := interrupted_by()) is not None:
            raise Interrupted(number) from error
        return JobReport(error=JobError.of(as_ours(error, _print_line)))
    failed = tuple(JobError.of(error, name) for name, error in job.failed.items())
    return JobReport(snapshots=tuple(results), failed=failed)


def _print_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(report: JobReport, result: str = "") -> None:
    text = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    if result:
        Path(result).write_text(f"{text}\n", encoding="utf-8")
    else:
        print(text)
