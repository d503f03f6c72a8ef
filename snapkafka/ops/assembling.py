"""`assemble` and `verify`: run the Spark job in a process of its own, and return its result."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from snapkafka.assembly.cluster import AROUND_RECORDS, require_around, require_isolation
from snapkafka.assembly.progress import Work, Working, from_line
from snapkafka.assembly.spark.entry import PARENT
from snapkafka.checks.verdict import Verdict
from snapkafka.errors import BadInputError, InternalError, Option, Reported, SnapkafkaError, Verb
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import (
    CheckEntry,
    ExternalEntry,
    OpenEntry,
    OutsiderEntry,
    RestorableEntry,
    WitnessEntry,
)
from snapkafka.protocol.captured_snapshot import Uncaptured
from snapkafka.protocol.snapshots import Unread
from snapkafka.query.locate import manifest_places
from snapkafka.runtime.child import await_child, run_child
from snapkafka.runtime.extras import require_extra

#: The Spark job. Not imported: it takes seconds and gigabytes that end with it.
JOB: Final = (sys.executable, "-m", "snapkafka.assembly")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The environment of the job.

    Args:
        python: of another environment, with snapkafka[spark]; empty: this one.
        environ: variables for the job, on top of those of this process, such as `SNAPKAFKA_KAFKA_SASL_PASSWORD`.
    """

    python: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    def require_spark(self, what: str) -> None:
        """Check that this environment has Spark, if the job runs in it.

        Raises:
            DependencyMissingError: it has none.
        """
        if not self.python:
            require_extra("spark", what)


BESIDE_US: Final = Launch()


@dataclass(frozen=True, slots=True, kw_only=True)
class HowToRead:
    """The settings by which the job reads and decodes the log.

    Args:
        isolation: "read_uncommitted" includes aborted records; empty: committed, or as in the manifest.
        sinks: groups without snapkafka that read outputs and write nothing back to inputs; `*` for all.
        sources: topics whose external records are no effects of the apps.
        strict: undeclared external records leave a snapshot VERIFIED_OPEN everywhere.
        codecs: modules to import where the data is, for the codecs that they register with Faust.
        unpickle: load pickles, which executes whatever they contain.
        avro: `name=file`: schemas by `TOPIC-key`, `TOPIC-value`, or their number in a schema registry.
        schema_registry: the URL of the source of other schemas; the job gets it by its environment, as it may contain
            a password.
        around: the number of records per channel and side of the cut that assembly keeps for pictures; 0: none.
        with_inputs: whether assembly keeps external records that are still to be read, for a restore without the old
            log.

    Raises:
        BadInputError: the isolation or the window is invalid.
    """

    isolation: str = ""
    sinks: Sequence[str] = ()
    sources: Sequence[str] = ()
    strict: bool = False
    codecs: Sequence[str] = ()
    unpickle: bool = False
    avro: Sequence[str] = ()
    schema_registry: str = ""
    around: int = AROUND_RECORDS
    with_inputs: bool = False

    def __post_init__(self) -> None:
        require_isolation(self.isolation)
        require_around(self.around)

    def options(self) -> Iterator[str]:
        """Yield the arguments of the job, all but the registry; with `=`, as a value may begin with a dash."""
        repeated = {
            "--sink": self.sinks,
            "--source": self.sources,
            "--codecs": self.codecs,
            "--avro": self.avro,
        }
        for name, items in repeated.items():
            for item in items:
                yield f"{name}={item}"
        if self.isolation:
            yield f"--isolation={self.isolation}"
        if self.strict:
            yield "--strict"
        if self.unpickle:
            yield "--unpickle"
        if self.around != AROUND_RECORDS:
            yield f"--around={self.around}"
        if self.with_inputs:
            yield "--with-inputs"


