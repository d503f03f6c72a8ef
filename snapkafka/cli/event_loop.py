"""The event loop of a command, which ends with the first signal that asks for it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from snapkafka.errors import BadInputError
from snapkafka.runtime.signals import Interrupted, ending_signals, exit_status

#: A command that was asked to end does so, whatever a broker or a storage keeps it waiting for.
ENDS_WITHIN_S: Final = 4.8

T = TypeVar("T")


def run_until_signalled(
    work: Callable[[], Coroutine[Any, Any, T]], *, ends_within_s: float = ENDS_WITHIN_S
) -> T:
    """Run a coroutine, which the first ending signal cancels.

    Args:
        ends_within_s: the time limit of its clean-up.

    Raises:
        Interrupted: a signal came, and the clean-up is done.
    """
    arrived: list[int] = []

    async def main() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel(number: int) -> None:
            if not arrived:  # a second one does not disturb what is put away after the first
                arrived.append(number)
                watchdog.args = (number,)
                watchdog.start()
                task.cancel()

        for number in before:
            loop.add_signal_handler(number, cancel, number)
        return await work()

    watchdog = threading.Timer(ends_within_s, _give_up)
    watchdog.daemon = True
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in ending_signals()} if in_main else {}
    try:
        return asyncio.run(main())
    except (Exception, asyncio.CancelledError):
        if arrived:
            raise Interrupted(arrived[0]) from None
        raise
    finally:
        watchdog.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _give_up(number: int) -> None:
    print("stopped; the broker or the storage did not answer in time", file=sys.stderr, flush=True)
    os._exit(exit_status(number))


def require_text() -> None:
    """Refuse bytes that are not text, in arguments and in our environment variables: no record can hold them.

    Raises:
        BadInputError: names the first one.
    """
    ours = (value for name, value in os.environ.items() if name.startswith("SNAPKAFKA_"))
    for value in (*sys.argv[1:], *ours):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadInputError(f"{value!r} is not text", hint="write it in UTF-8") from None
