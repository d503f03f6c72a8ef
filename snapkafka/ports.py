"""Describe what snapkafka needs of the world, so that a fake can stand in for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence, Sized
from typing import Protocol

from snapkafka.protocol.records import LedgerRecord, TopicPartition

__all__ = ["Access", "Cluster", "Entry", "Group", "Ledger", "Topic", "TopicAdmin"]


class Entry(Protocol):
    """One place of the ledger; `record` is None for garbage. `timestamp_ms`: when the broker appended it. `refused`:
    garbage for want of a signature that counts; `states`: the record that it would be with one."""

    @property
    def offset(self) -> int: ...

    @property
    def timestamp_ms(self) -> int: ...

    @property
    def record(self) -> LedgerRecord | None: ...

    @property
    def refused(self) -> bool: ...

    @property
    def states(self) -> LedgerRecord | None: ...


class Ledger(Protocol):
    """The one log whose order everybody agrees on."""

    @property
    def topic(self) -> str: ...

    @property
    def keys(self) -> Sized:
        """Those that sign its records; empty: none do."""

    async def open(self, *, create: bool = True) -> None:
        """Find it, or create it."""

    async def append(self, record: LedgerRecord) -> int:
        """Append, and wait until it is safe; returns the offset."""

    def read(self, start: int = 0, *, until: int | None = None) -> AsyncIterator[Entry]:
        """Entries in order, live, or up to `until`."""

    async def start(self) -> int:
        """The first offset that is still there."""

    async def end(self) -> int:
        """The next offset to be written."""

    async def trim(self, upto: int) -> None:
        """Delete what stands below `upto`."""

    async def close(self) -> None: ...


class Topic(Protocol):
    """A topic as the cluster has it."""

    @property
    def partitions(self) -> int: ...

    @property
    def topic_id(self) -> str: ...


class Access(Protocol):
    """Hold what can be done with a topic: our rights (None: unknown), and how many replicas are in sync (0: no
    leader)."""

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
    """Topics, their ends, and who reads them."""

    async def describe_topics(self, topics: Collection[str] | None = None) -> Mapping[str, Topic]:
        """Those that exist, by name."""

    async def log_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The next offset to be written, of each."""

    async def topic_settings(self, topic: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """All settings that hold for a topic, and those among them that were made on the topic itself."""

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> bool:
        """Create a topic, or only ask whether the broker would; False where it was there already."""

    async def alter_settings(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change these settings of a topic and no others; None removes what was made on the topic itself."""

    async def access(self, topic: str) -> Access:
        """Return what we may do with a topic."""

    async def log_starts(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The first offset that is still there, of each."""

    async def record_times(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """When the first record at or past an offset was written, of each that has one."""

    async def record_headers(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Sequence[tuple[str, bytes | None]]]:
        """Return the headers of the record at an offset, of each partition that has one there."""

    async def log_bytes(self, topic: str) -> Mapping[int, int]:
        """How large the log of each partition is, on one replica."""

    async def oldest_ms(self, topic: str) -> int | None:
        """When its oldest record that is still there was written; None: it has none."""

    async def groups(self) -> Sequence[Group]:
        """Every consumer group of the cluster."""

    async def member_ids(self, group: str) -> Sequence[str]:
        """The ids of the members of a consumer group; empty where there is no such group."""

    async def close(self) -> None: ...


class Cluster(Protocol):
    """Where ledgers and topics are; what it gives connects when first used, and is closed by who asked for it."""

    def ledger(self, namespace: str) -> Ledger: ...

    def admin(self) -> TopicAdmin: ...
