"""The work of the job in its order: of each snapshot what is refused at once, the work of an engine, the verdict."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from snapkafka.checks import CutView, reading_ranges
from snapkafka.checks.verdict import GOOD
from snapkafka.config import namespace_problem
from snapkafka.errors import BadInputError, BrokerUnavailableError, LedgerUnusableError
from snapkafka.kafka import Connection, KafkaTopicAdmin, LedgerReading, read_ledger
from snapkafka.kafka.cluster.external_groups import external_readers, still_open
from snapkafka.kafka.ledger.manifest_match import StoredManifest, not_compared
from snapkafka.manifest import InvariantEntry, Manifest, OpenEntry, TableEntry
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.store import open_manifest, open_store, read_manifest, require_state
from snapkafka.units import format_bytes, wall_ms

from .base import base_or_whole, require_offsets, view_on
from .cluster import ask_once, look, require_same_topics
from .engines import Chosen
from .invariants import check, published, require_valid
from .job import Job, Settings
from .ledger import Desk
from .manifest import Task, judged
from .order import offsets_in
from .spec import JobResult, changed
from .stored_tables import compare

# --- Assembly -------------------------------------------------------------------------------------------------------


def assemble(job: Job) -> list[JobResult]:
    """Assemble the snapshots of a job, in the order of their epochs; one that fails does not stop the others."""
    spec = job.spec
    if problem := namespace_problem(spec.namespace):
        raise BadInputError(problem, hint="add --namespace, or set SNAPKAFKA_NAMESPACE")
    if not spec.snapshots:
        raise BadInputError("no snapshot is named", hint="add --snapshot ID; `snapkafka list` shows them")
    require_valid(job.sql[1])
    with Desk(job.connection(), spec.namespace) as desk, Chosen(job) as engine:
        named = sorted(map(desk.captured, spec.snapshots), key=lambda captured: captured.epoch)
        return job.each({it.id: it for it in named}, lambda it: _assembled(job, engine, desk, it))


def _assembled(job: Job, engine: Chosen, desk: Desk, captured: Captured) -> JobResult:
    """Assemble one snapshot. What can be refused is refused before an engine takes its seconds to start."""
    spec, (wanted, asked), began = job.spec, job.sql, time.monotonic()
    store, ledger = open_store(spec.storage or captured.storage), desk.ledger(captured)
    store.check_writable()
    base, why_full = base_or_whole(store, captured, ledger, isolation=spec.isolation)
    view = view_on(base, desk.look(captured, spec.isolation), ledger.triggered_ms)
    require_offsets(view)
    task = Task(
        view=view,
        settings=Settings(spec=spec, ledger=ledger, decoding=job.decoding),
        store=store,
        base=base,
        wanted=wanted,
        facts=desk.facts(captured, spec.sinks),
        require_same_log=lambda: desk.require_same_topics(view),
    )
    offsets = offsets_in(reading_ranges(view))
    manifest = engine.do(offsets, lambda it: it.assemble(task))
    job.notify(in_words(manifest, offsets, time.monotonic() - began, manifest.tables))
    place, good = store.manifest_place(captured.id), manifest.verdict in GOOD
    desk.record(manifest, place)
    why_not = desk.commit(manifest) if good else "not verified"
    return JobResult.of(
        manifest,
        place,
        content=manifest.content,
        why_full=why_full,
        tables={table.name: table.rows for table in manifest.tables},
        positions_committed=not why_not,
        positions_not_committed=why_not,
        answers=tuple(check(asked, published(store, manifest))) if asked and good else (),
    )


def in_words(found: Manifest, offsets: int, seconds: float, tables: Sequence[TableEntry] = ()) -> str:
    """Return what the work on a snapshot came to: offsets that were read, tables that were written, checks."""
    parts = [f"read {offsets:,} offsets"]
    if tables:
        rows, size = sum(it.rows for it in tables), sum(file.bytes for it in tables for file in it.files)
        parts.append(f"wrote {rows:,} rows in {len(tables)} tables, {format_bytes(size)}")
    parts.append(f"checked {', '.join(check.name for check in found.checks if check.run)}")
    return f"{found.id}: {'; '.join(parts)}; {seconds:.1f} s"


# --- Verification ---------------------------------------------------------------------------------------------------


def settings_of(job: Job, manifest: Manifest) -> Settings:
    """Return how to read the log of a snapshot again: as for its tables, because otherwise it is another log."""
    spec = changed(job.spec, isolation=manifest.isolation)
    return Settings(spec=spec, ledger=manifest.ledger, decoding=job.decoding)


def invariants_of(before: Iterable[InvariantEntry], given: Iterable[InvariantEntry]) -> list[InvariantEntry]:
    """Return the invariants to run: those that were run `before`, or the snapshot where one failed would be good again,
    and those that are given; one of the same name replaces it."""
    return [*{it.name: it for it in (*before, *given)}.values()]


def verify(job: Job) -> list[JobResult]:
    """Verify the snapshots of a job's manifests again; one that fails does not stop the others."""
    with Chosen(job) as engine:
        return job.each({path: path for path in job.spec.manifests}, lambda it: _verified(job, engine, it))


