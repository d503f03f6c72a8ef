"""Topics, their ends and their readers: `ports.TopicAdmin` on a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Self, cast

from aiokafka import TopicPartition as KafkaPartition
from aiokafka import errors
from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.structs import OffsetAndMetadata

from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError, SnapkafkaError
from snapkafka.kafka.login import clients
from snapkafka.kafka.login.connection import Connection, translated
from snapkafka.kafka.records.read import records_to_end
from snapkafka.ports import Cluster, Group, Member, Topic, TopicAdmin
from snapkafka.protocol.forking import LEDGER
from snapkafka.protocol.records import TopicPartition
from snapkafka.until import EVERY_S, Tries

from .broker_errors import PASSING, ExistingOffsets, ask_patiently, raise_refusal
from .group_hold import GroupHold
from .groups import delete_group, group_members, list_groups
from .requests import DESCRIBE_BIT, END, START, DeleteTopics, ListOffsets, Metadata

#: More replicas than this guard nothing that matters to a snapshot.
REPLICAS_MAX: Final = 3
#: A topic that was just created, or changed, is known to every broker within this time.
CREATED_WITHIN_S: Final = 10.0
#: A topic is asked for by its name.
NO_ID: Final = bytes(16)
#: In the place of the replica that asks for offsets, and of the leader's epoch that it knows.
NOBODY: Final = -1
#: Older names of the retention, and their units.
RETENTION_UNITS_MS: Final = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}
#: The source of a setting that was made on the topic itself, in Kafka's numbering.
SOURCE_TOPIC: Final = 1


class KafkaTopicAdmin:
    """The administration of topics and groups. Connects when first used; `close()` it.

    Every method raises `BrokerUnavailableError` if no broker answers (within about fifteen seconds) and
    `LedgerUnusableError` if a right is missing.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._lock = asyncio.Lock()
        self._admin: Any = None
        self._leaders: dict[TopicPartition, int] = {}  # as they were described last

    # -- topics ----------------------------------------------------------------------------------------------

    async def describe_topics(self, topics: Collection[str] | None = None) -> dict[str, Topic]:
        """Return the topics that exist, by name; all if none are named."""
        async with translated(self.connection, "read the list of topics"):
            response = await self._metadata(topics)
        found = {}
        for it in response.topics:
            if it.error == errors.TopicAuthorizationFailedError.errno and topics is not None:
                raise LedgerUnusableError(
                    f"not allowed to describe topic {it.name}",
                    hint="see docs/reference/ledger.md for the rights that it needs",
                )
            if it.error:
                continue
            # Partitions without a leader (code 5) are counted all the same: they come back.
            self._leaders |= {TopicPartition(it.name, each.number): each.leader for each in it.partitions}
            found[it.name] = Topic(
                partitions=len(it.partitions),
                topic_id=it.id.hex(),
                replicas=min((len(each.replicas) for each in it.partitions), default=0),
                leader_epoch=next((each.epoch for each in it.partitions if each.number == 0), -1),
            )
        return found

    async def replicas(self) -> int:
        """Return how many replicas a new topic gets: as many as there are brokers, at most three."""
        with translated(self.connection, "count the brokers"):
            return min(REPLICAS_MAX, len((await self._metadata([])).brokers))

    async def topic_settings(self, topic: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return all effective settings of a topic, and those among them that were set on the topic itself."""
        entries = await self._settings(ConfigResourceType.TOPIC, topic, f"topic {topic}")
        own = {entry[0]: entry[1] for entry in entries if entry[3] == SOURCE_TOPIC}
        return {entry[0]: entry[1] for entry in entries}, own

    async def topic_defaults(self) -> dict[str, str]:
        """Read the settings of a topic that is created without any, as far as a broker shows them."""
        with translated(self.connection, "list the brokers"):
            node = (await self._metadata([])).brokers[0].node
        entries = await self._settings(ConfigResourceType.BROKER, str(node), "a broker")
        broker = {entry[0]: entry[1] for entry in entries}
        found = {name.removeprefix("log."): value for name, value in broker.items() if value is not None}
        found["max.message.bytes"] = broker["message.max.bytes"]
        for of, unit_ms in RETENTION_UNITS_MS.items():
            if "retention.ms" not in found and (value := broker.get(of)) is not None:
                found["retention.ms"] = str(max(-1, int(value) * unit_ms))
        return found

    async def _settings(self, kind: ConfigResourceType, name: str, what: str) -> list[tuple[Any, ...]]:
        admin, resource = await self._connected(), ConfigResource(kind, name)
        with translated(self.connection, f"read the settings of {what}"):
            (response,) = await ask_patiently(lambda: admin.describe_configs([resource]))
            ((code, why, _, _, entries),) = response.resources
            raise_refusal(code, why, name)
        return list(entries)

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> bool:
        """Create a topic and wait until it is visible; False: it exists already.

        Args:
            replicas: None for those that a new topic gets.
            validate_only: only ask whether the broker would.

        Raises:
            LedgerUnusableError: unauthorized, or the broker refuses, with its own reason.
        """
        admin = await self._connected()
        replicas = replicas or await self.replicas()
        wanted = NewTopic(topic, partitions, replicas, topic_configs=dict(settings or {}))
        with translated(self.connection, f"create topic {topic}"):
            response = await admin.create_topics([wanted], validate_only=validate_only)
            ((_, code, *why),) = response.topic_errors
            there = code == errors.TopicAlreadyExistsError.errno
            if not there:
                raise_refusal(code, why[0] if why else None, topic)
        if not validate_only:
            await self._await_topic(topic)
        return not there

    async def delete_topics(self, *topics: str) -> None:
        """Delete topics; those that do not exist are skipped."""
        admin = await self._connected()
        with translated(self.connection, f"delete {', '.join(topics)}"):
            request = DeleteTopics(list(topics), self.connection.request_timeout_ms)
            for topic in (await admin._send_to_controller(request)).topics:
                if topic.error != errors.UnknownTopicOrPartitionError.errno:
                    raise_refusal(topic.error, topic.why, topic.name)

    async def _await_topic(self, topic: str) -> None:
        async for _ in Tries(CREATED_WITHIN_S, 0.05):
            if topic in await self.describe_topics([topic]):
                return
        raise BrokerUnavailableError(f"topic {topic} was created and is not seen in {CREATED_WITHIN_S:g} s")

    # -- logs ------------------------------------------------------------------------------------------------

    async def log_ends(
        self, partitions: Iterable[TopicPartition], *, stable: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the next offset to be written in each partition that exists; see `ExistingOffsets`.

        Args:
            stable: those below which no transaction is open.
        """
        return await self._offsets(END, partitions, stable=stable)

    async def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition that exists; see `ExistingOffsets`."""
        return await self._offsets(START, partitions)

    async def delete_records(self, tp: TopicPartition, upto: int) -> None:
        """Delete all records below `upto`.

        Raises:
            LedgerUnusableError: deletion is unauthorized.
            BrokerUnavailableError: no broker answers.
        """
        admin = await self._connected()
        with translated(self.connection, f"delete what is old of {tp.topic}"):
            await admin.delete_records({KafkaPartition(*tp): RecordsToDelete(before_offset=upto)})

    async def record_times(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return when the first record at or past an offset was written (ms), for each partition that has one."""
        found = records_to_end(self.connection, positions, "read the age of", first=True)
        return {tp: int(record.timestamp) async for tp, record in found}

    async def record_headers(
        self, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[tuple[str, bytes | None], ...]]:
        """Return the headers of the record at an offset, for each partition that has one there."""
        found = records_to_end(self.connection, positions, "read headers of", first=True)
        return {tp: tuple(record.headers) async for tp, record in found if record.offset == positions[tp]}

    async def _offsets(
        self, where: int, partitions: Iterable[TopicPartition], *, stable: bool = False
    ) -> dict[TopicPartition, int]:
        """Ask the leaders as they were described last; describe new topics, and those whose leader does not answer."""
        found, left = ExistingOffsets(), set(partitions)
        what = f"read the ends of {', '.join(sorted({tp.topic for tp in left}))}"
        deadline = time.monotonic() + self.connection.request_timeout_ms / 1_000
        async with translated(self.connection, what):
            while left:
                if undescribed := {tp.topic for tp in left - self._leaders.keys()}:
                    await self.describe_topics(undescribed)
                    left &= self._leaders.keys()
                asked = defaultdict(list)
                for tp in left:
                    asked[self._leaders.pop(tp)].append(tp)
                for leader, led in asked.items():
                    with contextlib.suppress(errors.KafkaError, OSError):
                        found |= (answered := await self._offsets_of(led, leader, where, stable=stable))
                        self._leaders |= dict.fromkeys(answered, leader)
                if left := left - found.keys():
                    if time.monotonic() > deadline:
                        raise errors.NodeNotReadyError
                    await asyncio.sleep(EVERY_S)
        return found

    async def _offsets_of(
        self, led: Iterable[TopicPartition], leader: int, where: int, *, stable: bool
    ) -> dict[TopicPartition, int]:
        """Ask one broker; what it does not lead, or not yet, is missing in its answer."""
        topics = defaultdict(list)
        for topic, partition in led:
            topics[topic].append((partition, NOBODY, where))
        client = (await self._connected())._client
        answer = await client.send(leader, ListOffsets(NOBODY, stable, [*topics.items()]))
        places = ((of.name, it) for of in answer.topics for it in of.partitions)
        return {TopicPartition(topic, it.number): it.offset for topic, it in places if not it.error}

    # -- groups ----------------------------------------------------------------------------------------------

    async def groups(self) -> list[Group]:
        """List every consumer group of the cluster, by name, with the topics that it reads.

        Raises:
            LedgerUnusableError: without the right to describe the cluster, groups could be missing unnoticed.
        """
        admin = await self._connected()
        with translated(self.connection, "list the consumer groups"):
            cluster = await self._metadata([], rights=True)
            if not cluster.rights >> DESCRIBE_BIT & 1:
                raise LedgerUnusableError(
                    "not allowed to see all consumer groups",
                    hint="it needs DESCRIBE on the cluster (docs/reference/ledger.md)",
                )
            brokers = [broker.node for broker in cluster.brokers]
            return await ask_patiently(lambda: list_groups(admin, brokers))

    async def group_members(self, group: str) -> Sequence[Member]:
        """List the members of a consumer group, of either protocol; none: it does not exist, or is empty.

        Raises:
            LedgerUnusableError: describing it is unauthorized, or it is of another kind.
        """
        admin = await self._connected()
        with translated(self.connection, f"describe group {group}"):
            return await ask_patiently(lambda: group_members(admin, group))

    async def delete_groups(self, *groups: str) -> None:
        """Delete consumer groups; those that do not exist are skipped.

        Raises:
            LedgerUnusableError: one has members, or deletion is unauthorized.
        """
        admin = await self._connected()
        for group in groups:
            with translated(self.connection, f"delete group {group}"):
                await ask_patiently(lambda name=group: delete_group(admin, name))  # type: ignore[misc]

    def hold(self, group: str) -> GroupHold:
        """Create a hold of a consumer group, which is still to be acquired."""
        return GroupHold(self.connection, group)

    async def commit_positions(self, group: str, positions: Mapping[TopicPartition, int], note: str) -> None:
        """Commit positions for a group that has no members, with a note that tools show as its metadata.

        Raises:
            LedgerUnusableError: the group has members, or committing is unauthorized.
        """
        consumer = clients.consumer(self.connection, group_id=group, enable_auto_commit=False)
        with translated(self.connection, f"commit positions for group {group}"):
            try:
                await consumer.start()
                places = {KafkaPartition(*tp): OffsetAndMetadata(at, note) for tp, at in positions.items()}
                consumer.assign(list(places))
                await consumer.commit(places)
            except errors.CommitFailedError as error:
                raise LedgerUnusableError(
                    f"could not commit positions for group {group}: it has members of its own",
                    hint="stop its members; this group is meant for tools that show lag",
                ) from error
            finally:
                await consumer.stop()

    async def committed(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        """Return the committed offsets of a group: position and note of each partition.

        Raises:
            BrokerUnavailableError: no broker answers, or none coordinates the group at the moment.
        """
        admin = await self._connected()
        with translated(self.connection, f"read what group {group} has committed"):
            try:
                found = await ask_patiently(lambda: admin.list_consumer_group_offsets(group))
            except PASSING as error:
                raise BrokerUnavailableError(f"no broker coordinates group {group}: {error}") from error
        return {TopicPartition(tp.topic, tp.partition): (at.offset, at.metadata) for tp, at in found.items()}

    # -- connecting ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; it may be used again afterwards."""
        async with self._lock:
            admin, self._admin = self._admin, None
            if admin is not None:
                await admin.close()

    async def _connected(self) -> Any:
        async with self._lock, translated(self.connection, "connect"):
            if self._admin is None:
                self._admin = await clients.started(clients.admin_client(self.connection))
        return self._admin

    async def _metadata(self, topics: Collection[str] | None, *, rights: bool = False) -> Any:
        """Ask whichever broker answers first for some topics, or all, and for our rights on the cluster. One that
        has just started may know of no broker yet, not even of itself."""
        wanted = None if topics is None else [(NO_ID, topic) for topic in topics]
        request = Metadata(wanted, False, rights, False)
        client = (await self._connected())._client
        if not client.cluster.brokers():
            await client.force_metadata_update()
        nodes = [broker.nodeId for broker in client.cluster.brokers()]
        random.shuffle(nodes)
        failure: Exception = errors.NodeNotReadyError()
        for node in nodes:
            try:
                if (answer := await client.send(node, request)).brokers:
                    return answer
            except (errors.KafkaError, OSError) as error:
                failure = error
        raise failure


@contextlib.asynccontextmanager
async def administration(where: Connection | Cluster) -> AsyncIterator[KafkaTopicAdmin]:
    """Provide the administration of a cluster for the length of the block."""
    admin = KafkaTopicAdmin(where) if isinstance(where, Connection) else cast(KafkaTopicAdmin, where.admin())
    try:
        yield admin
    finally:
        await asyncio.shield(admin.close())


async def namespaces_hint(admin: TopicAdmin) -> str:
    """Advise on a namespace that is missing or unknown: choose one of the cluster, if it has any. Those of forks begin
    with `fork.`."""
    try:
        topics = await admin.describe_topics()
    except SnapkafkaError:
        return "give --namespace, or set SNAPKAFKA_NAMESPACE"
    found = sorted(name.removeprefix(LEDGER) for name in topics if name.startswith(LEDGER))
    if not found:
        return "this cluster has no namespace yet: start a service that calls snapkafka.install"
    return f"this cluster has {', '.join(found)}: choose one by --namespace"
