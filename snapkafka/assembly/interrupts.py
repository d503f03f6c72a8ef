"""The end of the job on request: within seconds, in the middle of any work of Spark's, with clean-up: the main thread
unwinds through every `finally`."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import NoReturn

from snapkafka.runtime.signals import Interrupted, on_ending_signal

_numbers: list[int] = []


def interrupted_by() -> int | None:
    """Return the signal that asked the job to end; later failures are consequences of it."""
    return _numbers[0] if _numbers else None


def interruptible() -> None:
    """Raise `Interrupted` in the main thread at the first signal that is to end the job."""
    on_ending_signal(_interrupt)


def _interrupt(number: int) -> NoReturn:
    _numbers.append(number)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # calls that fail now are expected to
    with contextlib.suppress(Exception):  # Spark may not run
        context = sys.modules["pyspark"].SparkContext
        # The answer in flight would be taken for that of the next call. Py4J opens another connection.
        context._gateway._gateway_client.get_thread_connection().close()
        context._active_spark_context.cancelAllJobs()  # else the clean-up waits for what they hold
    raise Interrupted(number)
