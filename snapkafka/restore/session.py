"""A snapshot, its tables and the target cluster, while a recovery is planned and run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, cast

from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    LedgerUnusableError,
    PlanChangedError,
    RestoreRefusedError,
    SnapkafkaError,
)
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin, administration
from snapkafka.kafka.cluster.group_hold import HOLDER, GroupHold, GroupTakenError
from snapkafka.kafka.ledger.reading import Opened, latest_of_apps, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.bulk import KafkaBulk
from snapkafka.manifest import Manifest
from snapkafka.ports import Cluster
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.forking import LEDGER
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import Hello
from snapkafka.query.engine import Placed
from snapkafka.query.locate import manifest_places
from snapkafka.runtime.extras import require_extra
from snapkafka.store import read_manifest
from snapkafka.until import Tries
from snapkafka.wire import headers as wire

from .channels import Bulk
from .plan import Plan, Request
from .topics import StoredTables, load

#: A run that was killed keeps its groups until its sessions are over, and a little longer.
LEFT_BEHIND_S: Final = 40.0
POLL_S: Final = 0.5
#: No stamp is of this ledger.
NO_LEDGER: Final = -1
HINTS: Final = {
    "group-has-members": "stop all workers; after kill -9 add --wait 90: Kafka drops them after 60 s",
    "run-at-work": "let the other run finish, or end it: its hold ends 30 s later",
}


@dataclass(slots=True, kw_only=True)
class RecoverySession:
    """A snapshot and its target cluster.

    `placed`: the snapshot. `state`: the fold of the target cluster's ledger, of namespace `namespace`; `topic_id`: of
    that ledger (empty: it does not exist yet).
    """

    where: Connection | Cluster
    request: Request
    admin: KafkaTopicAdmin
    bulk: Bulk
    place: str
    placed: Placed
    tables: StoredTables
    namespace: str
    state: LedgerState
    topic_id: str

    @property
    def manifest(self) -> Manifest:
        return self.placed.manifest

    @property
    def captured(self) -> Captured:
        return self.placed.manifest.captured

    @property
    def ledger_id(self) -> int:
        """The id of the ledger there in stamps; if it does not exist, that of none."""
        return wire.ledger_id(bytes.fromhex(self.topic_id)) if self.topic_id else NO_LEDGER

    @property
    def hellos(self) -> dict[str, Hello]:
        """The latest `Hello` of each app."""
        return {view.hello.app: view.hello for view in latest_of_apps(self.state)}

    async def defaults(self) -> Mapping[str, str]:
        """Read the settings of a topic that is created without any; empty: unauthorized."""
        try:
            return await self.admin.topic_defaults()
        except LedgerUnusableError:
            return {}

    async def settings(self, topic: str) -> Mapping[str, str]:
        """Read the effective settings of a topic; empty: unauthorized."""
        try:
            return (await self.admin.topic_settings(topic))[0]
        except LedgerUnusableError:
            return {}


@asynccontextmanager
async def opened_session(
    where: Connection | Cluster,
    request: Request,
    namespace: Callable[[Manifest], str],
    *,
    pinned: Plan | None = None,
    bulk: Bulk | None = None,
) -> AsyncIterator[RecoverySession]:
    """Open a snapshot and its target cluster.

    Args:
        namespace: returns that of the ledger there.
        pinned: a confirmed plan: its snapshot is opened, whatever the name in the request means by now.
        bulk: for tests; None: by librdkafka.

    Raises:
        PlanChangedError: the snapshot is not the one of the plan any more.
        UnknownSnapshotError, StorageError: it does not exist, or cannot be read.
        DependencyMissingError: the extra `restore` is not installed.
    """
    bulk = usable(where, bulk)
    if pinned is not None:
        place = pinned.place
    else:
        source = None if request.into else where
        (place,) = await manifest_places(
            source, request.namespace, [request.name], storage=request.storage, good=True
        )
    store, manifest = read_manifest(place)
    if pinned is not None and (manifest.content, manifest.id, manifest.attempt, manifest.epoch) != (
        pinned.digest,
        pinned.snapshot,
        pinned.attempt,
        pinned.epoch,
    ):
        raise PlanChangedError(
            f"nothing was changed: {place} is another manifest now: {manifest.id}, attempt {manifest.attempt},"
            f" content {manifest.content[:16]}"
        )
    placed = Placed(store, manifest)
    tables = await load(placed)
    into = namespace(manifest)
    async with admin_of(where) as admin:
        try:
            state, topic_id = await opened_state(where, admin, into)
            yield RecoverySession(
                where=where,
                request=replace(request, name=manifest.id),
                admin=admin,
                bulk=bulk,
                place=place,
                placed=placed,
                tables=tables,
                namespace=into,
                state=state,
                topic_id=topic_id,
            )
        finally:
            if (stop := getattr(bulk, "stop", None)) is not None:
                stop.set()


def usable(where: Connection | Cluster, bulk: Bulk | None) -> Bulk:
    """Return the bulk reader and writer, or create one if there is none.

    Raises:
        DependencyMissingError: the extra `restore` is not installed.
        BadInputError: there is no connection to Kafka.
    """
    if bulk is not None:
        return bulk
    require_extra("restore", "a recovery")
    if not isinstance(where, Connection):
        raise BadInputError("a recovery needs a connection to Kafka", hint="give --bootstrap")
    return cast(Bulk, KafkaBulk(where))


@asynccontextmanager
async def admin_of(where: Connection | Cluster) -> AsyncIterator[KafkaTopicAdmin]:
    """Provide the administration of a cluster for the length of the block."""
    async with administration(where) as admin:
        yield cast(KafkaTopicAdmin, admin)


async def opened_state(
    where: Connection | Cluster, admin: KafkaTopicAdmin, namespace: str
) -> tuple[LedgerState, str]:
    """Read the ledger of a cluster: its fold, and topic id; it need not exist."""
    topic = LEDGER + namespace
    described = await admin.describe_topics([topic])
    if isinstance(where, Connection) and topic not in described:
        return LedgerState(), ""
    try:
        async with opened(where, namespace) as work:
            return work.reading.state, topic_id_of(work, described)
    except LedgerUnusableError:
        if topic in described or isinstance(where, Connection):
            raise
        return LedgerState(), ""


def topic_id_of(work: Opened, described: Mapping[str, object]) -> str:
    """Find the topic id of an open ledger."""
    found = described.get(work.ledger.topic)
    return str(getattr(work.ledger, "topic_id", "") or getattr(found, "topic_id", ""))


@asynccontextmanager
async def held(
    admin: KafkaTopicAdmin,
    groups: Iterable[str],
    notify: Callable[[str], None],
    refused: type[SnapkafkaError] = RestoreRefusedError,
) -> AsyncIterator[dict[str, GroupHold]]:
    """Hold consumer groups: no worker joins them, no other run sets their offsets, until this ends.

    A killed run keeps them until its sessions end; this waits for that.

    Raises:
        RestoreRefusedError, or `refused`: one has members; nothing was changed.
    """
    holds = {group: admin.hold(group) for group in sorted(groups)}
    acquired: list[GroupHold] = []
    try:
        for hold in holds.values():
            await _acquire(admin, hold, notify, refused)
            acquired.append(hold)
        yield holds
    except BrokerUnavailableError:  # a process that was suspended meets the time-outs of its requests first
        for hold in acquired:
            hold.require()
        raise
    finally:
        for hold in acquired:
            await asyncio.shield(hold.release())


async def _acquire(
    admin: KafkaTopicAdmin, hold: GroupHold, notify: Callable[[str], None], refused: type[SnapkafkaError]
) -> None:
    said, code = False, "run-at-work"
    async for _ in Tries(LEFT_BEHIND_S, POLL_S):
        try:
            return await hold.acquire()
        except GroupTakenError:
            members = await admin.group_members(hold.group)
        if any(member.client != HOLDER for member in members):
            code = "group-has-members"
            break
        if not said:
            notify(f"waiting for another run to end: it holds consumer group {hold.group}")
            said = True
    hosts = ", ".join(sorted({it.host.lstrip("/") for it in members}))
    raise refused(
        f"nothing was changed: consumer group {hold.group} is in use on {hosts} ({code})", hint=HINTS[code]
    )
