"""The manifest: one JSON file with the content of a snapshot, the location of its tables, and its verdict.

It is written last, and whole or not at all: without a manifest there is no snapshot (R13). It holds the whole vector
of offsets (`captured`), so that anybody with the manifest and the broker can verify the snapshot again, in another
process, as long as the log keeps the records.

    <storage>/<snapshot id>.json                                the manifest
    <storage>/<snapshot id>/run-<hex>/<table>/part-*.parquet    the tables

Two assemblies of one snapshot have the same `content` digest: it covers the rows of the tables, in any order, and
neither file names nor times. An incremental snapshot has, in the place of the table `state`, a table `state_delta`: the
keys that have changed since its parent. `parents` lists the snapshots whose rows make up the rest; `content` covers
those by their digests. The format is described by `schemas/manifest.schema.json`; `version` rises when a reader
of the old one could misread the new one, fields that are merely new are skipped by older readers.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from snapkafka.errors import BadInputError
from snapkafka.protocol.captured_snapshot import Captured

MANIFEST_VERSION: Final = 2
#: How `TableEntry.digest` is made of rows: MessagePack of each, its BLAKE2b of 64 bits, the sum of these.
DIGEST_ALGORITHM: Final = "msgpack-blake2b64-sum"
#: The SQL of invariants.
DIALECT: Final = "duckdb"
#: The tables that hold rows of state: of a full snapshot all of them, of an incremental one what is new.
STATE: Final = "state"
STATE_DELTA: Final = "state_delta"
#: The table of records about the cut, for pictures: what the log held there when it was read.
AROUND: Final = "around"
INPUTS: Final = "inputs"
#: Tables that reach past the cut, as far as the log does when it is read.
OPEN_ENDED: Final = frozenset({AROUND, INPUTS})


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


class OtherVersionError(BadInputError):
    """A manifest of another release, which may be valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The content of the JSON file. `id`, `attempt` and `epoch` are those of `captured`, for readers of the JSON.

    `parents`: of an incremental snapshot, oldest first; that is a full one, and each builds on the one before it.
    `open`: unseen paths, which make a snapshot `VERIFIED_OPEN` at best. `external`: topics with external records; a
    mixed one that is not declared leaves a snapshot open, and so does any undeclared one if the assembly was `strict`;
    for the others the verdict assumes that nothing that writes there reads outputs of the snapshot. `outsiders`:
    processes that are not part of the snapshot and leave it open. `isolation`: how the log was read ("read_committed":
    without aborted records). `topics`: inputs, changelogs and outputs, by name. `logs`: of the inputs and changelogs,
    by topic and partition. `engine`: which wrote it. `dialect`: of its invariants. `inputs`: offsets whose external
    records are in the table `inputs`; empty: there is no such table. `checksum`: SHA-256 of all the rest, as `dump`
    writes it.
    """

    version: int = MANIFEST_VERSION
    id: str
    attempt: int
    epoch: int
    namespace: str
    verdict: str
    content: str
    engine: str
    dialect: str = DIALECT
    digest_algorithm: str = DIGEST_ALGORITHM
    ledger: LedgerEntry
    times: Times
    tables: tuple[TableEntry, ...]
    checks: tuple[CheckEntry, ...]
    captured: Captured
    invariants: tuple[InvariantEntry, ...] = ()
    read: tuple[ReadEntry, ...] = ()
    restorable: RestorableEntry | None = None
    parents: tuple[ParentEntry, ...] = ()
    open: tuple[OpenEntry, ...] = ()
    external: tuple[ExternalEntry, ...] = ()
    strict: bool = False
    isolation: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[TopicEntry, ...] = ()
    logs: tuple[LogEntry, ...] = ()
    inputs: tuple[ReadEntry, ...] = ()
    outsiders: tuple[OutsiderEntry, ...] = ()
    checksum: str = field(default="", compare=False)


def state_table(manifest: Manifest) -> TableEntry:
    """Return the table with a snapshot's own rows of state.

    Raises:
        BadInputError: the manifest names no such table.
    """
    for table in manifest.tables:
        if table.name in (STATE, STATE_DELTA):
            return table
    raise BadInputError(f"snapshot {manifest.id} has no table of state", hint="assemble it again")


def content_digest(tables: Iterable[TableEntry], parents: Iterable[ParentEntry] = ()) -> str:
    """Compute one digest over the rows of all tables, in hex; the same for every assembly of the same snapshot.

    The tables `around` and `inputs` are left out: how far the log goes past the cut depends on when it is read.

    Args:
        parents: of an incremental snapshot; their rows of state count by their digests.
    """
    lines = sorted(
        f"{table.name} {table.rows} {table.digest}\n" for table in tables if table.name not in OPEN_ENDED
    )
    lines += [f"on {parent.digest}\n" for parent in parents]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_stem(snapshot_id: str) -> str:
    """Return the name of a snapshot's files. Clients choose ids, which may hold characters that file systems do not
    allow.

    An id of letters, digits, dots, dashes and underscores is its own name; any other gets a checksum as a suffix, so
    that two ids do not share a file. So does an id that looks like a manifest, or like an unfinished file: a folder of
    that name would take the place of the manifest of another snapshot, or be removed as garbage.
    """
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}", snapshot_id)
    if plain and not re.search(r"(\.json|\.tmp-[0-9a-f]{32})$", snapshot_id):
        return snapshot_id
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", snapshot_id)[:100]
    return f"{readable or '_'}-{zlib.crc32(snapshot_id.encode()):08x}"


# --- JSON -----------------------------------------------------------------------------------------------------------


class _Numbered(msgspec.Struct):
    """The part of a manifest that is the same in every release."""

    version: int


#: Made here, not by the threads that read manifests: msgspec learns of a type once, and not by two of them at a time.
_NUMBERED: Final = msgspec.json.Decoder(_Numbered)
_MANIFEST: Final = msgspec.json.Decoder(Manifest)


def checksum_of(manifest: Manifest) -> str:
    """Compute the SHA-256 of a manifest without its checksum, in hex: of what a reader has of it."""
    read = _MANIFEST.decode(msgspec.json.encode(replace(manifest, checksum="")))
    return hashlib.sha256(msgspec.json.encode(read)).hexdigest()


def dump(manifest: Manifest) -> str:
    """Return the manifest with its checksum as JSON, in the order of its fields."""
    manifest = replace(manifest, checksum=checksum_of(manifest))
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1).decode() + "\n"


def load(text: str, *, where: str = "manifest") -> Manifest:
    """Read what `dump` wrote. Unknown fields are skipped. `where`: its path, for an error.

    Raises:
        OtherVersionError: the manifest is of another release.
        BadInputError: it is not JSON, lacks a field or has one of another type.
    """
    try:
        version = _NUMBERED.decode(text).version
        if version != MANIFEST_VERSION:
            raise OtherVersionError(
                f"{where} has version {version}, this snapkafka reads version {MANIFEST_VERSION}",
                hint="use its release, or assemble the snapshot again while the log holds it",
            )
        return _MANIFEST.decode(text)
    except msgspec.ValidationError as misfit:
        raise BadInputError(f"{where}: {misfit}", hint="see schemas/manifest.schema.json") from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadInputError(f"{where} is not JSON: {error}", hint="is it a whole manifest?") from error
