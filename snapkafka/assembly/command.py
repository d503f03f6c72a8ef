"""`python -m snapkafka.assembly`: options in, JSON out, an exit status.

Progress goes to standard error, one line each; the result, or the error, goes as JSON to standard output, or to the
file that `--result` names (spark-submit makes one stream of the two).
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

import msgspec

from snapkafka.errors import EXIT_NOT_GOOD, EXIT_OK, InternalError, OutputError, SnapkafkaError
from snapkafka.runtime.signals import Interrupted, exit_status

from .command_line import parser, spec_of
from .failures import Failures
from .job import Job
from .pipeline import assemble, verify
from .progress import LINE_EVERY_S, Working, as_line, now_and_then
from .spec import JobError, JobReport


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; an error becomes one line, a line of advice, and an exit status."""
    options = parser().parse_args(arguments)
    # We report an unavailable broker ourselves, once.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    output = sys.stdout
    try:
        with _output(options.result) as output:
            return _run(options, output)
    except OutputError as error:
        return _failed(error, options, output)
    except Interrupted as interrupted:
        return _interrupted(interrupted.number)


def _run(options: argparse.Namespace, output: TextIO) -> int:
    from .spark.interrupts import interrupted_by
    from .spark.spark_errors import translate

    try:
        spec = spec_of(options)
        progress = _print_progress if options.progress else now_and_then(_print_line, LINE_EVERY_S)
        job = Job(spec=spec, notify=_print_line, progress=progress)
        failures = Failures(_print_line)
        results = verify(job, failures) if spec.manifests else assemble(job, failures)
    except Exception as error:
        if (number := interrupted_by()) is not None:
            return _interrupted(number)
        if isinstance(error, SnapkafkaError):
            return _failed(error, options, output)
        foreseen = translate(error)
        if foreseen is None:
            _print_line(traceback.format_exc())
        unforeseen = InternalError(f"{type(error).__name__}: {error}"[:300])
        return _failed(foreseen or unforeseen, options, output)
    failed = tuple(JobError.of(error, name) for name, error in failures.found.items())
    _print(JobReport(snapshots=tuple(results), failed=failed), output)
    if failed:
        return failed[0].exit_status
    return EXIT_OK if all(result.good for result in results) else EXIT_NOT_GOOD


@contextmanager
def _output(path: str) -> Iterator[TextIO]:
    """Open the output for the result, before the work, so that the work is not done in vain.

    Raises:
        OutputError: it cannot be written.
    """
    if not path:
        yield sys.stdout
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(path).open("w", encoding="utf-8"))
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror}",
                hint="check the path and its rights",
                field="result",
            ) from error
        yield file


def _failed(error: SnapkafkaError, options: argparse.Namespace, output: TextIO) -> int:
    _print(JobReport(error=JobError.of(error)), output)
    if not options.progress:  # else the caller prints the error
        _print_line(f"error: {_one_line(error.message)}\n       {_one_line(error.hint)}")
    return error.exit_status


def _interrupted(number: int) -> int:
    _print_line(f"interrupted by {signal.Signals(number).name}; nothing half-written is left")
    return exit_status(number)


def _print_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print_progress(working: Working) -> None:
    _print_line(as_line(working))


def _print(report: JobReport, output: TextIO) -> None:
    print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode(), file=output)


def _one_line(text: str) -> str:
    return " ".join(text.split())
