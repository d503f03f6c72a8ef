"""The job as a process, and its standard output.

Started by hand it runs in a child process (`runtime.child`), so that nothing of it is left however it ends, least of
all the JVM of Spark, which does not end with the Python that started it. A caller that starts it as such a child
passes `--child`. Under `spark-submit` the process group is that of the caller of `spark-submit`: no signal goes there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import tempfile
from typing import IO, Final

from snapkafka.runtime.child import Child
from snapkafka.runtime.signals import raise_on_ending_signals

#: The first argument of a job that runs in a child process.
CHILD: Final = "--child"
#: A JVM removes its temporary files before it ends.
JVM_ENDS_WITHIN_S: Final = 30.0


def start() -> int:
    """Run the job as it was started; return its exit status."""
    if sys.argv[1:2] == [CHILD]:
        del sys.argv[1]
        return _job()
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _job()
    raise_on_ending_signals()
    with tempfile.TemporaryFile() as options:
        arguments = _from_standard_input(sys.argv[1:], options)
        command = [sys.executable, "-m", "snapkafka.assembly", CHILD, *arguments]
        with Child(command, pass_fds=[options.fileno()]) as child:
            status = child.wait()
    assert status is not None, "it was waited for"
    return status if status >= 0 else 128 - status


def _from_standard_input(arguments: list[str], options: IO[bytes]) -> list[str]:
    """Copy the options that standard input holds to a file, as a child has none; return the arguments that name it."""
    place, found = f"/dev/fd/{options.fileno()}", list(arguments)
    for at, argument in enumerate(arguments):
        if argument == "--spec=-" or (argument == "-" and arguments[at - 1] == "--spec"):
            shutil.copyfileobj(sys.stdin.buffer, options)
            options.seek(0)
            found[at] = argument[:-1] + place
    return found


def _job() -> int:
    _keep_standard_output()
    from snapkafka.assembly.command import main

    from .spark.interrupts import interruptible

    interruptible()
    status = main()
    _await_jvm()
    return status


def _keep_standard_output() -> None:
    """Reserve standard output for the result: other output, by a JVM for instance, goes to standard error."""
    stream = sys.stdout
    kept = os.fdopen(os.dup(1), "w", encoding=stream.encoding, errors=stream.errors, buffering=1)
    os.dup2(2, 1)
    sys.stdout = kept


def _await_jvm() -> None:
    """Wait for the end of a JVM that this process started: in a container no other process may.

    Py4J notifies the JVM of each object that Python no longer needs, and logs a traceback if the JVM is gone: this
    process has nothing left to log.
    """
    with contextlib.suppress(Exception):
        jvm = sys.modules["pyspark"].SparkContext._gateway.proc
        logging.disable()
        jvm.stdin.close()
        jvm.wait(JVM_ENDS_WITHIN_S)
