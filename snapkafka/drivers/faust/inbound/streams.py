"""Streams that report when an agent gets a batch, when it has asked for the next record, and who reads them.

Faust creates every stream in `app.stream` and derives others from it by `clone`, with the class of the first. So a
stream gets a subclass of its own class where it is created, and streams derived from it have that class, too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Hashable
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from .running_events import Events, StreamRecords

if TYPE_CHECKING:
    from ...process import Process

#: A stream that no agent reads.
OUTSIDE = "stream"


def watch_streams(host: Process, events: Events, attach: Callable[[Any], None]) -> None:
    """Patch `app.stream`. Streams that a module created before `install` stand in the app's tree; `attach` is called
    with each of them, too."""
    from faust.types import StreamT

    app = host.app
    for node in list(app.beacon.traverse()):
        if isinstance(node.data, StreamT):
            _watch(events, node.data)
            attach(node.data)
    make: Callable[..., Any] = app.stream

    def stream(channel: Any, *args: Any, **options: Any) -> Any:
        made = make(channel, *args, **options)
        try:
            _watch(events, made)
        except Exception as error:
            host.stand_down("to watch a stream", error)
        return made

    app.stream = stream


def _watch(events: Events, stream: Any) -> None:
    stream.__class__ = _watched(stream.__class__)
    stream.reading = StreamRecords(_agent_of(stream) or _free_name(events, stream))
    stream.reading.by_hand = not stream.enable_acks
    stream.reading.replies = not events.reply_topics.isdisjoint(_topics(stream))
    stream.watched_by = events
    events.streams.add(stream)


def reading_of(stream: Any) -> StreamRecords:
    """Return the records that a stream is working on; a stream that was not created by `app.stream` has less (no
    batches, no `noack`)."""
    reading: StreamRecords | None = stream.__dict__.get("reading")
    if reading is None:
        reading = stream.reading = StreamRecords(_agent_of(stream) or OUTSIDE)
    return reading


def _agent_of(stream: Any) -> str:
    """Return the name of the agent that reads a stream, also of a derived one: the agent stands above it in the
    tree."""
    from faust.types import AgentT

    node = stream.beacon
    while node is not None:
        if isinstance(node.data, AgentT):
            return str(node.data.name)
        node = node.parent
    return str(stream.prefix)


def _free_name(events: Events, stream: Any) -> str:
    """Return a free name: streams outside agents that read the same topic are numbered."""
    topics = _topics(stream)
    taken = {other.reading.name for other in events.streams if topics & _topics(other)}
    name, number = OUTSIDE, 1
    while name in taken:
        number += 1
        name = f"{OUTSIDE}-{number}"
    return name


def _topics(stream: Any) -> set[str]:
    """Return the topics of a stream; none if it reads an in-memory channel."""
    return set(getattr(stream.channel, "topics", None) or ())


@cache
def _watched(cls: Hashable) -> Any:
    """Return a subclass of a class of streams, with its name."""
    base: Any = cls

    class Watched(base):
        def clone(self, **options: Any) -> Any:
            new = super().clone(**options)
            try:
                new.watched_by = self.watched_by
                new.reading = StreamRecords(self.reading.name)
                new.reading.by_hand = not new.enable_acks
                self.watched_by.streams.add(new)
            except Exception as error:
                self.watched_by.stand_down(error)
            return new

        def noack(self) -> Any:
            new = super().noack()
            new.__class__ = _by_hand(new.__class__)
            return new

        def __aiter__(self) -> Any:
            try:
                self.watched_by.left(self.reading)  # an agent that raised begins again
            except Exception as error:
                self.watched_by.stand_down(error)
            return super().__aiter__()

        def take(self, *args: Any, **options: Any) -> Any:
            return _batches(self, super().take(*args, **options), by_hand=False)

        def take_events(self, *args: Any, **options: Any) -> Any:
            return _batches(self, super().take_events(*args, **options), by_hand=False)

        def take_with_timestamp(self, *args: Any, **options: Any) -> Any:
            return _batches(self, super().take_with_timestamp(*args, **options), by_hand=False)

        def noack_take(self, *args: Any, **options: Any) -> Any:
            return _batches(self, super().noack_take(*args, **options), by_hand=True)

    return _named_like(Watched, base)


@cache
def _by_hand(cls: Hashable) -> Any:
    """Return a subclass for streams whose agents acknowledge by hand: Faust then notifies no sensor when such an agent
    asks for the next record, but drops its reference to the current one."""
    base: Any = cls

    class ByHand(base):
        _current_event: Any = None

        def set_current_event(self, event: Any) -> None:
            self._current_event = event
            try:
                if event is None:
                    self.watched_by.left(self.reading)
            except Exception as error:
                self.watched_by.stand_down(error)

        current_event = property(attrgetter("_current_event"), set_current_event)

    return _named_like(ByHand, base)


def _named_like(new: type, cls: type) -> type:
    """Give a class the name of another: logs name streams by their class."""
    new.__name__, new.__qualname__, new.__module__ = cls.__name__, cls.__qualname__, cls.__module__
    return new


async def _batches(
    stream: Any, inner: AsyncGenerator[Any, None], *, by_hand: bool
) -> AsyncGenerator[Any, None]:
    """Yield the batches of a `take` of Faust's, and report the start of each in the task that gets it."""
    events, reading = stream.watched_by, stream.reading
    try:
        events.batch_left(reading)  # an agent that raised begins again
        reading.taking, reading.by_hand = True, by_hand
    except Exception as error:
        events.stand_down(error)
    try:
        async for batch in inner:
            try:
                events.handed_over(reading, len(batch), batch if by_hand else None)
            except Exception as error:
                events.stand_down(error)
            yield batch
            if by_hand:
                try:
                    events.batch_left(reading)
                except Exception as error:
                    events.stand_down(error)
    finally:
        reading.taking = False
        await inner.aclose()
