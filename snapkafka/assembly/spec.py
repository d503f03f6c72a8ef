"""The options of the job, and its result: one form of each, as JSON between processes and as values within one.

The options of commands are generated from the fields of `JobSpec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from snapkafka.checks.verdict import GOOD
from snapkafka.errors import EXIT_NOT_GOOD, EXIT_OK, BadInputError, Reported, SnapkafkaError
from snapkafka.manifest import CheckEntry, ExternalEntry, Manifest, OpenEntry, OutsiderEntry, RestorableEntry
from snapkafka.options import option, options_of
from snapkafka.protocol.captured_snapshot import Uncaptured
from snapkafka.protocol.snapshots import Unread
from snapkafka.verbs import Result, Where

from .cluster import AROUND_MAX, AROUND_RECORDS, DEFAULT_ISOLATION, ISOLATIONS

#: What reads the log, writes tables and runs the checks.
ENGINES: Final = ("auto", "embedded", "spark")


class JobSpec(Where, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The options of the job.

    Raises:
        BadInputError: the isolation or the window is invalid.
    """

    snapshots: Annotated[
        tuple[str, ...], option("--snapshot ID", "Id, epoch or `latest` (newest captured). Repeatable.")
    ] = ()
    manifests: Annotated[
        tuple[str, ...], option("--manifest PATH", "Verify the snapshot of this manifest again. Repeatable.")
    ] = ()
    storage: Annotated[
        str, option("--storage URI", "Directory or URI of the tables. Default: from the trigger.")
    ] = ""
    invariants: Annotated[
        tuple[str, ...],
        option("--invariants SQL", "Invariants (V6): *.sql file, folder or built-in. Repeatable."),
    ] = ()
    asked: Annotated[
        tuple[str, ...],
        option("", "Predicates instead of invariants: answered, and no checks of the snapshot."),
    ] = ()
    parameters: Annotated[
        tuple[str, ...], option("--set NAME=VALUE", "Parameter of the SQL. Repeatable.")
    ] = ()
    isolation: Annotated[str, option("", "read_uncommitted also counts aborted transactions.")] = (
        DEFAULT_ISOLATION
    )
    sinks: Annotated[tuple[str, ...], option("", "Groups that write nothing back to inputs, or *.")] = ()
    sources: Annotated[
        tuple[str, ...], option("", "Topics fed from outside, not by readers of the apps' output.")
    ] = ()
    strict: Annotated[bool, option("", "VERIFIED_OPEN for external records of other topics.")] = False
    codecs: Annotated[tuple[str, ...], option("", "Modules that register Faust codecs.")] = ()
    unpickle: Annotated[
        bool, option("--unpickle", "Decode pickles. Unsafe: this runs code that they contain.")
    ] = False
    avro: Annotated[
        tuple[str, ...], option("", "NAME=FILE: the schema of TOPIC-key, TOPIC-value or a number.")
    ] = ()
    schema_registry: Annotated[
        str, option("", "Registry of Avro data in its wire format.", env="SNAPKAFKA_SCHEMA_REGISTRY")
    ] = ""
    around: Annotated[int, option("", "Records kept per channel and side of the cut, to draw it.")] = (
        AROUND_RECORDS
    )
    with_inputs: Annotated[bool, option("", "Store unread external records: restore without the log.")] = (
        False
    )
    tables: Annotated[bool, option("--tables", "Also compare the stored tables with the log.")] = False
    record: Annotated[bool, option("--record", "Write the verdict to the ledger.")] = False
    engine: Annotated[str, option("--engine ENGINE", "auto (embedded where it can), embedded, spark.")] = (
        "auto"
    )
    ui: Annotated[bool, option("", "Serve Spark's web page while it runs.")] = False

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATIONS:
            raise BadInputError(
                f"isolation is invalid: {self.isolation!r}", hint=f"it can be {' or '.join(ISOLATIONS)}"
            )
        if not 0 <= self.around <= AROUND_MAX:
            raise BadInputError(f"around must be 0 to {AROUND_MAX:,} records, got {self.around:,}")
        if self.invariants and self.asked:
            raise BadInputError("name either invariants or asked, not both")
        if self.engine not in ENGINES:
            raise BadInputError(
                f"is invalid: {self.engine!r}", hint=f"it can be {', '.join(ENGINES)}", field="engine"
            )

    def __repr__(self) -> str:
        """Leave out the values: the URL of a registry may contain a password."""
        return f"JobSpec({', '.join(self.snapshots or self.manifests)})"


PLAIN_SPEC: Final = JobSpec()


#: What describes a system, and no call of a command: the fields of the file that `--config` names.
SYSTEM: Final = (
    *("bootstrap", "namespace", "storage", "isolation", "sinks", "sources", "strict", "codecs", "avro"),
    *("schema_registry", "around", "with_inputs", "invariants", "engine"),
)


