"""The options of the job, and its result: one form of each, as JSON between processes and as values within one.

The options of commands are generated from the fields of `JobSpec`.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from snapkafka.checks.ranges import TAIL_MAX
from snapkafka.checks.verdict import Verdict
from snapkafka.errors import COMMAND, BadInputError, Reported, SnapkafkaError
from snapkafka.manifest import (
    CheckEntry,
    ExternalEntry,
    Manifest,
    OpenEntry,
    OutsiderEntry,
    RestorableEntry,
)
from snapkafka.protocol.captured_snapshot import Uncaptured
from snapkafka.protocol.snapshots import Unread

from .cluster import AROUND_RECORDS, require_around, require_isolation
from .progress import Work

#: What reads the log, writes tables and runs the checks.
ENGINES: Final = ("auto", "embedded", "spark")


def _option(flag: str, text: str, *, metavar: str = "", env: str = "") -> msgspec.Meta:
    return msgspec.Meta(description=text, extra={"flag": flag, "metavar": metavar, "env": env})


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The options of the job.

    Raises:
        BadInputError: the isolation or the window is invalid.
    """

    bootstrap: Annotated[
        str,
        _option(
            "--bootstrap",
            "Broker addresses, separated by commas.",
            metavar="HOST:PORT",
            env="SNAPKAFKA_BOOTSTRAP",
        ),
    ] = ""
    namespace: Annotated[
        str,
        _option(
            "--namespace",
            "Namespace: the `namespace=` of snapkafka.install.",
            metavar="NAME",
            env="SNAPKAFKA_NAMESPACE",
        ),
    ] = ""
    snapshots: Annotated[
        tuple[str, ...],
        _option("--snapshot", "Id, epoch or `latest` (newest captured). Repeatable.", metavar="ID"),
    ] = ()
    manifests: Annotated[
        tuple[str, ...],
        _option("--manifest", "Verify the snapshot of this manifest again. Repeatable.", metavar="PATH"),
    ] = ()
    storage: Annotated[
        str,
        _option("--storage", "Directory or URI of the tables. Default: from the trigger.", metavar="URI"),
    ] = ""
    invariants: Annotated[
        tuple[str, ...],
        _option(
            "--invariants", "Invariants (V6): *.sql file, folder or built-in. Repeatable.", metavar="SQL"
        ),
    ] = ()
    asked: Annotated[
        tuple[str, ...],
        _option("", "Predicates instead of invariants: answered, and no checks of the snapshot."),
    ] = ()
    parameters: Annotated[
        tuple[str, ...], _option("--set", "Parameter of the SQL. Repeatable.", metavar="NAME=VALUE")
    ] = ()
    isolation: Annotated[
        str,
        _option("--isolation", "read_uncommitted also counts aborted transactions.", metavar="LEVEL"),
    ] = ""
    sinks: Annotated[
        tuple[str, ...],
        _option("--sink", "Group that writes nothing back to inputs, or *. Repeatable.", metavar="GROUP"),
    ] = ()
    sources: Annotated[
        tuple[str, ...],
        _option("--source", "Topic fed from outside, not by readers of the apps' output.", metavar="TOPIC"),
    ] = ()
    strict: Annotated[bool, _option("--strict", "VERIFIED_OPEN for external records without a --source.")] = (
        False
    )
    codecs: Annotated[
        tuple[str, ...],
        _option("--codecs", "Module that registers Faust codecs. Repeatable.", metavar="MODULE"),
    ] = ()
    unpickle: Annotated[
        bool, _option("--unpickle", "Decode pickles. Unsafe: this runs code that they contain.")
    ] = False
    avro: Annotated[
        tuple[str, ...],
        _option("--avro", "Schema of TOPIC-key, TOPIC-value or a number. Repeatable.", metavar="NAME=FILE"),
    ] = ()
    schema_registry: Annotated[
        str,
        _option(
            "--schema-registry",
            "Schema registry for Avro data in its wire format.",
            metavar="URL",
            env="SNAPKAFKA_SCHEMA_REGISTRY",
        ),
    ] = ""
    around: Annotated[
        int,
        _option("--around", "Keep N records per channel and side of the cut, to draw it.", metavar="N"),
    ] = AROUND_RECORDS
    with_inputs: Annotated[
        bool, _option("--with-inputs", "Store unread external records: restore without the log.")
    ] = False
    tables: Annotated[bool, _option("--tables", "Also compare the stored tables with the log.")] = False
    record: Annotated[bool, _option("--record", "Write the verdict to the ledger.")] = False
    engine: Annotated[
        str,
        _option(
            "--engine",
            "auto (embedded where it can), embedded, spark.",
            metavar="ENGINE",
        ),
    ] = "auto"
    tail_max: Annotated[int, _option("", "Offsets to read past the snapshot's ends, per partition.")] = (
        TAIL_MAX
    )
    ui: Annotated[bool, _option("", "Serve Spark's web page while it runs.")] = False

    def __post_init__(self) -> None:
        require_isolation(self.isolation)
        require_around(self.around)
        if self.invariants and self.asked:
            raise BadInputError("name either invariants or asked, not both")
        if self.engine not in ENGINES:
            raise BadInputError(
                f"is invalid: {self.engine!r}", hint=f"it can be {', '.join(ENGINES)}", field="engine"
            )

    def __repr__(self) -> str:
        """Leave out the values: the URL of a registry may contain a password."""
        return f"JobSpec({', '.join(self.snapshots or self.manifests)})"

    def flags(self) -> Iterator[str]:
        """Yield the options of a command that differ from their defaults, all but the registry, whose URL may contain a
        password; with `=`, as a value may begin with a dash."""
        for option in OPTIONS.values():
            value = getattr(self, option.field)
            if value == option.default or not option.flag or option.field == "schema_registry":
                continue
            if option.type is bool:
                yield option.flag
            else:
                yield from (f"{option.flag}={item}" for item in (value if option.many else (value,)))


