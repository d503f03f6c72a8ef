"""The needs of snapkafka, as interfaces that a fake can implement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from snapkafka.protocol.records import LedgerRecord, TopicPartition

#: What a reader of the ledger does after each gulp.
Rest = Callable[[], Awaitable[None]]
#: The time of an offset that holds no record: the end of a transaction, for one.
HOLE: Final = -1
#: The id that Kafka gives to no topic.
NO_TOPIC: Final = "0" * 32


class Entry(NamedTuple):
    """One place of the ledger. `record` is None for garbage. `timestamp_ms`: when the broker appended it, 0 if unknown,
    `HOLE` if there is no record at all: the entry only shows that reading has got there."""

    offset: int
    timestamp_ms: int
    record: LedgerRecord | None


class Ledger(Protocol):
    """The one log whose order all processes agree on."""

    @property
    def topic(self) -> str: ...

    async def open(self, *, create: bool = True) -> None:
        """Find the ledger, or create it."""

    async def append(self, record: LedgerRecord) -> int:
        """Append, and wait until the record is safe; return its offset."""

    def read(
        self, start: int = 0, *, until: int | None = None, rest: Rest | None = None
    ) -> AsyncIterator[Entry]:
        """Yield entries in order, live, or up to `until`; with a rest after each gulp if wanted. Where what stands at
        `start` was deleted: from the beginning, as `LedgerState.apply` takes it."""

    async def end(self) -> int:
        """Return the next offset to be written."""

    async def trim(self, upto: int) -> None:
        """Delete all records below `upto`."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster has it. `topic_id`: Kafka's own, 32 hex digits. `replicas`: of the partition with the
    fewest. `leader_epoch`: of the first partition, which only loses records when it has a new one (-1: unknown)."""

    partitions: int
    topic_id: str = NO_TOPIC
    replicas: int = 0
    leader_epoch: int = -1


class Member(NamedTuple):
    """A member of a group: its id, the client's own name, and the host from which it connects."""

    member: str
    client: str
    host: str


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group. `topics`: those that it reads or has read; None: unknown."""

    name: str
    topics: frozenset[str] | None
    members: Sequence[Member] = ()


class TopicAdmin(Protocol):
    """Topics, their ends, and the groups that read them."""

    async def describe_topics(self, topics: Collection[str] | None = None) -> Mapping[str, Topic]:
        """Return the topics that exist, by name."""

    async def log_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the next offset to be written in each partition."""

    async def topic_settings(self, topic: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return all effective settings of a topic, and those among them that were set on the topic itself."""

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> bool:
        """Create a topic, or only ask whether the broker would; False: it exists already."""

    async def log_starts(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offset that exists in each partition."""

    async def record_times(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return when the first record at or past an offset was written, for each partition that has one."""

    async def record_headers(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Sequence[tuple[str, bytes | None]]]:
        """Return the headers of the record at an offset, for each partition that has one there."""

    async def groups(self) -> Sequence[Group]:
        """List every consumer group of the cluster."""

    async def group_members(self, group: str) -> Sequence[Member]:
        """List the members of a consumer group."""

    async def committed(self, group: str) -> Mapping[TopicPartition, tuple[int, str]]:
        """Return what a consumer group has committed: position and note of each partition."""

    async def close(self) -> None: ...


class Cluster(Protocol):
    """The cluster of ledgers and topics; its clients connect when first used, and are closed by the caller."""

    def ledger(self, namespace: str) -> Ledger: ...

    def admin(self) -> TopicAdmin: ...
