"""The work of the job in its order: what is refused at once, then each snapshot by an engine, then its verdict."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from snapkafka.assembly.invariant_files import Invariant
from snapkafka.checks import CutView, Verdict
from snapkafka.config import namespace_problem
from snapkafka.errors import BadInputError, BrokerUnavailableError, LedgerUnusableError
from snapkafka.kafka.cluster.external_groups import external_readers, still_open
from snapkafka.kafka.ledger.manifest_match import StoredManifest, not_compared
from snapkafka.kafka.ledger.reading import LedgerReading, read_ledger
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import InvariantEntry, Manifest
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.store import Store, open_manifest, open_store, read_manifest, state_parts

from . import split_keys
from .base import Base, base_or_whole, require_offsets, view_on
from .cluster import DEFAULT_ISOLATION, ask_once, look, require_same_topics
from .engines import Chosen
from .invariants import check, in_folder, published, require_valid
from .job import Job
from .ledger import Desk
from .manifest import judged
from .order import Task, offsets_in
from .progress import in_words, work_of
from .spec import JobResult, JobSpec
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
    with Desk(job.connection(), spec.namespace) as desk:
        work, offsets = _to_assemble(job, desk)
        if not work:
            return []
        results, alone = [], len(set(map(desk.captured, spec.snapshots))) == 1
        with Chosen(job, offsets) as engine:
            for captured, store in work:
                with job.of(captured.id, alone=alone):
                    results.append(_assembled(job, engine, desk, captured, store))
    return results


def _to_assemble(job: Job, desk: Desk) -> tuple[list[tuple[Captured, Store]], int]:
    """List the snapshots to assemble, each with its storage; and the largest number of offsets that one of them reads.
    What can be refused is refused here, before an engine takes its seconds to start."""
    spec = job.spec
    given = _store(spec.storage) if spec.storage else None
    work, offsets, to_come = [], 0, set()
    named = set(map(desk.captured, spec.snapshots))
    for captured in sorted(named, key=lambda captured: captured.epoch):
        with job.of(captured.id, alone=len(named) == 1):
            store = given if given is not None else _store(captured.storage)
            view = desk.look(captured, job.isolation)
            # A parent that is assembled on the way is examined once it exists.
            parent_is_there = (captured.parent, store.uri) not in to_come
            base = _base(job, desk, captured, store, compare=False)[0] if parent_is_there else None
            view = view_on(base, captured, view.bounds)
            require_offsets(view, starts=view.starts)
            offsets = max(offsets, job.offsets(view))
            work.append((captured, store))
            to_come.add((captured.id, store.uri))
    return work, offsets


def _assembled(job: Job, engine: Chosen, desk: Desk, captured: Captured, store: Store) -> JobResult:
    """Assemble one snapshot, as the cluster is by now."""
    wanted, asked = job.sql
    began = time.monotonic()
    base, why_full = _base(job, desk, captured, store)
    view = desk.look(captured, job.isolation)
    task = Task(
        view=view,
        settings=job.settings(desk.ledger(captured), job.isolation),
        store=store,
        base=base,
        wanted=wanted,
        facts=desk.facts(captured, job.spec.sinks),
        require_same_log=lambda: desk.require_same_topics(view),
    )
    manifest = engine.do(lambda it: it.assemble(task))
    seconds, read = time.monotonic() - began, offsets_in(manifest.read)
    work = work_of(manifest.id, read, seconds, manifest.checks, written=manifest)
    job.notify(in_words(work))
    place, good = store.manifest_place(captured.id), Verdict(manifest.verdict).good
    desk.record(manifest, place)
    why_not = desk.commit(manifest) if good else "not verified"
    return JobResult.of(
        manifest,
        place,
        work,
        content=manifest.content,
        why_full=why_full,
        tables={table.name: table.rows for table in manifest.tables},
        seconds=manifest.times.seconds,
        positions_committed=not why_not,
        positions_why_not=why_not,
        answers=tuple(check(asked, published(store, manifest))) if asked and good else (),
    )


def _base(
    job: Job, desk: Desk, captured: Captured, store: Store, *, compare: bool = True
) -> tuple[Base | None, str]:
    ledger = desk.ledger(captured)
    return base_or_whole(store, captured, ledger, isolation=job.isolation, compare=compare)


def _store(uri: str) -> Store:
    store = open_store(uri)
    store.check_writable()
    return store


# --- Verification ---------------------------------------------------------------------------------------------------


def isolation_of(manifest: Manifest, asked: str) -> str:
    """Return the isolation by which to read the log of a snapshot again: as for its tables, because otherwise it is
    another log.

    Args:
        asked: the isolation in the command; empty: none.

    Raises:
        BadInputError: the command names another one than the manifest.
    """
    if asked and manifest.isolation and asked != manifest.isolation:
        raise BadInputError(
            f"snapshot {manifest.id} was assembled with {manifest.isolation}, and cannot be verified with {asked}",
            hint="leave --isolation out",
        )
    return asked or manifest.isolation or DEFAULT_ISOLATION


def invariants_of(
    before: Iterable[InvariantEntry], given: tuple[Invariant, ...], *, record: bool
) -> tuple[Invariant, ...]:
    """Return the invariants to run again: without others named, those of the manifest, as they were run `before`.

    A verdict for the ledger leaves none of them out: a snapshot where one failed would be good again. One of the same
    name replaces it.
    """
    own = tuple(Invariant(name=it.name, sql=it.sql) for it in before)
    if given and not record:
        return given
    named = {it.name for it in given}
    return (*given, *(it for it in own if it.name not in named))


class _Again(NamedTuple):
    """A snapshot that is verified again: the place of its manifest, and the SHA-256 of that."""

    store: Store
    place: str
    sha256: str
    manifest: Manifest
    view: CutView
    not_compared: tuple[str, ...]


def verify(job: Job) -> list[JobResult]:
    """Verify the snapshots of a job's manifests again; one that fails does not stop the others."""
    work, results, alone = [], [], len(job.spec.manifests) == 1
    for path in job.spec.manifests:
        with job.of(path, alone=alone):
            work.append((path, _again(path, job.connection(), job.spec)))
    if not work:
        return []
    offsets = max(job.offsets(item.view) for _, item in work)
    with Chosen(job, offsets) as engine:
        for path, item in work:
            with job.of(path, alone=alone):
                results.append(_verified(job, engine, item))
    return results


