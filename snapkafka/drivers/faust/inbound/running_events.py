"""The running events of this worker: when Faust starts one, when it ends, and which one causes an effect.

Faust reports when a stream takes a record out of its queue, and mostly when it is done with it. The exceptions:

- A record in the buffer of a `take` has not started. The batch starts when it is handed over, and so do records in the
  buffers of other streams of that agent (`concurrency`), if they come earlier in the log. A stage before the buffer
  with an effect of its own (`stream.echo(...).take(...)`) would start a record of which no position tells: the worker
  stands down, and names it.
- A record of a `noack` stream runs until it is acknowledged and its agent has asked for the next one. If it was
  acknowledged during another event, that event did its work.
- A record at which an agent raised an error ends when the agent is restarted or takes the next record.

`app.sensors` notifies every sensor of everything, some ten times per event. So ours is not one of them: each stream is
given two methods of ours in the place of those which it has taken from there (`streams`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from snapkafka.errors import SnapkafkaError
from snapkafka.protocol import Cause, TopicPartition

from ...patches import after

if TYPE_CHECKING:
    from ..driver import FaustDriver

RUNS: Final = "to record which events run"
#: A stream that no agent reads.
OUTSIDE: Final = "stream"
#: Events that have asked and are over are forgotten when there are so many more than run.
FORGET_AT: Final = 64
#: Those of every app in this process that has a driver.
_apps: WeakSet[Events] = WeakSet()

#: Makes a `Cause` from its four fields; calling the class costs twice as much.
_cause_of: Final = partial(tuple.__new__, Cause)

Place = tuple[Any, int]  # topic-partition and offset


class StreamRecords:
    """The records that one stream is working on.

    Args:
        name: of the agent that reads it, for positions.
    """

    __slots__ = ("batch", "by_hand", "current", "message", "name", "replies", "taking", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.current: Cause | None = None
        self.message: Any = None  # of `current`
        self.by_hand = False  # its agent acknowledges
        self.replies = False  # what it reads are replies to questions of this worker: no input
        self.taking = False  # records go into a buffer
        self.waiting: dict[Place, tuple[Cause, bool]] = {}  # in it, in order; True: it was passed over
        self.batch: dict[Place, tuple[Cause, Any]] = {}  # handed over; with the message where acked by hand


class Events:
    """The events that run in one app, and the records that wait to start."""

    several = False  # have there been several apps in this process?

    def __init__(self, driver: FaustDriver) -> None:
        self._driver, self._machine, self._reads = driver, driver.machine, driver.reads
        #: The event that runs here. Not Faust's `current_event()`: one `Event` object may run in several agents at
        #: once, and it is None inside `take`. Tasks that an event starts inherit it; once the event is over, the
        #: machine gives what they send the colour of the process (R5). Each app has its own: two may give their events
        #: the same name.
        self._cause: ContextVar[Cause | None] = ContextVar("snapkafka_cause", default=None)
        _apps.add(self)
        Events.several |= len(_apps) > 1
        self.parked: dict[Place, list[Cause]] = {}  # left by their agent, not yet acknowledged
        self._buffered: dict[Cause, StreamRecords] = {}  # in some buffer
        self._asked: dict[Cause, None] = {}  # events that wait, or have waited, for a reply
        self._replies: Any = None  # Faust's reply consumer
        self.streams: WeakSet[Any] = WeakSet()
        sensors = driver.app.sensors
        self._notify_in: Callable[..., Any] = sensors.on_stream_event_in
        self._notify_out: Callable[..., Any] = sensors.on_stream_event_out

    def note(self, what: Callable[..., None], *args: Any) -> None:
        """Note something, in the midst of the app's own work (R15)."""
        self._driver.note(RUNS, what, *args)

    # -- which one ----------------------------------------------------------------------------------------------

    def cause(self) -> Cause | None:
        """Return the event that causes what is done here and now."""
        cause = self._cause.get()
        if self._buffered and cause in self._buffered:
            agent = self._buffered[cause].name
            error = SnapkafkaError(
                f"agent {agent} sends, or uses a table, in a stage of its stream before take()",
                hint="do that in the agent, or in an agent of its own before it",
            )
            self._driver.stand_down("to find the event of an effect", error)
        return cause

    def cause_of_send(self) -> Cause | None:
        """Return the event that causes what is sent here and now."""
        if self._reads.unnoted:
            self._reads.note_threads()
        cause = self.cause() if self._buffered else self._cause.get()
        if self.several and cause not in self._machine.colours.running:
            self._require_own()
        return cause

    def _require_own(self) -> None:
        """Stand down where an event of another app in this process sends through this one: it has another colour, and
        no snapshot could tell that it is the cause."""
        namespace = self._driver.config.namespace
        for other in [it for it in _apps if it is not self and it._driver.config.namespace == namespace]:
            if other._cause.get() in other._machine.colours.running:
                one, two = (events._driver.app.conf.id for events in (other, self))
                error = SnapkafkaError(
                    f"an event of app {one} sends through app {two} of its process",
                    hint="send by a topic of its own",
                )
                self._driver.stand_down("to find the event of a send", error)

    # -- one by one ---------------------------------------------------------------------------------------------

    def event_in(self, tp: Any, offset: int | None, stream: Any, event: Any) -> Any:
        """Note that a stream takes a record out of its queue and is about to hand it to its agent."""
        state = self._notify_in(tp, offset, stream, event)
        if offset is None or offset < 0:
            return state  # an in-memory channel: no input of the snapshot
        cause = None
        try:
            reading = stream.reading
            if reading.replies:
                return state, None
            if reading.current is not None:
                self.left(reading)
            cause = _cause_of((reading.name, tp, offset, 0))
            while cause in self._machine.colours.running:  # a replay, while the first run still goes on
                cause = cause._replace(run=cause.run + 1)
            self._cause.set(cause)
            if reading.taking:
                reading.waiting[tp, offset] = (cause, False)
                self._buffered[cause] = reading
            else:
                reading.current = cause
                if reading.by_hand:
                    reading.message = event.message
                if void := self._machine.event_started(cause):
                    self._driver.do(void)
        except Exception as error:
            self._driver.stand_down(RUNS, error)
        return state, cause

    def event_out(self, tp: Any, offset: int | None, stream: Any, event: Any, state: Any = None) -> None:
        """Note that a stream is done with a record: it was acknowledged or skipped. Where an agent acknowledges by
        hand, Faust has no state."""
        if offset is None or offset < 0:
            self._notify_out(tp, offset, stream, event, state)
            return
        state, cause = state or (None, None)
        self._notify_out(tp, offset, stream, event, state)
        try:
            reading = stream.reading
            current = reading.current
            if current is None or not (current is cause or (cause is None and current[1:3] == (tp, offset))):
                self._out_of_buffer(reading, (tp, offset), cause)
            elif not reading.by_hand or cause is not None:
                reading.current = reading.message = None
                if self._reads.unnoted:
                    self._reads.note_threads()
                if actions := self._machine.event_ended(current):
                    self._driver.do(actions)
            if self.parked and event.message.acked:
                self.acknowledged(tp, offset)
        except Exception as error:
            self._driver.stand_down(RUNS, error)

    def _out_of_buffer(self, reading: StreamRecords, place: Place, cause: Cause | None) -> None:
        waiting = reading.waiting.get(place)
        if waiting is not None and waiting[0] is cause:
            reading.waiting[place] = (cause, True)
            if next(iter(reading.waiting)) == place:
                self._skip(reading, place)
        elif place in reading.batch and not reading.by_hand and cause is None:
            self._end(reading.batch.pop(place)[0])

    def left(self, reading: StreamRecords) -> None:
        """Note that the agent has asked for the next record, or was started again."""
        cause, message = reading.current, reading.message
        reading.current = reading.message = None
        if cause is not None:
            self._left(cause, message if reading.by_hand else None)

    def _left(self, cause: Cause, message: Any) -> None:
        """End the event, unless its record is still to be acknowledged."""
        if message is None or message.acked:
            self._end(cause)
        else:
            self.parked.setdefault((cause.tp, cause.offset), []).append(cause)

    def acknowledged(self, tp: Any, offset: int) -> None:
        """Note that every agent has acknowledged a record: all its events here end."""
        for cause in self.parked.pop((tp, offset), ()):
            by, colours = self.cause(), self._machine.colours
            colour = None if by is None else colours.running.get(by)  # that of the work on it (R6)
            self._driver.do(self._machine.torn(colours.tear(cause, colour)))
            self._end(cause)

    def on_revoked(self) -> None:
        """Note that all inputs are revoked: records that were not acknowledged will come again."""
        parked, self.parked = self.parked, {}
        for causes in parked.values():
            for cause in causes:
                self._end(cause)

    # -- in batches ---------------------------------------------------------------------------------------------

    def handed_over(self, reading: StreamRecords, size: int, events: list[Any] | None) -> None:
        """Start the records of a buffer, `size` of them, as they are handed to the agent.

        Args:
            events: those records, where the agent acknowledges each by hand.
        """
        batch: list[Cause] = []
        for place, (cause, passed_over) in list(reading.waiting.items()):
            if len(batch) == size:
                break
            if passed_over:
                self._skip(reading, place)
                continue
            del reading.waiting[place]
            self._buffered.pop(cause, None)
            reading.batch[place] = (cause, events[len(batch)].message if events is not None else None)
            batch.append(cause)
        self._start_before(reading, batch)
        self._driver.do(self._machine.batch_started(batch))
        self._cause.set(batch[0] if batch else None)

    def batch_left(self, reading: StreamRecords) -> None:
        """Note that the agent has asked for the next batch, or was started again."""
        batch, reading.batch = reading.batch, {}
        for cause, message in batch.values():
            self._left(cause, message)

    def _skip(self, reading: StreamRecords, place: Place) -> None:
        """Start and end the first record that waits: its stream has passed it over."""
        cause, _ = reading.waiting.pop(place)
        self._buffered.pop(cause, None)
        self._start_before(reading, [cause])
        self._start(cause)
        self._end(cause)

    def _start_before(self, reading: StreamRecords, starting: list[Cause]) -> None:
        """Start earlier records of the same agent that wait elsewhere: a cut notes one offset."""
        last = {cause.tp: cause.offset for cause in starting}
        for stream in self.streams:
            other = stream.reading
            if other is not reading and other.name == reading.name:
                for cause, _ in other.waiting.values():
                    if cause.offset < last.get(cause.tp, 0):
                        self._start(cause)

    # -- replies to `agent.ask`, `join` and `map` (R6) ----------------------------------------------------------

    def watch_replies(self, consumer: Any) -> None:
        """Patch Faust's reply consumer: who registers a promise has asked."""
        self._replies = consumer
        after(self._driver, consumer, "add", self._asks, "to record who asks")

    def _asks(self, *_: Any) -> None:
        cause, running = self.cause(), self._machine.colours.running
        if cause is not None:
            if len(self._asked) > len(running) + FORGET_AT:
                self._asked = {asked: None for asked in self._asked if asked in running}
            self._asked[cause] = None

    @property
    def reply_topics(self) -> set[str]:
        """The topics from which this worker reads replies."""
        return set(self._replies._fetchers) if self._replies is not None else set()

    def reply_met(self, epoch: int | None) -> None:
        """Note that a reply of this colour arrived; None: without a header of ours. If it is red, it tears each white
        event that has asked and still runs: one of them takes it in."""
        colours = self._machine.colours
        if colours.tearing:
            for cause in [asked for asked in self._asked if asked in colours.running]:
                self._driver.do(self._machine.torn(colours.tear(cause, epoch)))

    # -- both ---------------------------------------------------------------------------------------------------

    def _start(self, cause: Cause) -> None:
        if void := self._machine.event_started(cause):
            self._driver.do(void)

    def _end(self, cause: Cause) -> None:
        if self._reads.unnoted:
            self._reads.note_threads()
        if actions := self._machine.event_ended(cause):
            self._driver.do(actions)

    def agents(self) -> dict[int, str]:
        """Return the reader of each channel, by the identity of its queue; agents with `concurrency` share one."""
        return {
            id(queue): stream.reading.name
            for stream in self.streams
            if (queue := getattr(stream.channel, "_queue", None)) is not None
        }

    def readers(self, tp: TopicPartition) -> tuple[str, ...]:
        """Return the names of the agents that read an input."""
        names = {stream.reading.name for stream in self.streams if tp.topic in topics_of(stream)}
        return tuple(sorted(names)) or (OUTSIDE,)


def agent_of(stream: Any) -> str:
    """Return the name of the agent that reads a stream, also of a derived one: the agent stands above it in the
    tree."""
    from faust.types import AgentT

    node = stream.beacon
    while node is not None:
        if isinstance(node.data, AgentT):
            return str(node.data.name)
        node = node.parent
    return str(stream.prefix)


def topics_of(stream: Any) -> set[str]:
    """Return the topics of a stream; none if it reads an in-memory channel."""
    return set(getattr(stream.channel, "topics", None) or ())
