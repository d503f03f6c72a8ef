"""How a job is interrupted."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import NoReturn

from snapkafka.runtime.signals import Interrupted

_numbers: list[int] = []


def interrupted_by() -> int | None:
    """Return the signal that asked the job to end; later failures are consequences of it."""
    return _numbers[0] if _numbers else None


def interrupt(number: int) -> NoReturn:
    """Let the main thread unwind through every `finally`, in the middle of any work of Spark's."""
    _numbers.append(number)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # calls that fail now are expected to
    with contextlib.suppress(Exception):  # Spark may not run
        context = sys.modules["pyspark"].SparkContext
        # The answer in flight would be taken for that of the next call. Py4J opens another connection.
        context._gateway._gateway_client.get_thread_connection().close()
        context._active_spark_context.cancelAllJobs()  # else the clean-up waits for what they hold
    raise Interrupted(number)