def _verified(job: Job, engine: Chosen, path: str) -> JobResult:
    spec, connection, began = job.spec, job.connection(), time.monotonic()
    store, manifest = read_manifest(path)
    settings = settings_of(job, manifest)
    if spec.tables:  # what is gone, or is not what was built on, is refused before an engine starts
        stored = published(store, manifest)
        require_state(store, manifest)
    name = open_manifest(path)[1]
    # The place is one that leads there from wherever it is read later.
    place, sha256 = store.place(name), store.sha256(name)
    captured, age_ms = manifest.captured, wall_ms() - manifest.ledger.triggered_ms

    async def asked(admin: KafkaTopicAdmin) -> tuple[CutView, tuple[OpenEntry, ...]]:
        view = await look(admin, captured, isolation=manifest.isolation, age_ms=age_ms)
        return view, await external_readers(admin, captured, sinks=spec.sinks)

    view, seen = asyncio.run(ask_once(connection, asked))
    groups = still_open(manifest.open, seen, spec.sinks)
    compared = [] if spec.tables else ["stored tables were not compared with the log (`tables` does that)"]
    if not spec.record:  # else what is recorded now counts
        compared += not_compared(StoredManifest.of(store, manifest), _ledger_of(manifest, connection))
    wanted = invariants_of(manifest.invariants, job.sql[0])
    offsets = offsets_in(reading_ranges(view))
    with tempfile.TemporaryDirectory(prefix="snapkafka-") as scratch:
        into = open_store(scratch) if wanted or spec.tables else None
        computed, found = engine.do(offsets, lambda it: it.verify(view, settings, wanted, into))
        if spec.tables:
            found.outcomes.append(compare(stored, computed, found.outcomes))
    asyncio.run(ask_once(connection, lambda admin: require_same_topics(admin, view)))
    sources = {*spec.sources, *(entry.topic for entry in manifest.external if entry.declared)}
    strict = spec.strict or manifest.strict
    judgement = judged(captured, found, groups, sources=sources, strict=strict)
    checked = replace(manifest, **judgement)
    job.notify(in_words(checked, offsets, time.monotonic() - began))
    if spec.record:
        with Desk(connection, manifest.namespace) as desk:
            desk.record(checked, place, sha256=sha256)
    return JobResult.of(checked, place, not_compared=tuple(compared))


def _ledger_of(manifest: Manifest, connection: Connection) -> LedgerReading | str:
    """Read the ledger of a snapshot; or return why it cannot be read: verification needs the log alone."""
    try:
        return asyncio.run(read_ledger(connection, manifest.namespace))
    except (BrokerUnavailableError, LedgerUnusableError) as error:
        return error.message
