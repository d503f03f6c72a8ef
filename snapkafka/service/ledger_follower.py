"""The ledger of a namespace, read once and followed, for a server that answers many requests from it.

A verb opens the ledger, reads it and closes it again; a server cannot do that for each of a hundred requests a second.
It holds a fold that follows the ledger, and nothing else: another instance that reads the same ledger gives the same
answers, and an instance that is killed loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

import msgspec
from starlette.responses import Response, StreamingResponse

from snapkafka.errors import BrokerUnavailableError, SnapkafkaError, TimedOutError
from snapkafka.kafka.cluster.restorable import restorable
from snapkafka.kafka.ledger.reading import LedgerReading, Opened, find_snapshot, good, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import RestorableEntry
from snapkafka.ops.doctoring import Checkup, examine
from snapkafka.ops.listing import Clock
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_state import SnapshotView
from snapkafka.protocol.records import Abort, Report, Trigger, Verdict
from snapkafka.units import wall_ms

from .api import EVENTS
from .problems import RefusedError

_K = TypeVar("_K")
_V = TypeVar("_V")


class Shared(Generic[_K, _V]):
    """Answers by key. However many callers wait for one, it is asked for once.

    Args:
        ask: finds an answer; an exception goes to all waiting callers, and is not kept.
        kept_s: of an answer: how long it is returned.
        most: the limit of kept answers.
    """

    def __init__(
        self, ask: Callable[[_K], Coroutine[Any, Any, _V]], kept_s: Callable[[_V], float], *, most: int
    ) -> None:
        self._ask, self._kept_s, self._most = ask, kept_s, most
        self._asked: dict[_K, tuple[float, asyncio.Task[_V]]] = {}

    def clear(self) -> None:
        """Forget all answers, and those in flight."""
        self._asked.clear()

    def ask(self, key: _K) -> tuple[float, asyncio.Task[_V]]:
        """Ask, unless an answer is kept or on its way; return since when."""
        now = asyncio.get_running_loop().time()
        began, task = self._asked.get(key, (now, None))
        if task is None or (task.done() and self._is_over(task, now - began)):
            began, task = now, asyncio.create_task(self._ask(key))
            task.add_done_callback(retrieve)
            self._asked[key] = began, task
            while len(self._asked) > self._most:
                del self._asked[next(iter(self._asked))]
        return began, task

    async def get(self, key: _K, within_s: float) -> _V:
        """Return the kept answer, or ask and wait.

        Raises:
            RefusedError: it was asked for `within_s` seconds ago and has not come.
            Exception: asking failed.
        """
        began, task = self.ask(key)
        if task.done():
            return task.result()
        try:
            async with asyncio.timeout_at(began + within_s):
                return await asyncio.shield(task)  # it goes on when who waits is cancelled
        except TimeoutError:
            raise RefusedError("busy", "no answer has come yet", "ask again soon") from None

    def _is_over(self, task: asyncio.Task[_V], age_s: float) -> bool:
        return task.cancelled() or task.exception() is not None or age_s >= self._kept_s(task.result())


def retrieve(task: asyncio.Task[Any]) -> None:
    """Take note of a failure: nobody may wait for it any more."""
    if not task.cancelled():
        task.exception()


logger = logging.getLogger("snapkafka")

#: Between two attempts to reach a broker that does not answer.
AGAIN_AFTER_S: Final = 1.0
#: A broker is asked for the ledger's end, and answers in that time, or it is not waited for.
END_S: Final = 0.3
#: The fold reaches that end in that time, or answers are stale.
CATCH_UP_S: Final = 8.0
#: How long a snapshot is restorable changes by the hour; asking costs requests per topic, and who asks next waits.
RESTORABLE_S: Final = 120.0
#: `doctor` asks for all topics and groups.
CHECKUP_S: Final = 30.0
#: So many are asked for at once: behind them the broker and this process have other work.
RESTORABLE_AT_ONCE: Final = 2
#: Of so many snapshots the last answer is kept.
RESTORABLE_KEPT: Final = 500


class LedgerFollower:
    """The follower of one ledger.

    Args:
        clock: milliseconds since 1970.
    """

    def __init__(self, where: Connection | Cluster, namespace: str, clock: Clock = wall_ms) -> None:
        self.where, self.namespace, self.clock = where, namespace, clock
        #: Counts what was read: a reader that has seen it waits for the next (`changed`).
        self.version = 0
        #: Descriptions of snapshots, kept until a record comes that may change others than the one that it names.
        self.described: dict[tuple[Any, int], tuple[Any, Any]] = {}
        #: Why the ledger cannot be followed now; None while it is.
        self.problem: SnapkafkaError | None = None
        self._work: Opened | None = None
        self._last: LedgerReading | None = None
        self._news = asyncio.Event()
        self._next_end: asyncio.Task[int] | None = None  # a question that is not sent yet
        self._asking_end = asyncio.Lock()
        self._latest_good: tuple[int, int | None] = (-1, None)  # the version at which it was looked for
        self._asking = asyncio.Semaphore(RESTORABLE_AT_ONCE)
        self._restorable = Shared(self._ask_restorable, lambda found: RESTORABLE_S, most=RESTORABLE_KEPT)
        #: The findings of `doctor`.
        self.checkup = Shared(self._ask_checkup, lambda found: CHECKUP_S, most=1)

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow the ledger for the length of a block; if the broker does not answer, try again for ever."""
        task = asyncio.ensure_future(self._follow())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # -- following --------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Read the ledger for ever, and again from its beginning after each failure."""
        while True:
            try:
                async with opened(self.where, self.namespace) as work:
                    self._work, self._last, self.problem = work, work.reading, None
                    self._restorable.clear()
                    self.checkup.clear()
                    self.described.clear()
                    self._notify()
                    async for entry in work.ledger.read(work.reading.state.end):
                        work.reading.apply(entry)
                        if not isinstance(entry.record, Trigger | Report | Abort | Verdict):
                            self.checkup.clear()  # it names who waits for inputs, and who has died
                            self.described.clear()
                        self._notify()
            except SnapkafkaError as error:
                if self.problem is None or self.problem.message != error.message:
                    logger.warning("snapkafka: the ledger cannot be followed: %s", error)
                self.problem = error
            except Exception as error:
                logger.exception("snapkafka: the ledger cannot be followed")
                self.problem = BrokerUnavailableError(f"the ledger cannot be followed: {error}")
            self._work = None
            self._notify()
            await asyncio.sleep(AGAIN_AFTER_S)

    def _notify(self) -> None:
        self.version += 1
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def changed(self, version: int, timeout_s: float) -> int:
        """Wait until more was read than at `version`, or for `timeout_s`; return the version then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.version == version:
                    await self._news.wait()
        return self.version

    @property
    def reading(self) -> LedgerReading:
        """The present fold.

        Raises:
            SnapkafkaError: the ledger was never read, and why.
        """
        if self._last is None:
            raise self.problem or TimedOutError(
                f"the ledger of {self.namespace} is still being read for the first time",
                hint="try again soon",
            )
        return self._last

    @property
    def followed(self) -> bool:
        """Whether the ledger is followed at this moment: it was read to its end, and a broker answers."""
        return self._work is not None and self.problem is None

    async def fresh(self) -> bool:
        """Wait until the fold has what the ledger had when this was called; return whether it has."""
        try:
            async with asyncio.timeout(CATCH_UP_S):
                while self._last is None and self.problem is None:  # it is read for the first time
                    await self._news.wait()
                async with asyncio.timeout(END_S):
                    end = await self._end()
                while self.reading.state.end < end:
                    await self._news.wait()
        except (TimeoutError, SnapkafkaError):
            return False
        return True

    async def _end(self) -> int:
        """Ask for the ledger's end. Who asks while a question is under way shares the next one with others."""
        if self._next_end is None:
            self._next_end = asyncio.create_task(self._ask_end())
            self._next_end.add_done_callback(retrieve)
        return await asyncio.shield(self._next_end)

    async def _ask_end(self) -> int:
        async with self._asking_end:
            self._next_end = None
            try:
                end = await self._require_followed().ledger.end()
            except SnapkafkaError as error:
                self.problem = self.problem or error
                raise
            self.problem = None if self._work else self.problem
            return end

    def _require_followed(self) -> Opened:
        if self._work is None:
            raise self.problem or BrokerUnavailableError("no broker answers")
        return self._work

    # -- answers ----------------------------------------------------------------------------------------------

    def find(self, name: str) -> SnapshotView:
        """Find a snapshot by id, epoch or `latest`.

        Raises:
            UnknownSnapshotError: the ledger has no such snapshot.
        """
        return find_snapshot(self.reading.state, name)

    def newest_first(self) -> list[SnapshotView]:
        """List every snapshot of the namespace."""
        return list(reversed(self.reading.state.snapshots.values()))  # the fold has them in order

    def latest_good(self) -> int | None:
        """Return the epoch of the last good snapshot; None: there is none."""
        if self._latest_good[0] != self.version:
            views = reversed(self.reading.state.snapshots.values())
            self._latest_good = self.version, next((view.epoch for view in views if good(view)), None)
        return self._latest_good[1]

    async def _ask_checkup(self, namespace: str) -> Checkup:
        return await examine(self._require_followed(), namespace, now_ms=self.clock())

    async def restorable(self, epoch: int, within_s: float = CATCH_UP_S) -> RestorableEntry | None:
        """Determine how long the log keeps what a captured snapshot needs, as of two minutes ago at most; None: it is
        not captured.

        Raises:
            SnapkafkaError: the broker cannot be asked, or does not answer within `within_s` seconds.
        """
        if find_snapshot(self.reading.state, epoch).captured_at is None:
            return None
        return await self._restorable.get(epoch, within_s)

    async def _ask_restorable(self, epoch: int) -> RestorableEntry:
        work = self._require_followed()
        async with self._asking:
            return await restorable(
                work.admin,
                work.reading.state.captured(epoch),
                cut_ms=work.reading.times_ms[epoch - 1],
                now=self.clock,
            )


