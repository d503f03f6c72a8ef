"""The end of the job on request: within seconds, in the middle of any work of Spark's, with clean-up.

The main thread unwinds through every `finally`. Threads that wait for Spark's jobs would delay it, so these jobs are
cancelled meanwhile, repeatedly, until no new one starts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from typing import Any, Final, NoReturn

from snapkafka.runtime.child import GRACE_S
from snapkafka.runtime.signals import Interrupted, exit_status, on_ending_signal

PERIOD_S: Final = 0.2

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
    _drop_answer()
    threading.Thread(target=_cancel, args=(number,), daemon=True).start()
    raise Interrupted(number)


def _drop_answer() -> None:
    """Close this thread's connection to the JVM: the answer in flight on it would be taken for that of the next call.
    Py4J opens another one."""
    with contextlib.suppress(Exception):
        _context()._gateway._gateway_client.get_thread_connection().close()


def _cancel(number: int) -> None:
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):
            _context()._active_spark_context.cancelAllJobs()
        time.sleep(PERIOD_S)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # nobody waits to kill us; spark-submit ends when we do
        os._exit(exit_status(number))


def _context() -> Any:
    """Return Spark's context; None if Spark is not loaded."""
    return sys.modules["pyspark"].SparkContext
