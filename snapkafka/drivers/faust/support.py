"""What snapkafka was written for: releases of Faust and aiokafka, and settings of an app (R15); and what is done to an
app with it or without at its start.

A hook may keep its name and its arguments in another release and change its meaning, in the middle of an app's work. So
these releases are known by number, and on any other one a worker runs without snapkafka, by name. A new release is a
line here, and a run of all tests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from snapkafka.logs import about

logger = logging.getLogger("snapkafka")

Step = Callable[[], Awaitable[None]]
#: What is asked of aiokafka's consumer, in its thread.
Ask = Callable[[Any], Coroutine[Any, Any, Any]]
#: The releases of each package that is hooked into.
KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "faust-streaming": ("0.15.3",),
    "aiokafka": ("0.13.0", "0.14.0"),
}
#: The schemes of the one client library that is hooked into.
TRANSPORTS: Final = ("kafka", "aiokafka")


def not_as_expected() -> list[str]:
    """List the packages of which another release is installed, each with those that are known."""
    problems = []
    for name, releases in KNOWN.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "(not installed)"
        if found not in releases:
            problems.append(f"{name} {found} is not {' or '.join(releases)}")
    return problems


#: Settings of an app that hold messages back, or send them by another producer, so that no cut can vouch for them.
REFUSED: Final = ("stream_publish_on_commit", "producer_threaded")


def refusal(app: Any) -> str:
    """Return why the settings of an app keep its workers out of snapshots; empty: they do not. It is configured."""
    conf = app.conf
    urls = [url for name in ("broker", "broker_consumer", "broker_producer") for url in getattr(conf, name)]
    if scheme := next((url.scheme for url in urls if url.scheme not in TRANSPORTS), ""):
        return f"the broker of this app is {scheme}://, and workers take part over kafka:// only"
    if name := next((name for name in REFUSED if getattr(conf, name)), ""):
        return f"this app has {name}=True, and workers take part without it only"
    return ""


def in_consumer(consumer: Any, ask: Ask) -> asyncio.Future[Any]:
    """Start `ask(client)` at once in the thread of Faust's consumer, beside the queue for Faust's own calls."""
    from faust.exceptions import ConsumerNotStarted

    thread = consumer._thread
    work = ask(thread._ensure_consumer())
    try:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, thread.thread_loop))
    except RuntimeError as error:
        work.close()
        raise ConsumerNotStarted("its thread has ended") from error


def at_start(app: Any, *, before: Step | None = None, after: Step | None = None) -> None:
    """Do something before the app's own `on_start`, which fails the start if it raises, and after it."""
    start: Step = app.on_start

    async def started() -> None:
        if before is not None:
            await before()
        await start()
        if after is not None:
            await after()

    app.on_start = started


def restore_log_level() -> None:
    """Give the root logger the level of its handlers back. Faust leaves it at DEBUG, so that its spinner turns at each
    message while a worker starts: then every library makes records that nobody reads. A level without a spinner was
    chosen, and stays."""
    root = logging.getLogger()
    others = [it.level for it in root.handlers if type(it).__name__ != "SpinnerHandler"]
    if others and len(others) < len(root.handlers):
        root.setLevel(max(root.level, min(others)))


def run_without(app: Any, why: str, *, error: bool = False) -> None:
    """Let an app refuse to start on offsets that a restore has set: only a worker with snapkafka honours them (D6).

    Args:
        error: log at the start that it runs without snapshots, and why (R15).
    """

    async def refuse() -> None:
        try:
            from .restores import refuse_restored
        except ImportError:
            return  # of something that a later aiokafka has elsewhere; nor can it be looked up then
        await refuse_restored(app, "this worker runs without snapkafka" if error else why)

    async def notify() -> None:
        logger.error("snapkafka: %s; this worker runs without snapshots", why, extra=about())

    at_start(app, before=refuse, after=notify if error else None)