PLAIN_SPEC: Final = JobSpec()


class Option(NamedTuple):
    """An option of the job. `flag`: on a command line; empty: it has none. `env`: the variable that it is taken from
    otherwise."""

    field: str
    type: Any
    default: Any
    flag: str
    metavar: str
    help: str
    env: str

    @property
    def many(self) -> bool:
        return typing.get_origin(self.type) is tuple


def _options() -> dict[str, Option]:
    found = {}
    hints = typing.get_type_hints(JobSpec, include_extras=True)
    for item in msgspec.structs.fields(JobSpec):
        plain, meta = typing.get_args(hints[item.name])
        extra = meta.extra
        found[item.name] = Option(
            item.name,
            plain,
            item.default,
            extra["flag"],
            extra["metavar"],
            meta.description,
            extra["env"],
        )
    return found


#: The options by their fields.
OPTIONS: Final = _options()


def as_file(spec: JobSpec) -> bytes:
    """Return the options as the job reads them from a file (`--spec`)."""
    return msgspec.json.encode({"engine": spec.engine, **msgspec.to_builtins(spec)})


def changed(spec: JobSpec, **fields: Any) -> JobSpec:
    """Return a copy with other values; lists become tuples."""
    return msgspec.structs.replace(
        spec, **{name: tuple(item) if isinstance(item, list) else item for name, item in fields.items()}
    )


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the job for one snapshot: what its manifest says, and the work done. It has no tables after a
    verification.

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
    seconds: Mapping[str, float] = {}
    positions_committed: bool = False
    positions_why_not: str = ""
    restorable: RestorableEntry | None = None
    open: tuple[OpenEntry, ...] = ()
    unread: tuple[Unread, ...] = ()
    external: tuple[ExternalEntry, ...] = ()
    outsiders: tuple[OutsiderEntry, ...] = ()
    strict: bool = False
    uncaptured: tuple[Uncaptured, ...] = ()
    not_compared: tuple[str, ...] = ()
    work: Work | None = None
    contaminated: str = ""
    idle: bool = False

    @classmethod
    def of(cls, manifest: Manifest, place: str, work: Work, **more: Any) -> JobResult:
        """Return the result of a verification; `more`: the fields that only assembly knows."""
        captured = manifest.captured
        return cls(
            id=manifest.id,
            epoch=manifest.epoch,
            verdict=str(manifest.verdict),
            good=Verdict(manifest.verdict).good,
            manifest=place,
            checks=manifest.checks,
            restorable=manifest.restorable,
            open=manifest.open,
            unread=captured.unread,
            external=manifest.external,
            outsiders=manifest.outsiders,
            strict=manifest.strict,
            uncaptured=captured.uncaptured,
            contaminated=captured.contaminated,
            idle=_is_idle(manifest),
            work=work,
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
    hint: str = ""
    exit_status: int = 0
    id: str = ""

    @classmethod
    def of(cls, error: SnapkafkaError, snapshot_id: str = "") -> JobError:
        """Build it from an error."""
        return cls(
            **asdict(Reported.of(error)),
            message=COMMAND.message(error),
            hint=COMMAND.advice(error),
            exit_status=error.exit_status,
            id=snapshot_id,
        )


class JobReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The output of the job: its results, and the snapshots that failed while others did not; or its error."""

    snapshots: tuple[JobResult, ...] = ()
    failed: tuple[JobError, ...] = ()
    error: JobError | None = None