def _verified(job: Job, engine: Chosen, item: _Again) -> JobResult:
    spec, manifest, began = job.spec, item.manifest, time.monotonic()
    wanted, connection = invariants_of(manifest.invariants, job.sql[0], record=spec.record), job.connection()
    settings = job.settings(manifest.ledger, manifest.isolation)
    with tempfile.TemporaryDirectory(prefix="snapkafka-") as scratch:
        folder = Path(scratch) if wanted or spec.tables else None
        found = engine.do(lambda it: it.verify(item.view, settings, folder))
        if folder is not None:
            computed = in_folder(folder)
            found = split_keys.noted(found, split_keys.find(item.view, computed))
            outcomes = found.outcomes
            of_tables = check(wanted, computed)
            if spec.tables:
                of_tables.append(compare(published(item.store, manifest), computed, outcomes))
            found = found._replace(outcomes=[*outcomes, *of_tables])
    asyncio.run(ask_once(connection, lambda admin: require_same_topics(admin, item.view)))
    sources = {*spec.sources, *(entry.topic for entry in manifest.external if entry.declared)}
    strict = spec.strict or manifest.strict
    checked = replace(
        manifest, **judged(manifest.captured, found, manifest.open, sources=sources, strict=strict)
    )
    seconds = time.monotonic() - began
    work = work_of(manifest.id, job.offsets(item.view), seconds, checked.checks)
    job.notify(in_words(work))
    if spec.record:
        with Desk(connection, manifest.namespace) as desk:
            desk.record(checked, item.place, sha256=item.sha256)
    return JobResult.of(checked, item.place, work, not_compared=item.not_compared)


def _again(path: str, connection: Connection, spec: JobSpec) -> _Again:
    store, manifest = read_manifest(path)
    if spec.tables:  # what is gone, or is not what was built on, is refused before an engine starts
        state_parts(store, manifest)
    name = open_manifest(path)[1]
    isolation = isolation_of(manifest, spec.isolation)
    since_ms = manifest.ledger.triggered_ms
    captured = manifest.captured
    view = asyncio.run(
        ask_once(connection, lambda admin: look(admin, captured, isolation=isolation, triggered_ms=since_ms))
    )
    seen = asyncio.run(
        ask_once(connection, lambda admin: external_readers(admin, captured, sinks=spec.sinks))
    )
    asked = replace(manifest, isolation=isolation, open=still_open(manifest.open, seen, spec.sinks))
    compared = [] if spec.tables else ["stored tables were not compared with the log (`tables` does that)"]
    if not spec.record:  # else what is recorded now counts
        compared += not_compared(StoredManifest.of(store, manifest), _ledger_of(manifest, connection))
    # The place is one that leads there from wherever it is read later.
    return _Again(store, store.place(name), store.sha256(name), asked, view, tuple(compared))


def _ledger_of(manifest: Manifest, connection: Connection) -> LedgerReading | str:
    """Read the ledger of a snapshot; or return why it cannot be read: verification needs the log alone."""
    try:
        return asyncio.run(read_ledger(connection, manifest.namespace))
    except (BrokerUnavailableError, LedgerUnusableError) as error:
        return error.message
