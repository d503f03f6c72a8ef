"""The job as a process: how it starts, what it prints, and how it ends, also on request.

Started by hand it runs in a child process (`runtime.child`), so that nothing of it is left however it ends, least of
all the JVM of Spark, which does not end with the Python that started it. A caller that starts it as such a child
passes `--child`. Under `spark-submit` the process group is that of the caller of `spark-submit`: no signal goes there.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from typing import Final

from snapkafka.runtime.child import Child
from snapkafka.runtime.signals import on_ending_signal, raise_on_ending_signals

from .interrupts import interrupt

#: The first argument of a job that runs in a child process.
CHILD: Final = "--child"
#: A JVM removes its temporary files before it ends.
JVM_ENDS_WITHIN_S: Final = 30.0


def start() -> int:
    """Run the job as it was started; return its exit status."""
    if sys.argv[1:2] == [CHILD] or "PYSPARK_GATEWAY_PORT" in os.environ:
        return _job([argument for argument in sys.argv[1:] if argument != CHILD])
    raise_on_ending_signals()
    with Child([sys.executable, "-m", "snapkafka.assembly", CHILD, *sys.argv[1:]]) as child:
        status = child.wait()
    assert status is not None, "it was waited for"
    return status if status >= 0 else 128 - status


def _job(arguments: list[str]) -> int:
    stream = sys.stdout  # is for the result: other output, by a JVM for instance, goes to standard error
    kept = os.fdopen(os.dup(1), "w", encoding=stream.encoding, errors=stream.errors, buffering=1)
    os.dup2(2, 1)
    sys.stdout = kept
    from snapkafka.assembly.command import main

    on_ending_signal(interrupt)
    status = main(arguments)
    _await_jvm()
    return status


def _await_jvm() -> None:
    """Wait for the end of a JVM that this process started: in a container no other process may.

    Py4J notifies the JVM of each object that Python no longer needs, and logs a traceback if the JVM is gone; pyspark
    prints one when it goes. This process has nothing left to say.
    """
    with contextlib.suppress(Exception):
        jvm = sys.modules["pyspark"].SparkContext._gateway.proc
        logging.disable()
        sys.stderr = io.StringIO()
        jvm.stdin.close()
        jvm.wait(JVM_ENDS_WITHIN_S)
