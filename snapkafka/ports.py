"""The needs of snapkafka, as interfaces that a fake can implement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from snapkafka.protocol.records import LedgerRecord, TopicPartition


class Entry(Protocol):
    """One place of the ledger; `record` is None for garbage. `timestamp_ms`: when the broker appended it."""

    @property
    def offset(self) -> int: ...

    @property
    def timestamp_ms(self) -> int: ...

    @property
    def record(self) -> LedgerRecord | None: ...


class Gulps(Protocol):
    """The rests of a reader of the ledger."""

    async def rest(self) -> None:
        """Rest, if it is time for that."""


class Ledger(Protocol):
    """The one log whose order all processes agree on."""

    @property
    def topic(self) -> str: ...

    async def open(self, *, create: bool = True) -> None:
        """Find the ledger, or create it."""

    async def append(self, record: LedgerRecord) -> int:
        """Append, and wait until the record is safe; return its offset."""

    def read(
        self, start: int = 0, *, until: int | None = None, gulps: Gulps | None = None
    ) -> AsyncIterator[Entry]:
        """Yield entries in order, live, or up to `until`; with a rest after each gulp if wanted."""

    async def start(self) -> int:
        """Return the first offset that exists."""

    async def end(self) -> int:
        """Return the next offset to be written."""

    async def trim(self, upto: int) -> None:
        """Delete all records below `upto`."""

    async def close(self) -> None: ...


class Topic(Protocol):
    """A topic as the cluster has it."""

    @property
    def partitions(self) -> int: ...

    @property
    def topic_id(self) -> str: ...


class Access(Protocol):
    """The access to a topic: our rights (None: unknown), and how many replicas are in sync (0: no leader)."""

    @property
    def rights(self) -> frozenset[str] | None: ...

    @property
    def in_sync(self) -> int: ...


class Group(Protocol):
    """A consumer group, and the topics that it reads or has read; None where that cannot be determined."""

    @property
    def name(self) -> str: ...

    @property
    def members(self) -> Sequence[object]: ...

    @property
    def topics(self) -> frozenset[str] | None: ...


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

    async def access(self, topic: str) -> Access:
        """Return our access to a topic."""

    async def log_starts(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offset that exists in each partition."""

    async def record_times(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return when the first record at or past an offset was written, for each partition that has one."""

    async def record_headers(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Sequence[tuple[str, bytes | None]]]:
        """Return the headers of the record at an offset, for each partition that has one there."""

    async def log_bytes(self, topic: str) -> Mapping[int, int]:
        """Return the size of each partition's log, on one replica."""

    async def groups(self) -> Sequence[Group]:
        """List every consumer group of the cluster."""

    async def members(self, group: str) -> int:
        """Count the members of a consumer group."""

    async def committed(self, group: str) -> Mapping[TopicPartition, tuple[int, str]]:
        """Return what a consumer group has committed: position and note of each partition."""

    async def close(self) -> None: ...


class Cluster(Protocol):
    """The cluster of ledgers and topics; its clients connect when first used, and are closed by the caller."""

    def ledger(self, namespace: str) -> Ledger: ...

    def admin(self) -> TopicAdmin: ...