def read_system(path: str) -> dict[str, Any]:
    """Return what a file in TOML says of a system; nothing if none is named.

    Raises:
        BadInputError: it cannot be read, or a field is unknown or invalid.
    """
    if not path:
        return {}
    try:
        found: dict[str, Any] = msgspec.toml.decode(Path(path).read_bytes())
        knowing = {"knowing": tuple(found.pop("knows_markers"))} if "knows_markers" in found else {}
        if unknown := found.keys() - set(SYSTEM):
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
        spec = msgspec.convert(found, JobSpec)
    except (OSError, ValueError) as error:  # msgspec's are the latter
        raise BadInputError(
            f"{path} does not describe a system: {getattr(error, 'strerror', None) or error}",
            hint=f"its fields are {', '.join(SYSTEM)}, knows_markers",
            field="config",
        ) from error
    return {name: getattr(spec, name) for name in found} | knowing


#: The options by their fields.
OPTIONS: Final = options_of(JobSpec)


def changed(spec: JobSpec, **fields: Any) -> JobSpec:
    """Return a copy with other values; lists become tuples."""
    return msgspec.structs.replace(
        spec, **{name: tuple(item) if isinstance(item, list) else item for name, item in fields.items()}
    )


class JobResult(Result, frozen=True, kw_only=True):
    """The result of the job for one snapshot: what its manifest says. It has no tables after a verification.

    `manifest`: its place. `good`: consistent, as far as it was checked. `contaminated`: why nobody can prove it.
    `why_full`: why an incremental snapshot has its whole state, and not the changes since its parent.
    `external`, `strict`, `outsiders`: see `manifest.Manifest`. `unread`, `uncaptured`: see `Captured`. `answers`:
    whether each predicate holds; empty if the snapshot is not good. `not_compared`: the parts of the stored snapshot
    that a verification did not compare, a sentence each. `idle`: nothing had been received, and nothing is in flight:
    there was nothing that could be inconsistent.
    """

    id: str
    epoch: int
    verdict: str
    good: bool
    manifest: str
    checks: tuple[CheckEntry, ...]
    tables: Mapping[str, int] = {}
    answers: tuple[CheckEntry, ...] = ()
    content: str = ""
    why_full: str = ""
    positions_committed: bool = False
    positions_not_committed: str = ""
    restorable: RestorableEntry | None = None
    open: tuple[OpenEntry, ...] = ()
    unread: tuple[Unread, ...] = ()
    external: tuple[ExternalEntry, ...] = ()
    outsiders: tuple[OutsiderEntry, ...] = ()
    strict: bool = False
    uncaptured: tuple[Uncaptured, ...] = ()
    not_compared: tuple[str, ...] = ()
    contaminated: str = ""
    idle: bool = False

    @classmethod
    def of(cls, manifest: Manifest, place: str, **more: Any) -> JobResult:
        """Return the result of a verification; `more`: the fields that only assembly knows."""
        captured = manifest.captured
        same = ("id", "epoch", "checks", "restorable", "open", "external", "outsiders", "strict")
        of_captured = ("unread", "uncaptured", "contaminated")
        return cls(
            verdict=str(manifest.verdict),
            good=manifest.verdict in GOOD,
            manifest=place,
            idle=_is_idle(manifest),
            **{name: getattr(manifest, name) for name in same},
            **{name: getattr(captured, name) for name in of_captured},
            **more,
        )


def _is_idle(manifest: Manifest) -> bool:
    """Return whether each agent stands at the beginning of its inputs, and no message is in flight."""
    starts = {(log.topic, log.partition): log.start for log in manifest.logs}
    begun = any(
        max([cut.position, *(agent.offset for agent in cut.agents)])
        > starts.get((cut.topic, cut.partition), 0)
        or any(agent.started_above for agent in cut.agents)
        for cut in manifest.captured.inputs
    )
    return not begun and not any(table.rows for table in manifest.tables if table.name == "messages")


@dataclass(frozen=True, slots=True)
class JobError(Reported):
    """An error that ended the job, or a snapshot of several (`id`; of a verification its manifest), also in the words
    of the command."""

    message: str = ""
    exit_status: int = 0
    id: str = ""

    @classmethod
    def of(cls, error: SnapkafkaError, snapshot_id: str = "") -> JobError:
        """Build it from an error."""
        return cls(
            **asdict(Reported.of(error)),
            message=error.message,
            exit_status=error.exit_status,
            id=snapshot_id,
        )


class JobReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The output of the job: its results, and the snapshots that failed while others did not; or its error."""

    snapshots: tuple[JobResult, ...] = ()
    failed: tuple[JobError, ...] = ()
    error: JobError | None = None

    @property
    def exit_status(self) -> int:
        for error in (self.error, *self.failed):
            if error is not None:
                return error.exit_status
        return EXIT_OK if all(result.good for result in self.snapshots) else EXIT_NOT_GOOD
