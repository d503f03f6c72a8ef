"""A worker that honours a restore: it waits while the restore runs, and knows which records are older.

The rules come from the ledger (`protocol.restores`); this module applies them to Faust.

* A worker that starts between `begun` and `done` waits for `done`, ten minutes at most: the restore sets the group's
  offsets, and what runs meanwhile would run on half a state. One that runs already when a plan begins was suspended,
  or started at the same moment: it crashes, for what it has in memory is of the time before.
* So it does while the group is held (`kafka.cluster.group_hold`), which the ledger does not show. The broker refuses
  who joins then, and aiokafka takes that for final: the worker would run for ever, without inputs. It crashes instead.
* A store on the disk from before is removed, and recovered from the changelog.
* A record goes only to the agents that have not processed it; one of a process from before is taken out.
* Where the ledger cannot be read and the metadata of the group's offsets names a plan, or where the group has lost the
  offset of a restored input, it does not start. This is the one place that fails closed (R15).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import InconsistentGroupProtocolError

from snapkafka.errors import InstallError, SnapkafkaError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.cluster.group_hold import HOLDER
from snapkafka.logs import about
from snapkafka.protocol.records import TopicPartition
from snapkafka.protocol.restores import RESTORED_METADATA, Base, Restores, Rule

from ..ledger import RETRY_S

if TYPE_CHECKING:
    from .driver import FaustDriver

logger = logging.getLogger("snapkafka")

#: A worker waits so long for a restore that is open, or holds its group.
WAIT_S: Final = 600.0
#: So long a worker without an id waits for what its group has committed; a broker that is away holds it up anyway.
ANSWERS_WITHIN_S: Final = 10.0
#: In the folder of a table partition: the plan since which it was written.
MARK: Final = "snapkafka-plan"


class RestoreScope:
    """The rules of restores for one partition, kept up to date, and read for every incoming record.

    Attributes:
        until: below this offset some agent skips records; 0: none does.
        author: records of processes below this one are void from the base on; 0: there is no base.
        rules: the offsets that each agent skips.
        plan: the latest plan, for the metadata of commits.
    """

    __slots__ = ("author", "plan", "rules", "until")

    def __init__(self) -> None:
        self.until = self.author = 0
        self.rules: Mapping[str, Rule] = {}
        self.plan = ""

    def skipping(self, offset: int) -> set[str]:
        """Return the agents that skip the record at `offset`."""
        return {agent for agent, rule in self.rules.items() if not rule.takes(offset)}


class AppliedRestores:
    """The restores of one app, as its worker applies them."""

    def __init__(self, driver: FaustDriver) -> None:
        self._driver = driver
        self._scopes: dict[TopicPartition, RestoreScope] = {}
        self.joined = False  # its group
        self.skips = False  # does an agent skip records of any partition?
        self._runs_on: frozenset[str] = frozenset()  # plans that were committed before

    @property
    def _restores(self) -> Restores:
        return self._driver.machine.ledger.restores

    # -- before the worker joins its group ------------------------------------------------------------------------

    async def await_turn(self, topics: Collection[str]) -> None:
        """Wait until no restore of this app is open or holds its group.

        Args:
            topics: that the worker subscribes to.

        Raises:
            InstallError: that takes too long; or a restore has set where the inputs start, and nobody knows that.
        """
        driver, app, logged = self._driver, self._driver.app.conf.id, ""
        if driver.machine.process is None:
            ledger = "" if driver.absent else f", and the ledger {driver.ledger.topic} cannot be read"
            why = f"takes no part: it {driver.absent}" if driver.absent else f"has no id{ledger}"
            await refuse_restored(driver.app, f"this worker {why}")
        if driver.absent:
            return
        try:
            async with asyncio.timeout(WAIT_S):
                while reason := await self._waits_for():
                    if reason != logged:
                        logged = reason
                        logger.warning("snapkafka: app %s waits: %s", app, reason, extra=driver.about())
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(driver.follower.changed(), RETRY_S)
        except TimeoutError as error:
            raise InstallError(
                f"app {app} has waited for {WAIT_S / 60:.0f} min: {logged}",
                hint="finish the restore, then start it again",
            ) from error
        if logged:
            logger.warning("snapkafka: that is done, app %s continues", app, extra=driver.about())
        await self._require_committed(topics)
        self._runs_on = self._restores.restored(app)
        self.joined = True

    async def _waits_for(self) -> str:
        """Return the reason not to join the group yet; empty: there is none."""
        app = self._driver.app.conf.id
        if (view := self._restores.holds(app)) is not None:
            into = " --into ..." * bool(view.begun.origin)
            return (
                f"{view} is {view.stage}, and no input is read before it is done (`snapkafka restore"
                f" {view.begun.snapshot}{into}` finishes it)"
            )
        with contextlib.suppress(SnapkafkaError):  # who may not see that joins, and crashes if it is refused
            if any(member.client == HOLDER for member in await self._driver.admin.group_members(app)):
                return f"a restore holds consumer group {app}, or was killed a moment ago"
        return ""

    async def _require_committed(self, topics: Collection[str]) -> None:
        """Refuse to start where the group has lost the offset of a restored input: the app's reset policy would pass
        over, or run again, what the restore has put there. The ledger knows where it starts."""
        app, ledger = self._driver.app.conf.id, self._driver.machine.ledger
        if not any(tp.topic in topics for tp in ledger.restores.starts(app)):
            return
        try:
            committed = await self._driver.admin.committed(app)
        except SnapkafkaError as error:
            raise InstallError(
                f"app {app} was restored, and what its group has committed is unknown: {error}",
                hint=error.hint,
            ) from error
        starts = ledger.restored_starts(app)
        lost = sorted(tp for tp in starts.keys() - committed.keys() if tp.topic in topics)
        if lost:
            raise InstallError(
                f"group {app} has committed nothing any more for {', '.join(map(str, lost))}, where a restore has put"
                " it: the broker has deleted its offsets",
                hint="; ".join(
                    f"kafka-consumer-groups --reset-offsets --execute --group {app} --topic {tp.topic}:{tp.partition}"
                    f" --to-offset {starts[tp]}"
                    for tp in lost
                ),
            )

    # -- the ledger -----------------------------------------------------------------------------------------------

    def ledger_read(self) -> None:
        """Renew the rules: a record was read that may change them, or the ledger is another one."""
        for tp, scope in self._scopes.items():
            self._renew(tp, scope)
        if self.joined and (restore := self._not_run_on()):
            self.joined = False
            crash(self._driver, f"app {self._driver.app.conf.id} {restore}, and this worker has run before")

    def _not_run_on(self) -> str:
        """Describe a restore that is newer than this worker's memory; empty: there is none.

        A restore that is over may never have been seen open: a checkpoint may stand for the records of a worker's
        absence.
        """
        app = self._driver.app.conf.id
        if (view := self._restores.holds(app)) is not None:
            return f"is being restored ({view})"
        later = self._restores.restored(app) - self._runs_on
        return f"was restored (plan {min(later)})" if later else ""

    def scope(self, tp: TopicPartition) -> RestoreScope:
        """Return the rules of restores for a partition; the object stays the same."""
        scope = self._scopes.get(tp)
        if scope is None:
            scope = self._scopes[tp] = RestoreScope()
        self._renew(tp, scope)
        return scope

    def _renew(self, tp: TopicPartition, scope: RestoreScope) -> None:
        restores = self._restores
        scope.rules = restores.rules(self._driver.app.conf.id, tp) if restores.bases else {}
        scope.until = max((rule.spent for rule in scope.rules.values()), default=0)
        base = self.base(tp)
        self.skips = any(scope.until for scope in self._scopes.values())
        scope.author, scope.plan = (0, "") if base is None else (base.author, base.plan)

    def commit_note(self, offsets: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Note in offsets that are to be committed, as aiokafka takes them, where agents skip records above them (D6);
        also in the thread of the consumer. After a fault of ours the offsets are unchanged (R15)."""
        try:
            noted = dict(offsets)
            for tp, offset in offsets.items():
                scope = self._scopes.get(TopicPartition(tp.topic, tp.partition))
                at: int = offset if isinstance(offset, int) else offset[0]
                if scope is not None and at < scope.until:
                    noted[tp] = (at, RESTORED_METADATA + scope.plan)
        except Exception as error:
            self._driver.stand_down("to keep metadata in commits", error)
            return offsets
        return noted

    def base(self, tp: TopicPartition) -> Base | None:
        """Return where the records after the latest restore start in a partition."""
        return self._restores.bases.get(TopicPartition(*tp))

    @property
    def anything(self) -> bool:
        """Whether anything was restored."""
        return bool(self._restores.bases)

    def is_void(self, process: int, tp: TopicPartition, offset: int) -> bool:
        """Return whether a record was written by a process that is older than the latest restore."""
        void = self._driver.machine.ledger.is_void(process, tp, offset)
        self._driver.metrics.count("ignored", "before-a-restore", void)
        return void

    # -- stores ---------------------------------------------------------------------------------------------------

    def renew_store(self, table: Any, tp: TopicPartition, ask: Callable[[Any], int | None]) -> None:
        """Remove the store of a table partition if it is older than a restore (D1), or of another cluster.

        `reset_state` is not used: it removes the tables of all partitions.

        Args:
            table: Faust's.
            tp: of its changelog.
            ask: for the offset up to which the store has read it.
        """
        base, store = self.base(tp), store_of(table, tp.partition)
        if base is None or store is None or _read(mark := store / MARK) == base.plan:
            return
        removed = False
        if store.exists():
            offset = None if base.elsewhere else ask(tp)
            if offset is None or offset < base.end:
                _close(table, tp.partition)
                shutil.rmtree(store)
                removed = True
        store.mkdir(parents=True, exist_ok=True)
        mark.write_text(base.plan, "utf-8")
        if removed:
            logger.warning(
                "snapkafka: removed %s, which is of before plan %s: table %s is read again from its changelog",
                store,
                base.plan,
                table.name,
                extra=self._driver.about(),
            )