AS_IT_IS: Final = HowToRead()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """The result of the job. `good`: consistent, as far as it was checked. After `verify` there are no tables.

    `external`, `strict`: see `manifest.Manifest`. `uncaptured`: state of its apps that the snapshot does not hold.
    `whole`: why an incremental snapshot has its whole state, and not the changes since its parent.
    `answers`: whether each predicate holds; empty if the snapshot is not good. `not_compared`: the parts of the stored
    snapshot that `verify` did not compare, a sentence each. `unread`: see `Captured`.
    """

    id: str
    epoch: int
    verdict: str
    good: bool
    manifest: str
    checks: tuple[CheckEntry, ...]
    tables: Mapping[str, int] = field(default_factory=dict)
    answers: tuple[CheckEntry, ...] = ()
    content: str = ""
    whole: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
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


async def assemble(
    where: Connection,
    namespace: str,
    names: Sequence[str],
    *,
    storage: str = "",
    invariants: Sequence[str] = (),
    asked: Sequence[str] = (),
    parameters: Sequence[str] = (),
    reading: HowToRead = AS_IT_IS,
    launch: Launch = BESIDE_US,
    notify: Callable[[str], None] | None = None,
    progress: Callable[[Working], None] | None = None,
    failed: Callable[[str, SnapkafkaError], None] | None = None,
) -> tuple[Assembled, ...]:
    """Create the tables of captured snapshots, verify them, and write their manifests.

    An incremental one that cannot build on its parent gets its whole state (`Assembled.whole`). Of several snapshots,
    one that fails does not stop the others.

    Args:
        names: ids, epochs or `latest`, the last captured one; all in one Spark session, in the order of their epochs.
        storage: for the tables; empty: the one in the trigger.
        invariants: SQL to check (V6): folders, files, or names of ready-made ones.
        asked: predicates instead of invariants: each is answered, and is no check of the snapshot.
        parameters: `name=value`, for the invariants.
        reading: the settings by which the log is read.
        launch: the Python that runs the job, and its environment.
        notify: called with each line of the job's log.
        progress: called with the progress.
        failed: called with each snapshot that failed while others did not; None: the first such error is raised, after
            the others are assembled.

    Raises:
        UnknownSnapshotError, SnapshotFailedError, StorageError, OffsetsGoneError, DependencyMissingError: as their
            messages explain.
    """
    if not names:
        raise BadInputError("no snapshot is named", hint=(Verb("list"), " shows them"))
    arguments = [f"--bootstrap={where.bootstrap}", f"--namespace={namespace}"]
    arguments += [f"--snapshot={name}" for name in names]
    arguments += [f"--storage={storage}"] if storage else []
    arguments += [f"--ask={item}" for item in asked]
    return await _job(
        [
            *arguments,
            *(f"--invariants={item}" for item in invariants),
            *(f"--set={item}" for item in parameters),
            *reading.options(),
        ],
        notify,
        progress,
        reading.schema_registry,
        launch,
        failed,
    )


async def verify(
    where: Connection,
    namespace: str,
    name: str = "",
    *,
    manifest: str = "",
    storage: str = "",
    invariants: Sequence[str] = (),
    parameters: Sequence[str] = (),
    reading: HowToRead = AS_IT_IS,
    tables: bool = False,
    record: bool = False,
    launch: Launch = BESIDE_US,
    notify: Callable[[str], None] | None = None,
    progress: Callable[[Working], None] | None = None,
) -> tuple[Assembled, ...]:
    """Verify an assembled snapshot again, from its manifest and the log alone.

    Args:
        name: id, epoch or `latest`, the last one assembled; the ledger or `storage` leads to the manifest.
        manifest: the place of the manifest: then neither namespace nor ledger is needed.
        tables: compare the stored tables with the log as well.
        record: write the verdict to the ledger.
        reading: the settings by which the log is read; decoding matters to invariants only.
        launch, say, progress: as for `assemble`.

    Raises:
        UnknownSnapshotError: there is no manifest of that snapshot.
    """
    if not (name or manifest):
        raise BadInputError("no snapshot is named", hint=("give an id, or ", Option("manifest", "PATH")))
    launch.require_spark("verification")
    place = manifest or (await manifest_places(where, namespace, [name], storage=storage))[0]
    arguments = [f"--bootstrap={where.bootstrap}", "--verify-only", f"--manifest={place}"]
    arguments += ["--record"] if record else []
    arguments += ["--tables"] if tables else []
    return await _job(
        [
            *arguments,
            *(f"--invariants={item}" for item in invariants),
            *(f"--set={item}" for item in parameters),
            *reading.options(),
        ],
        notify,
        progress,
        reading.schema_registry,
        launch,
    )


