"""The ledger of a namespace, read once and followed, for a server that answers many requests from it.

A verb opens the ledger, reads it and closes it again; a server cannot do that for each of a hundred requests a second.
It holds a fold that follows the ledger, and nothing else: another instance that reads the same ledger gives the same
answers, and an instance that is killed loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from snapkafka.errors import BrokerUnavailableError, SnapkafkaError, TimedOutError
from snapkafka.kafka.cluster.restorable import restorable
from snapkafka.kafka.ledger.reading import (
    LATEST,
    LedgerReading,
    Opened,
    find_epoch,
    find_snapshot,
    good,
    opened,
)
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import RestorableEntry
from snapkafka.ops.doctoring import Checkup, examine
from snapkafka.ops.listing import Clock, Details, Summary, details, summary
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_state import SnapshotView
from snapkafka.units import wall_ms

from .cache import Kept

logger = logging.getLogger("snapkafka")

#: Between two attempts to reach a broker that does not answer.
AGAIN_AFTER_S: Final = 1.0
#: A ledger that is behind by more than a request may wait for is an error, not a wrong answer.
CATCH_UP_S: Final = 8.0
#: The broker is asked so often whether it is there: a consumer notices nothing where no record comes.
PROBE_EVERY_S: Final = 3.0
#: A broker that has answered nothing for so long is away.
SILENT_S: Final = 15.0
#: How long a snapshot is restorable changes by the hour; asking costs a request per topic. An answer is good for so
#: many seconds, and is given up to so many while a new one is asked for.
RESTORABLE_FOR_S: Final = (30.0, 120.0)
#: The same of `doctor`, which asks for all topics and groups.
CHECKUP_FOR_S: Final = (30.0, 600.0)
#: So many are asked for at once: behind them the broker and this process have other work.
RESTORABLE_AT_ONCE: Final = 2
#: Of so many snapshots the last answer is kept.
RESTORABLE_KEPT: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewed:
    """A snapshot as the fold knows it: `required`, `reported`, `closed` count processes; `failed` those that had not
    closed when it failed. `decided_ms`: from the trigger to its capture or failure, None while it runs. `waits`: a
    sentence for each thing that it waits for, or waited for when it failed."""

    summary: Summary
    parent: str
    required: int
    reported: int
    closed: int
    failed: int
    decided_ms: int | None
    waits: tuple[str, ...]


class LedgerFollower:
    """The follower of one ledger.

    Args:
        clock: milliseconds since 1970.
    """

    def __init__(self, where: Connection | Cluster, namespace: str, clock: Clock = wall_ms) -> None:
        self.where, self.namespace, self.clock = where, namespace, clock
        #: Counts what was read: a reader that has seen it waits for the next (`changed`).
        self.version = 0
        #: Why the ledger cannot be followed now; None while it is.
        self.problem: SnapkafkaError | None = None
        self._work: Opened | None = None
        self._last: LedgerReading | None = None
        self._news = asyncio.Event()
        self._written = 0  # the end of the ledger after the last record that this service has appended
        self._answered_ms = clock()  # when a broker has answered last
        self._silent = False
        self._opened = 0  # how often the ledger was read from its beginning
        self._latest_good: tuple[int, int | None] = (-1, None)  # the version at which it was looked for
        self._asking = asyncio.Semaphore(RESTORABLE_AT_ONCE)
        self._restorable = Kept(
            self._ask_restorable,
            lambda found: RESTORABLE_FOR_S,
            clock=lambda: clock() / 1_000,
            most=RESTORABLE_KEPT,
        )
        self._checkup = Kept(
            self._ask_checkup, lambda found: CHECKUP_FOR_S, clock=lambda: clock() / 1_000, most=1
        )

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
            written = self._written
            try:
                async with opened(self.where, self.namespace) as work:
                    if self._written == written > work.reading.state.end:
                        self._written = work.reading.state.end  # the rest was lost, or it is another ledger
                    self._work, self._last, self.problem = work, work.reading, None
                    self._answered_ms, self._silent = self.clock(), False
                    self._opened += 1
                    self._restorable.clear()
                    self._checkup.clear()
                    self._notify()
                    async with self._probing(work):
                        async for entry in work.ledger.read(work.reading.state.end):
                            work.reading.apply(entry)
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

    @contextlib.asynccontextmanager
    async def _probing(self, work: Opened) -> AsyncIterator[None]:
        """Ask the broker now and then for the length of a block, so that its silence is noticed."""
        task = asyncio.create_task(self._probe(work))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _probe(self, work: Opened) -> None:
        while True:
            await asyncio.sleep(PROBE_EVERY_S)
            try:
                async with asyncio.timeout(SILENT_S):
                    await work.ledger.end()
            except (SnapkafkaError, TimeoutError):
                pass
            else:
                self._answered_ms = self.clock()
            if (silent := self.clock() - self._answered_ms >= SILENT_S * 1_000) is self._silent:
                continue
            self._silent, self.problem = silent, None
            if silent:
                since = datetime.fromtimestamp(self._answered_ms / 1_000, UTC).strftime("%H:%M:%S")
                self.problem = BrokerUnavailableError(f"no broker has answered since {since} UTC")
                logger.warning("snapkafka: %s", self.problem)
            self._notify()

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
        return self._work is not None and not self._silent

    def wrote(self, end: int) -> None:
        """Note that this service has appended a record below that offset: no later answer lacks it."""
        self._written = max(self._written, end)

    async def answering_from(self, given: int) -> None:
        """Wait until answers hold what this service has written, and what is below an offset that a client was given.

        Raises:
            SnapkafkaError: as `caught_up`.
        """
        wanted = max(self._written, given)
        if wanted and (self._last is None or self._last.state.end < wanted):
            await self.caught_up(wanted)

    @property
    def end(self) -> int:
        """The offset that answers are of: all below it was read, or written by this service."""
        return max(self._written, self._last.state.end if self._last is not None else 0)

    async def caught_up(self, to: int | None = None) -> LedgerReading:
        """Read up to `to`, or up to the ledger's present end.

        Raises:
            SnapkafkaError: it cannot be read, or not within `CATCH_UP_S` seconds.
        """
        try:
            async with asyncio.timeout(CATCH_UP_S):
                if self._silent:
                    assert self.problem is not None, "it names the silence"
                    raise self.problem
                while (work := self._work) is None:
                    if self.problem is not None:
                        raise self.problem
                    await self._news.wait()
                end = await work.ledger.end() if to is None else to
                while work.reading.state.end < end and self._work is work:
                    await self._news.wait()
                if self._work is not work:
                    raise self.problem or TimedOutError(
                        "the ledger is being read again", hint="try again soon"
                    )
                return work.reading
        except TimeoutError:
            raise TimedOutError(
                f"the ledger of {self.namespace} was not read to its end within {CATCH_UP_S:g} s",
                hint="try again soon; a long ledger takes a while when the service starts",
            ) from None

    # -- answers ----------------------------------------------------------------------------------------------

    async def find(self, name: str) -> SnapshotView:
        """Find a snapshot by id, epoch or `latest`, also one that another instance has triggered just now.

        Raises:
            UnknownSnapshotError: the ledger has no such snapshot.
        """
        try:
            if name != LATEST:
                return find_snapshot(self.reading.state, name)
        except SnapkafkaError:
            pass
        return find_snapshot((await self.caught_up()).state, name)

    def view(self, view: SnapshotView) -> Viewed:
        """Describe a snapshot, as far as the ledger knows it."""
        reading = self.reading
        ended = view.failed_at if view.failure is not None else view.captured_at
        start = reading.times_ms[view.epoch - 1]
        waits = reading.state.waiting(view.epoch) if view.captured_at is None else []
        closed = len(view.required & view.closed.keys())
        return Viewed(
            summary=summary(reading, view),
            parent=view.trigger.parent,
            required=len(view.required),
            reported=len(view.required & view.reports.keys()),
            closed=closed,
            failed=len(view.required) - closed if view.failure is not None else 0,
            decided_ms=None if ended is None else max(0, reading.times_ms[ended] - start),
            waits=tuple(str(wait) for wait in waits),
        )

    def basis(self, view: SnapshotView) -> object | None:
        """Return the basis of the answers about a decided snapshot; None: it runs, and they change.

        As long as it is equal, `view` returns an equal result, and `details` one that differs in its age alone.
        """
        if view.open:
            return None
        return (self._opened, view.captured_at, view.failed_at, view.failure, view.contaminated, view.verdict)

    def newest_first(self) -> list[SnapshotView]:
        """List every snapshot of the namespace."""
        return list(reversed(self.reading.state.snapshots.values()))  # the fold has them in order

    def latest_good(self) -> int | None:
        """Return the epoch of the last good snapshot; None: there is none."""
        if self._latest_good[0] != self.version:
            views = reversed(self.reading.state.snapshots.values())
            self._latest_good = self.version, next((view.epoch for view in views if good(view)), None)
        return self._latest_good[1]

    def details(self, view: SnapshotView) -> Details:
        """Return everything that the ledger holds about a snapshot."""
        return details(self.reading, view, self.clock())

    async def checkup(self, within_s: float) -> Checkup:
        """Return the findings of `doctor`; some minutes old at most.

        Raises:
            TimeoutError: the broker does not answer within `within_s` seconds.
            SnapkafkaError: the ledger was never read, or is not followed now.
        """
        if self._work is None:
            raise self.problem or BrokerUnavailableError("no broker answers")
        return await self._checkup.get(self.namespace, within_s)

    async def _ask_checkup(self, namespace: str) -> Checkup:
        work = self._work
        assert work is not None, "asked of a ledger that is followed"
        return await examine(work, namespace, now_ms=self.clock())

    async def restorable(self, epoch: int, within_s: float = CATCH_UP_S) -> RestorableEntry | None:
        """Determine how long the log keeps what a captured snapshot needs, as of two minutes ago at most.

        Returns:
            None: it is not captured.

        Raises:
            TimeoutError: the broker does not answer within `within_s` seconds.
            SnapkafkaError: the broker cannot be asked.
        """
        if find_epoch(self.reading.state, epoch).captured_at is None:
            return None
        if self._work is None:
            return RestorableEntry(how="unknown", why="no broker answers")
        return await self._restorable.get(epoch, within_s)

    async def _ask_restorable(self, epoch: int) -> RestorableEntry:
        work = self._work
        assert work is not None, "asked of a ledger that is followed"
        async with self._asking:
            return await restorable(
                work.admin,
                work.reading.state.captured(epoch),
                cut_ms=work.reading.times_ms[epoch - 1],
                now=self.clock,
            )
