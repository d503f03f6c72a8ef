"""`assemble` and `verify`: run the job in a process of its own, and return its result; or, offline, check a snapshot by
its files alone, without broker, ledger or engine."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from snapkafka.assembly.entry import CHILD
from snapkafka.assembly.spec import JobReport, JobResult, JobSpec, changed
from snapkafka.checks.verdict import GOOD
from snapkafka.errors import BadInputError, InternalError, StorageError, UnknownSnapshotError
from snapkafka.kafka.ledger.reading import LATEST, epoch_in
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import Manifest, OtherVersionError, load
from snapkafka.query.locate import find_manifest, manifest_places
from snapkafka.runtime.child import run_child
from snapkafka.runtime.extras import require_engine
from snapkafka.store import Damage, Store, altered, file_damage, open_manifest, open_store
from snapkafka.verbs import Result

#: The job. Not imported: it takes seconds and gigabytes that end with it.
JOB: Final = (sys.executable, "-m", "snapkafka.assembly")
_REPORT: Final = msgspec.json.Decoder(JobReport)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The environment of the job.

    Args:
        python: of another environment, with snapkafka[spark]; empty: this one.
        environ: variables for the job, on top of those of this process, such as `SNAPKAFKA_KAFKA_SASL_PASSWORD`.
    """

    python: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    def require_engine(self, spec: JobSpec) -> None:
        """Check that this environment has the engine of a job, if the job runs in it.

        Raises:
            DependencyMissingError: it has none.
        """
        if not self.python:
            require_engine(spec.engine)


BESIDE_US: Final = Launch()


async def assemble(where: Connection, spec: JobSpec, **options: Any) -> tuple[JobResult, ...]:
    """Create the tables of captured snapshots, verify them, and write their manifests.

    An incremental one that cannot build on its parent gets its whole state (`JobResult.why_full`). Of several
    snapshots, one that fails does not stop the others; the first error is raised after them.

    Args:
        spec: names the snapshots; `where` counts for the broker.

    Raises:
        UnknownSnapshotError, SnapshotFailedError, StorageError, OffsetsGoneError, DependencyMissingError: as their
            messages explain.
    """
    if not spec.snapshots:
        raise BadInputError("no snapshot is named", hint="`snapkafka list` shows them")
    return await _job(changed(spec, bootstrap=where.bootstrap, manifests=()), **options)


async def verify(where: Connection, spec: JobSpec, **options: Any) -> tuple[JobResult, ...]:
    """Verify assembled snapshots again, from their manifests and the log alone.

    Args:
        spec: names the manifests, for which neither namespace nor ledger is needed; or the snapshots, by id, epoch or
            `latest`, the last one assembled: the ledger or the storage leads to their manifests. Decoding matters to
            invariants only.
    """
    if not (spec.snapshots or spec.manifests):
        raise BadInputError("no snapshot is named", hint="give an id")
    options.get("launch", BESIDE_US).require_engine(spec)
    places = spec.manifests or await manifest_places(
        where, spec.namespace, list(spec.snapshots), storage=spec.storage
    )
    wanted = changed(spec, bootstrap=where.bootstrap, manifests=tuple(places), snapshots=())
    return await _job(wanted, **options)


async def _job(
    spec: JobSpec,
    launch: Launch = BESIDE_US,
    notify: Callable[[str], None] | None = None,
) -> tuple[JobResult, ...]:
    """Run the job, with credentials in its environment. It ends with this process, whatever happens.

    Args:
        launch: the Python that runs it, and its environment.
        notify: called with each line of its log.
    """
    launch.require_engine(spec)
    loop, last = asyncio.get_running_loop(), ""

    def take_line(text: str) -> None:
        nonlocal last
        if text:
            last = text
            if notify is not None:
                notify(text)

    def pass_line(text: str) -> None:
        loop.call_soon_threadsafe(take_line, text)

    # No command line, which everybody may see, has more than the engine; the result has neither the job's standard
    # output nor that of its JVM.
    with tempfile.TemporaryFile() as options, tempfile.TemporaryFile() as result:
        options.write(msgspec.json.encode(spec))
        options.seek(0)
        command = [
            *(launch.python or JOB[0], *JOB[1:], CHILD),
            *(f"--spec=/dev/fd/{options.fileno()}", f"--result=/dev/fd/{result.fileno()}"),
            *(f"--engine={spec.engine}", "--quiet"),
        ]
        status = await run_child(
            command,
            pass_line,
            env={**os.environ, **launch.environ},
            pass_fds=[options.fileno(), result.fileno()],
        )
        result.seek(0)
        out = result.read()
    try:
        report = _REPORT.decode(out)
    except msgspec.DecodeError:
        raise InternalError(f"the job ended with status {status}: {last}") from None
    if report.error is not None:
        raise report.error.error()
    for item in report.failed:
        raise item.error()
    return report.snapshots


class ExaminedFiles(Result, frozen=True, kw_only=True):
    """The result. `good`: nothing is damaged, and by the manifest the snapshot may be relied on.

    `verdict`: that of the manifest, empty if it cannot be read.
    """

    manifest: str
    good: bool
    damage: tuple[Damage, ...]
    id: str = ""
    epoch: int = 0
    verdict: str = ""
    files: int = 0
    bytes: int = 0


async def verify_offline(name: str = "", *, namespace: str = "", storage: str = "") -> ExaminedFiles:
    """Compare a snapshot with its files, and its manifest with itself; damage is a result, not an error.

    Args:
        name: its id, its epoch, or `latest`, the last one assembled; it is in `storage`.
        namespace: its namespace, if `storage` has snapshots of several.
    """
    if not name:
        raise BadInputError("no snapshot is named", hint="give an id and --storage DIR")
    store = open_store(storage)
    if name == LATEST or epoch_in(name) is not None or not store.has(name):
        name = find_manifest(store, name, namespace=namespace).id
    return await asyncio.to_thread(_examined, store.manifest_place(name))


def _examined(place: str) -> ExaminedFiles:
    store, name = open_manifest(place)
    try:
        found = _readable(store, name, place)
        if isinstance(found, Damage):
            return ExaminedFiles(manifest=place, good=False, damage=(found,))
        damage = [
            *(Damage(file=name, what=what) for what in [altered(found)] if what),
            *file_damage(store, found),
        ]
    except OSError as error:
        raise StorageError(f"{error.filename or place} cannot be read: {error.strerror or error}") from error
    files = [file for table in found.tables for file in table.files]
    return ExaminedFiles(
        manifest=place,
        good=not damage and found.verdict in GOOD,
        damage=tuple(damage),
        id=found.id,
        epoch=found.epoch,
        verdict=found.verdict,
        files=len(files),
        bytes=sum(file.bytes for file in files),
    )


def _readable(store: Store, name: str, place: str) -> Manifest | Damage:
    """Read the manifest, or return why it is none."""
    try:
        text = store.text(name)
        if text is None:
            raise UnknownSnapshotError(f"there is no manifest {place}")
        return load(text, where=place)
    except OtherVersionError:
        raise
    except BadInputError as error:
        why = str(error).removeprefix(place).strip(" :")
        return Damage(file=name, what=f"is no longer a valid manifest: {why}")