async def _job(
    arguments: list[str],
    notify: Callable[[str], None] | None,
    progress: Callable[[Working], None] | None,
    schema_registry: str,
    launch: Launch,
    failed: Callable[[str, SnapkafkaError], None] | None = None,
) -> tuple[Assembled, ...]:
    """Run the job, with credentials in its environment. It ends with this process, whatever happens."""
    launch.require_spark("assembly")
    loop, last = asyncio.get_running_loop(), ""

    def hear(text: str) -> None:
        nonlocal last
        if working := from_line(text):
            if progress is not None:
                progress(working)
        elif text:
            last = text
            if notify is not None:
                notify(text)

    def heard(text: str) -> None:
        loop.call_soon_threadsafe(hear, text)

    environ = {**os.environ, **launch.environ}
    if schema_registry:
        environ["SNAPKAFKA_SCHEMA_REGISTRY"] = schema_registry
    with tempfile.TemporaryFile() as result:  # neither the job's standard output nor that of its JVM
        command = [
            *(
                launch.python or JOB[0],
                *JOB[1:],
                f"{PARENT}{os.getpid()}",
                f"--result=/dev/fd/{result.fileno()}",
            ),
            *(["--progress"] if progress is not None else []),
            *arguments,
            "--json",
        ]
        status = await await_child(
            partial(
                run_child,
                command,
                heard,
                env=environ,
                pass_fds=[result.fileno()],
            )
        )
        result.seek(0)
        out = result.read()
    try:
        parsed = json.loads(out)
    except ValueError:
        raise InternalError(f"the Spark job ended with status {status}: {last}") from None
    if "error" in parsed:
        raise msgspec.convert(parsed["error"], Reported).error()
    for item in parsed.get("failed", ()):
        if failed is None:
            raise msgspec.convert(item, Reported).error()
        failed(item["id"], msgspec.convert(item, Reported).error())
    return tuple(_assembled(item) for item in parsed["snapshots"])


def _assembled(parsed: Mapping[str, Any]) -> Assembled:
    return Assembled(
        id=parsed["id"],
        epoch=parsed["epoch"],
        verdict=parsed["verdict"],
        good=Verdict(parsed["verdict"]).good,
        manifest=parsed["manifest"],
        checks=tuple(_check(check) for check in parsed["checks"]),
        tables=parsed.get("tables", {}),
        answers=tuple(_check(answer) for answer in parsed.get("answers", ())),
        content=parsed.get("content", ""),
        whole=parsed.get("whole", ""),
        seconds=parsed.get("seconds", {}),
        positions_committed=parsed.get("positions_committed", False),
        positions_why_not=parsed.get("positions_why_not", ""),
        restorable=RestorableEntry(**parsed["restorable"]) if parsed.get("restorable") else None,
        open=tuple(
            OpenEntry(group=item["group"], topics=tuple(item["topics"])) for item in parsed.get("open", ())
        ),
        unread=tuple(Unread(**item) for item in parsed.get("unread", ())),
        external=tuple(ExternalEntry(**item) for item in parsed.get("external", ())),
        outsiders=tuple(OutsiderEntry(**item) for item in parsed.get("outsiders", ())),
        strict=parsed.get("strict", False),
        uncaptured=tuple(Uncaptured(**item) for item in parsed.get("uncaptured", ())),
        not_compared=tuple(parsed.get("not_compared", ())),
        work=Work(**{**parsed["work"], "checks": tuple(parsed["work"]["checks"])})
        if "work" in parsed
        else None,
    )


def _check(parsed: Mapping[str, Any]) -> CheckEntry:
    witnesses = {
        name: tuple(WitnessEntry(**witness) for witness in parsed.get(name, ()))
        for name in ("witnesses", "notes")
    }
    return CheckEntry(**{**parsed, **witnesses})
