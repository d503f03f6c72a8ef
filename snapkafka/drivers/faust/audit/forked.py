"""A child that encodes the tables as they are at the fork, on its copy-on-write image, while the worker goes on.

The child runs Python code on objects that it has to itself, writes to one pipe and exits: it flushes nothing, closes
no connection in order, and runs none of the app's code but what encodes keys and values. A lock that another thread
held at the fork stays locked in the child for good. So a worker forks only where every other thread is one of those
that hold no lock that the child takes (`ALLOWED_THREADS`), and none belongs to a library that starts its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import re
import signal
import struct
import sys
import threading
import warnings
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Final, NoReturn

from snapkafka.wire.audit import pack

from .image import TableImage, rows_of

#: The threads of Python that may run at a fork: the loop of the app, those of Faust with their consumer and producer,
#: and those of the loop's executor, which resolve addresses.
ALLOWED_THREADS: Final = re.compile(r"MainThread|AIOKafkaConsumerThread|ThreadedProducer|asyncio_\d+")
FRAME: Final = struct.Struct("<I")
END: Final = 0xFFFF_FFFF
#: The signal that a child gets when its parent has ended.
_PR_SET_PDEATHSIG: Final = 1
REAP_EVERY_S: Final = 0.01
#: A child that was killed and is not gone by then is left to the system.
REAP_TRIES: Final = 500


def why_not(images: Iterable[TableImage]) -> str:
    """Return why a fork is not safe here; empty: it is."""
    if sys.platform != "linux":
        return f"a fork is safe on Linux only, this is {sys.platform}"
    fit = [image for image in images if not image.reason]
    if not fit:
        return "there is nothing to encode"
    for image in fit:
        if not image.in_memory:
            return f"table {image.described.name} is not in memory: threads of RocksDB hold locks"
    threads = threading.enumerate()
    others = sorted(
        name
        for thread in threads
        if thread is not threading.current_thread() and not ALLOWED_THREADS.fullmatch(name := name_of(thread))
    )
    if others:
        return f"thread {others[0]} may hold a lock"
    native = sum(1 for _ in Path("/proc/self/task").iterdir()) - len(threads)
    if native > 0:
        return f"a library has started {native} threads, which may hold locks"
    return ""


def name_of(thread: threading.Thread) -> str:
    """Return the name of a thread; of one that runs a service of Faust, the class of the service."""
    service = getattr(thread, "service", None)
    return thread.name if service is None else type(service).__name__


class Child:
    """A child that was started.

    Attributes:
        failed: number of a table -> why its rows could not be made, in the end.
        bytes: the memory that it had for itself in the end.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid, self._pipe = pid, pipe
        self.failed: dict[int, str] = {}
        self.bytes = 0
        self._status: int | None = None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the pieces that it packs; it waits while nobody takes them.

        Raises:
            ChildProcessError: it ended before it was done.
        """
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=64 * 1024)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._pipe, "rb", 0)
        )
        try:
            while True:
                (size,) = FRAME.unpack(await reader.readexactly(FRAME.size))
                if size == END:
                    (size,) = FRAME.unpack(await reader.readexactly(FRAME.size))
                    ending = json.loads(await reader.readexactly(size))
                    self.failed = {int(number): why for number, why in ending["failed"].items()}
                    self.bytes = ending["bytes"]
                    return
                yield await reader.readexactly(size)
        except asyncio.IncompleteReadError:
            await self.end()
            raise ChildProcessError(f"its child ended early, with status {self._status}") from None
        finally:
            transport.close()

    async def end(self) -> None:
        """Kill it if it still runs, and collect its exit status."""
        for _ in range(REAP_TRIES if self._status is None else 0):
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)  # noqa: ASYNC222 -- it returns at once
            except ChildProcessError:
                return  # somebody else takes the status of every child
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # its status is not taken, so its id is no other process's
            await asyncio.sleep(REAP_EVERY_S)


def fork(images: list[TableImage], within_s: float) -> Child:
    """Start a child that encodes these tables as they are now.

    Raises:
        OSError: the system has no process or memory for it.
    """
    readable, writable = os.pipe2(os.O_CLOEXEC)
    # A signal that arrived in the child before it has its own handlers would wake the parent's loop.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which `why_not` has seen
            pid = os.fork()
        if pid == 0:
            _run_child(writable, images, within_s)
    except BaseException:
        os.close(readable)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writable)
    os.set_blocking(readable, False)
    return Child(pid, readable)


def _run_child(pipe: int, images: list[TableImage], within_s: float) -> NoReturn:
    status = 1
    try:
        _stand_apart(pipe, within_s)
        failed: dict[int, str] = {}
        for piece in pack(rows_of(images, failed)):
            if piece:
                _write(pipe, FRAME.pack(len(piece)) + piece)
        ending = json.dumps({"failed": failed, "bytes": _own_bytes()}).encode()
        _write(pipe, FRAME.pack(END) + FRAME.pack(len(ending)) + ending)
        status = 0
    finally:
        os._exit(status)


def _stand_apart(pipe: int, within_s: float) -> None:
    """Share nothing with the parent but the pipe: no handler, no descriptor, no right to outlive it."""
    signal.set_wakeup_fd(-1)
    gc.disable()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, within_s)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2 and descriptor != pipe:
            with contextlib.suppress(OSError):  # the one of the list itself is closed by now
                os.close(descriptor)
    os.nice(10)
    with contextlib.suppress(OSError):
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(score, b"1000")  # whoever runs out of memory: the child goes first
        os.close(score)


_LIBC: Final = ctypes.CDLL(None)


def _write(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]


def _own_bytes() -> int:
    """Return the memory that this process shares with no other, in bytes; 0: unknown."""
    try:
        descriptor = os.open("/proc/self/smaps_rollup", os.O_RDONLY)
        text = os.read(descriptor, 8192)
    except OSError:
        return 0
    kilobytes = re.findall(rb"Private_(?:Clean|Dirty):\s+(\d+) kB", text)
    return sum(map(int, kilobytes)) * 1024
