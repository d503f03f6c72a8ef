"""How the job ends when it is asked to: in the middle of whatever Spark does, within seconds, with things put away.

Main unwinds from where it is, through every `finally`. Threads that wait for Spark's jobs would hold it up, so these
jobs are cancelled meanwhile, again and again, until nothing is begun any more.
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
from snapkafka.runtime.interrupts import Interrupted, exit_status, on_ending_signal

__all__ = ["interrupted_by", "interruptible", "interruptible_again"]

PERIOD_S: Final = 0.2

_numbers: list[int] = []
_installed: list[bool] = []


def interrupted_by() -> int | None:
    """The signal that asked the job to end; what fails after that fails because of it."""
    return _numbers[0] if _numbers else None


def interruptible() -> None:
    """Raise `Interrupted` in the main thread at the first signal that is to end the job."""
    on_ending_signal(_interrupt)
    _installed.append(True)


def interruptible_again() -> None:
    """The same once more, where it was asked for: Spark takes Ctrl-C for itself when it starts."""
    if _installed and not _numbers:
        interruptible()


def _interrupt(number: int) -> NoReturn:
    _numbers.append(number)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # calls that fail now are expected to
    _drop_answer()
    threading.Thread(target=_cancel, args=(number,), daemon=True).start()
    raise Interrupted(number)


def _drop_answer() -> None:
    """Close this thread's connection to the JVM: the answer that is under way on it would be taken for that of the next
    call. Py4J opens another one."""
    with contextlib.suppress(Exception):
        gateway = _context()._gateway
        gateway._gateway_client.get_thread_connection().close()


def _cancel(number: int) -> None:
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):
            _context()._active_spark_context.cancelAllJobs()
        time.sleep(PERIOD_S)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # nobody waits to kill us; spark-submit ends when we do
        os._exit(exit_status(number))


def _context() -> Any:
    """Spark's context, where Spark is loaded at all."""
    return sys.modules["pyspark"].SparkContext