#: A stream on which nothing happens sends a comment now and then, so that a lost client is noticed.
BEAT_S: Final = 10.0
#: Of what changes more often only the last is sent.
AT_MOST_EVERY_S: Final = 0.1


class Streams:
    """Live streams, up to `most`, of which `open` are open: an event `changed` whenever the ledger has more."""

    def __init__(self, follower: LedgerFollower, most: int) -> None:
        self._follower, self._most = follower, most
        self.open = 0

    async def answer(self) -> Response:
        """Answer with a stream once its first event is there: it is counted from then on.

        Raises:
            RefusedError: the limit is reached.
        """
        events = self._events()
        first = await anext(events)

        async def all_of_them() -> AsyncIterator[str]:
            yield first
            async for event in events:
                yield event

        return StreamingResponse(all_of_them(), media_type=EVENTS, headers={"X-Accel-Buffering": "no"})

    async def _events(self) -> AsyncIterator[str]:
        if self.open >= self._most:
            busy = f"{self._most} live streams are open"
            raise RefusedError("busy", busy, "close one, or ask without a stream")
        self.open += 1
        try:
            last = ""
            while True:
                version, now = self._follower.version, self._now()
                yield ": nothing new\n\n" if now == last else now
                last = now
                if await self._follower.changed(version, BEAT_S) == version:
                    await self._follower.fresh()  # which notices a broker that is silent
                await asyncio.sleep(AT_MOST_EVERY_S)
        finally:
            self.open -= 1

    def _now(self) -> str:
        state, problem = self._follower.reading.state, self._follower.problem
        data = {
            "ledger_end": state.end,
            "snapshots": len(state.snapshots),
            "running": [view.trigger.id for view in state.open.values()],
            "paused": state.paused,
            "followed": self._follower.followed,
            "problem": None if problem is None else problem.message,
        }
        return f"event: changed\ndata: {msgspec.json.encode(data).decode()}\n\n"
