"""Streams that report when an agent gets a batch, when it has asked for the next record, and who reads them.

Faust creates every stream in `app.stream` and derives others from it by `clone`, with the class of the first. So a
stream gets a subclass of its own class where it is created, and streams derived from it have that class, too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Hashable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ...patches import after
from .running_events import OUTSIDE, Events, StreamRecords, agent_of, topics_of

if TYPE_CHECKING:
    from ..driver import FaustDriver

#: Methods by which an agent gets batches; does it acknowledge by hand?
BATCHES: Final = {"take": False, "take_events": False, "take_with_timestamp": False, "noack_take": True}


def watch_streams(driver: FaustDriver) -> None:
    """Patch `app.stream`. Streams that a module created before `install` stand in the app's tree."""
    from faust.types import StreamT

    app, events = driver.app, driver.events
    for stream in [node.data for node in app.beacon.traverse() if isinstance(node.data, StreamT)]:
        _watch(events, stream)
    after(driver, app, "stream", lambda made, *_, **__: _watch(events, made), "to watch a stream")


def _watch(events: Events, stream: Any) -> None:
    stream.__class__ = _watched(stream.__class__)
    _adopt(events, stream, agent_of(stream) or _free_name(events, stream))
    stream.reading.replies = not events.reply_topics.isdisjoint(topics_of(stream))


def _adopt(events: Events, stream: Any, name: str) -> None:
    stream.reading, stream.watched_by = StreamRecords(name), events
    stream.reading.by_hand = not stream.enable_acks
    stream._on_stream_event_in, stream._on_stream_event_out = events.event_in, events.event_out
    events.streams.add(stream)


def _free_name(events: Events, stream: Any) -> str:
    """Return a free name: streams outside agents that read the same topic are numbered."""
    topics = topics_of(stream)
    taken = {other.reading.name for other in events.streams if topics & topics_of(other)}
    name, number = OUTSIDE, 1
    while name in taken:
        number += 1
        name = f"{OUTSIDE}-{number}"
    return name


@cache
def _watched(cls: Hashable) -> Any:
    """Return a subclass of a class of streams, with its name."""
    base: Any = cls

    class Watched(base):
        def clone(self, **options: Any) -> Any:
            new = super().clone(**options)
            self.watched_by.note(_adopt, self.watched_by, new, self.reading.name)
            return new

        def __aiter__(self) -> Any:
            self.watched_by.note(self.watched_by.left, self.reading)  # an agent that raised begins again
            found = super().__aiter__()
            return _acknowledged_by_hand(self, found) if self.reading.by_hand else found

    def taking(name: str, *, by_hand: bool) -> Callable[..., Any]:
        take = getattr(base, name)
        return lambda self, *args, **options: _batches(self, take(self, *args, **options), by_hand=by_hand)

    for name, by_hand in BATCHES.items():
        setattr(Watched, name, taking(name, by_hand=by_hand))
    for name in ("__name__", "__qualname__", "__module__"):  # logs name streams by their class
        setattr(Watched, name, getattr(base, name))
    return Watched


async def _acknowledged_by_hand(stream: Any, inner: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """Yield the records of a stream, and report when its agent asks for the next one: Faust notifies no sensor then."""
    try:
        async for value in inner:
            yield value
            stream.watched_by.note(stream.watched_by.left, stream.reading)
    finally:
        await inner.aclose()


async def _batches(
    stream: Any, inner: AsyncGenerator[Any, None], *, by_hand: bool
) -> AsyncGenerator[Any, None]:
    """Yield the batches of a `take` of Faust's, and report the start of each in the task that gets it."""
    events, reading = stream.watched_by, stream.reading
    events.note(events.batch_left, reading)  # an agent that raised begins again
    reading.taking, reading.by_hand = True, by_hand
    try:
        async for batch in inner:
            events.note(events.handed_over, reading, len(batch), batch if by_hand else None)
            yield batch
            if by_hand:
                events.note(events.batch_left, reading)
    finally:
        reading.taking = False
        await inner.aclose()