def keep_metadata(restored: AppliedRestores, client: Any) -> None:
    """Patch the `commit` of aiokafka's consumer, so that it notes what agents skip. Nothing is restored while the
    worker runs."""
    if not restored.anything:
        return
    commit = client.commit

    async def commit_with_metadata(offsets: Any = None) -> None:
        await commit(restored.commit_note(offsets) if offsets and restored.skips else offsets)

    client.commit = commit_with_metadata


def crash(driver: FaustDriver, why: str) -> None:
    """Crash a worker that may not go on."""
    error = InstallError(why, hint="start it again: it waits until the restore is done")
    logger.error("snapkafka: %s; %s", error, error.hint, extra=driver.about())
    driver.spawn(driver.app.crash(error))


def crash_if_refused(driver: FaustDriver, client: Any) -> None:
    """Crash when the broker refuses the worker because its group is held: aiokafka would not try again.

    Args:
        client: aiokafka's consumer, which has subscribed; it runs in a thread of its own.
    """
    why = f"consumer group {driver.app.conf.id} is held by a restore; the broker refused this worker"

    def ended(task: asyncio.Future[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and isinstance(error.__cause__, InconsistentGroupProtocolError):
            driver.loop.call_soon_threadsafe(crash, driver, why)

    joins = getattr(client._coordinator, "_coordination_task", None)
    if joins is not None:  # `app.start_client()` joins no group
        joins.get_loop().call_soon_threadsafe(joins.add_done_callback, ended)


async def refuse_restored(app: Any, why: str) -> None:
    """Refuse to start a worker that does not know the rules of a restore, where one has set its group's offsets (D6).
    They are read by the app's own connection.

    Args:
        app: a `faust.App` that is about to start.
        why: it does not know them.

    Raises:
        InstallError: it has, and the group has not passed what agents skip.
    """
    from .support import connection_of

    try:
        async with asyncio.timeout(ANSWERS_WITHIN_S), KafkaTopicAdmin(connection_of(app)) as admin:
            notes = {note for _, note in (await admin.committed(app.conf.id)).values()}
    except Exception as error:  # it runs without us, so nothing of ours stops it
        level = logging.WARNING if isinstance(error, SnapkafkaError | TimeoutError) else logging.DEBUG
        logger.log(
            level, "snapkafka: could not check whether this app was restored: %r", error, extra=about()
        )
        return
    plans = [note.removeprefix(RESTORED_METADATA) for note in notes if note.startswith(RESTORED_METADATA)]
    if plans:
        raise InstallError(
            f"the offsets of group {app.conf.id} were set by a restore (plan {', '.join(sorted(plans))}), and {why}",
            hint="start it with snapkafka until every input has passed these offsets: else events run twice",
        )


def _read(mark: Path) -> str:
    try:
        return mark.read_text("utf-8")
    except (OSError, ValueError):
        return ""


def _close(table: Any, partition: int) -> None:
    store = getattr(table.data, "storage", table.data)
    opened = store._dbs.pop(partition, None)
    if opened is not None:
        with contextlib.suppress(AttributeError):  # python-rocksdb closes when nothing refers to it
            opened.close()
    del opened
    gc.collect()


def store_of(table: Any, partition: int) -> Path | None:
    """Return where a table keeps a partition on disk; None: it lies in memory, or the place is unknown."""
    store = getattr(table.data, "storage", table.data)
    path = getattr(store, "partition_path", None)
    return None if path is None else Path(path(partition))
