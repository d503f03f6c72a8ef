"""The entries of a manifest: its tables and their files, its checks with their witnesses, and the facts beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedEntry:
    """The time at which the record at an offset of the ledger was appended, by the ledger's clock, milliseconds since
    1970."""

    offset: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """The ledger of the snapshot. `topic_id` is Kafka's own, 32 hex digits: headers carry a hash of it.

    `triggered_ms`: when the trigger was appended, by the ledger's clock, milliseconds since 1970; 0: unknown.
    `appended`: the same for the reports and closings of its processes, as far as known.
    """

    topic: str
    topic_id: str
    triggered_ms: int = 0
    appended: tuple[AppendedEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times for people, ISO 8601 in UTC; they only decide which of two ledgers of a storage is the newer."""

    assembled_at: str
    verified_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table, its type in Spark's words (`bigint`, `map<string,binary>`)."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file of a table: its path relative to the storage, its size in bytes, its rows, the SHA-256 of its bytes."""

    path: str
    bytes: int
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """A table: `path` is relative to the storage; `digest` is the sum over its rows of a 64-bit hash, as a decimal."""

    name: str
    path: str
    rows: int
    digest: str
    schema: tuple[Column, ...]
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessEntry:
    """A record (or a row of an invariant's result) that a check found, and what is wrong with it. `kind`: as in
    docs/reference/findings.md; empty: of an invariant, whose place is that of the row, or "", -1, -1."""

    topic: str
    partition: int
    offset: int
    what: str
    process: int = -1
    seq: int = -1
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEntry:
    """A check and its result. `run` false: it was not run, which is not a success (`status` is then "not-run").

    `found` counts the witnesses that accuse, of which `witnesses` holds the first 20; `noted` counts harmless findings
    (a record that a producer sent twice), of which `notes` holds the first 20. `records`, `partitions`, `channels`:
    how many the check has read (`snapkafka.checks.coverage`); None: unknown. `replayed`: how many of the notes a
    restore runs again.
    """

    name: str
    run: bool = True
    status: str
    found: int = 0
    witnesses: tuple[WitnessEntry, ...] = ()
    noted: int = 0
    notes: tuple[WitnessEntry, ...] = ()
    records: int | None = None
    partitions: int | None = None
    channels: int | None = None
    replayed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantEntry:
    """An invariant (V6) as it was run, with its parameters filled in: verification can run it again."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEntry:
    """Offsets `[start, end)` of a partition that verification has read."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorableEntry:
    """The time for which the log keeps the records of the snapshot, as far as it could be determined when this was
    written.

    `how`: "until" (kept until then, deleted soon after), "from" (kept until then, after that it is unknown), "always",
    "gone", "unknown". `until`: ISO 8601 in UTC, empty if unknown. `topic`, `partition`: the first to be deleted.
    """

    how: str
    until: str = ""
    topic: str = ""
    partition: int = -1
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentEntry:
    """A snapshot that an incremental one builds on: the folder of its rows of state, and their digest."""

    id: str
    epoch: int
    path: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEntry:
    """A consumer group without snapkafka that reads outputs, while inputs hold external records.

    `group` empty: groups could not be seen. `topics`: the outputs that it reads; empty: unknown.
    """

    group: str
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalEntry:
    """An input topic that holds external records in the offsets that the snapshot reads.

    `mixed`: processes of the snapshot write there as well. `declared`: a user declares that external records there are
    no effects of the snapshot's apps (`install(sources=...)`, `sources`).
    """

    topic: str
    mixed: bool
    declared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsiderEntry:
    """A process that is not part of the snapshot and may have passed on something red: apps of the snapshot have
    received records of it in `topic` since the trigger. `app`: empty where the ledger does not name it."""

    process: int
    app: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """A topic of the snapshot (input, changelog or output) as it was at assembly: a restore compares it.

    `settings`: those of the topic itself, by Kafka's names; empty if unauthorized.
    """

    name: str
    topic_id: str
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """The log of an input or a changelog at assembly: a restore compares it, to see whether it was shortened since.

    `start`: its first offset when the rows of the snapshot were read; for a changelog of an incremental snapshot, when
    the rows of its full snapshot were read. `end`: up to where it could be read, at or past the cut. `settled`: of a
    changelog, the offset below which nothing is red for the snapshot: its state contains all records below, and an
    incremental snapshot that builds on it starts to read there.
    """

    topic: str
    partition: int
    topic_id: str
    start: int
    end: int
    settled: int | None = None
