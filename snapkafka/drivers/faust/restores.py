"""A worker that honours a restore: it waits while the restore runs, and knows which records are older.

The rules come from the ledger (`protocol.restores`); this module applies them to Faust.

* A worker that starts between `begun` and `done` waits, ten minutes at most: what runs meanwhile would run on half a
  state. One that runs already crashes, for what it has in memory is of the time before.
* It waits until the group is let go, too (`kafka.cluster.group_hold`): aiokafka takes a broker's refusal for final.
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
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiokafka.structs import OffsetAndMetadata

from snapkafka.errors import InstallError, SnapkafkaError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.logs import about
from snapkafka.protocol.records import TopicPartition
from snapkafka.protocol.restores import RESTORED_METADATA, Base, Restores, Rule

from .describe import connection_of

if TYPE_CHECKING:
    from .driver import FaustDriver

logger = logging.getLogger("snapkafka")

#: So long a worker without an id waits for what its group has committed; a broker that is away holds it up anyway.
ANSWERS_WITHIN_S: Final = 10.0
#: In the folder of a table partition: the plan since which it was written.
MARK: Final = "snapkafka-plan"


class AppliedRestores:
    """The restores of one app, as its worker applies them."""

    def __init__(self, driver: FaustDriver) -> None:
        self._driver = driver
        self.joined = False  # its group
        self._runs_on: frozenset[str] = frozenset()  # plans that were committed before
        self.bases: Mapping[TopicPartition, Base] = {}  # where records after the latest restore start

    @property
    def _restores(self) -> Restores:
        return self._driver.machine.ledger.restores

    # -- before the worker joins its group ------------------------------------------------------------------------

    async def await_turn(self, topics: Collection[str]) -> None:
        """Wait until no restore of this app is open.

        Args:
            topics: that the worker subscribes to.

        Raises:
            InstallError: that takes too long; or a restore has set where the inputs start, and nobody knows that.
        """
        driver, app = self._driver, self._driver.app.conf.id
        if driver.machine.process is None:
            ledger = "" if driver.absent else f", and the ledger {driver.ledger.topic} cannot be read"
            why = f"takes no part: it {driver.absent}" if driver.absent else f"has no id{ledger}"
            await refuse_restored(driver.app, f"this worker {why}")
        if driver.absent:
            return
        await driver.follower.for_restore(app)
        await self._require_committed(topics)
        self._runs_on = self._restores.restored(app)
        self.joined = True

    async def _require_committed(self, topics: Collection[str]) -> None:
        """Refuse to start where the group has lost the offset of a restored input: the app's reset policy would pass
        over, or run again, what the restore has put there."""
        app = self._driver.app.conf.id
        starts = {tp: at for tp, at in self._restores.starts(app).items() if tp.topic in topics}
        if not starts:
            return
        try:
            committed = await self._driver.admin.committed(app)
        except SnapkafkaError as error:
            raise InstallError(
                f"app {app} was restored, and what its group has committed is unknown: {error}",
                hint=error.hint,
            ) from error
        if lost := sorted(starts.keys() - committed.keys()):
            places = ", ".join(f"{tp} (a restore put it at {starts[tp]})" for tp in lost)
            raise InstallError(
                f"group {app} has committed nothing any more for {places}: the broker has deleted its offsets",
                hint="`snapkafka restore latest` sets offsets and tables together; with offsets alone, set by hand,"
                " events run twice or are skipped",
            )

    # -- the ledger -----------------------------------------------------------------------------------------------

    def ledger_read(self) -> None:
        """Note that a record was read that may be of a restore, or the ledger is another one. A worker whose memory is
        older crashes: so the rules of its app never change while it runs."""
        self.bases = self._restores.bases
        if self.joined and (restore := self._not_run_on()):
            self.joined = False
            error = InstallError(
                f"app {self._driver.app.conf.id} {restore}, and this worker has run before",
                hint="start it again: it waits until the restore is done",
            )
            self._driver.log("%s; %s", error, error.hint, level=logging.ERROR)
            self._driver.spawn(self._driver.app.crash(error))

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

    def rules(self, tp: TopicPartition) -> dict[str, Rule]:
        """Return what the agents of the app take of an input, by agent; without a rule an agent takes all of it."""
        return self._restores.rules(self._driver.app.conf.id, tp)

    def until(self, tp: TopicPartition) -> int:
        """Return the offset below which some agent skips records of an input; 0: none does."""
        return max((rule.spent for rule in self.rules(tp).values()), default=0)

    def commit_note(self, offsets: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Note in offsets that are to be committed, as aiokafka has them, where agents skip records above them (D6);
        also in the thread of the consumer. After a fault of ours the offsets are unchanged (R15)."""
        try:
            noted = dict(offsets)
            for there, (offset, _) in offsets.items():
                tp = TopicPartition(*there)
                if tp in self.bases and offset < self.until(tp):
                    noted[there] = OffsetAndMetadata(offset, RESTORED_METADATA + self.bases[tp].plan)
        except Exception as error:
            self._driver.stand_down("to keep metadata in commits", error)
            return offsets
        return noted

    # -- stores ---------------------------------------------------------------------------------------------------

    def renew_store(self, table: Any, tp: TopicPartition) -> None:
        """Remove the store of a table partition, of this changelog, that may be older than a restore (D1): it is not
        marked as written since. `reset_state` is not used: it removes the tables of all partitions."""
        base, store = self.bases.get(TopicPartition(*tp)), store_of(table, tp.partition)
        if base is None or store is None:
            return
        with contextlib.suppress(OSError, ValueError):
            if (mark := store / MARK).read_text("utf-8") == base.plan:
                return
        if store.exists():
            _close(table, tp.partition)
            shutil.rmtree(store)
            text = "removed %s, which may be of before plan %s: table %s is read again from its changelog"
            self._driver.log(text, store, base.plan, table.name)
        store.mkdir(parents=True)
        mark.write_text(base.plan, "utf-8")


def keep_metadata(restored: AppliedRestores, client: Any) -> None:
    """Patch the `commit` of aiokafka's consumer, so that it notes what agents skip. Nothing is restored while the
    worker runs."""
    if not restored.bases:
        return
    commit = client.commit

    async def commit_with_metadata(offsets: Any = None) -> None:
        await commit(restored.commit_note(offsets) if offsets else offsets)

    client.commit = commit_with_metadata


async def refuse_restored(app: Any, why: str) -> None:
    """Refuse to start a worker that does not know the rules of a restore, where one has set its group's offsets (D6).
    They are read by the app's own connection.

    Args:
        app: a `faust.App` that is about to start.
        why: it does not know them.

    Raises:
        InstallError: it has, and the group has not passed what agents skip.
    """
    try:
        async with asyncio.timeout(ANSWERS_WITHIN_S), KafkaTopicAdmin(connection_of(app)) as admin:
            notes = {note for _, note in (await admin.committed(app.conf.id)).values()}
    except Exception as error:  # it runs without us, so nothing of ours stops it
        if isinstance(error, SnapkafkaError | TimeoutError):
            logger.warning(
                "snapkafka: could not check whether this app was restored: %r", error, extra=about()
            )
        return
    plans = sorted(it.removeprefix(RESTORED_METADATA) for it in notes if it.startswith(RESTORED_METADATA))
    if plans:
        named = ", ".join(plans)
        what = f"the offsets of group {app.conf.id} were set by a restore (plan {named}), and {why}"
        hint = "start it with snapkafka until every input has passed these offsets: else events run twice"
        raise InstallError(what, hint=hint, plans=plans)


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
