"""`python -m snapkafka.assembly`: arguments in, a report or JSON out, an exit status.

Progress goes to standard error, one line each; the result to standard output, or to the file that
`--result` names.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

import msgspec

from snapkafka.assembly.avro_schemas import read_schemas
from snapkafka.assembly.base import Base, ParentUnfitError, base_or_whole, require_whole, view_on
from snapkafka.assembly.cluster import (
    DEFAULT_ISOLATION,
    kafka_options,
    look,
    look_for_external_readers,
    require_around,
)
from snapkafka.assembly.ledger import Desk
from snapkafka.assembly.manifest import check_entries, entry, openness_of, verdict_of
from snapkafka.assembly.options import parser
from snapkafka.assembly.progress import Working, as_line, in_words, now_and_then
from snapkafka.assembly.report import assembled, report, verified
from snapkafka.assembly.schema_registry import Registry
from snapkafka.assembly.spark.settings import Stored
from snapkafka.checks import CutView, Verdict, reading_ranges, require_offsets
from snapkafka.checks.invariants import Invariant, load, parse_parameters
from snapkafka.config import namespace_problem
from snapkafka.errors import (
    COMMAND,
    EXIT_NOT_GOOD,
    EXIT_OK,
    BadInputError,
    BrokerUnavailableError,
    DependencyMissingError,
    InternalError,
    LedgerUnusableError,
    Option,
    OutputError,
    Reported,
    SnapkafkaError,
    StorageError,
    Verb,
)
from snapkafka.kafka.cluster.external_groups import still_open
from snapkafka.kafka.ledger.manifest_match import StoredManifest, not_compared
from snapkafka.kafka.ledger.reading import LedgerReading, read_ledger
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.far_times import FarStretch, far_stretches
from snapkafka.manifest import LedgerEntry, Manifest
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.runtime.signals import Interrupted, exit_status
from snapkafka.store import Store, open_manifest, open_store, read_manifest, state_parts

from .interrupts import interrupted_by, interruptible_again
from .spark_errors import translate, with_time_of_loss

#: How often somebody who reads along is told how far it is.
PROGRESS_EVERY_S: Final = 10.0
#: What befalls every snapshot of a run, so that the others are not tried.
OF_ALL: Final = (BrokerUnavailableError, LedgerUnusableError, DependencyMissingError, OutputError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; an error becomes one line, a line of advice, and an exit status."""
    options = parser().parse_args(arguments)
    # spark-submit makes one stream of the two: what is read as JSON has to be nothing else there.
    one_stream = options.json and not options.result and "PYSPARK_GATEWAY_PORT" in os.environ
    options.say = _silent if one_stream else _say
    options.notify = _notify if options.progress else now_and_then(options.say, PROGRESS_EVERY_S)
    # What the client library thinks of a broker that is away is said by us, once.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    options.output = sys.stdout
    try:
        with _output(options.result) as options.output:
            return _run(options)
    except OutputError as error:
        return _failed(error, options)
    except Interrupted as interrupted:
        return _interrupted(interrupted.number, options)


def _run(options: argparse.Namespace) -> int:
    try:
        results, failed = (_verify_only(options), {}) if options.verify_only else _assemble(options)
    except Exception as error:
        if (number := interrupted_by()) is not None:
            return _interrupted(number, options)
        if isinstance(error, SnapkafkaError):
            return _failed(error, options)
        foreseen = translate(error)
        if foreseen is None:
            options.say(traceback.format_exc())
        return _failed(foreseen or InternalError(f"{type(error).__name__}: {error}"[:300]), options)
    if options.json:
        errors = [{"id": name, **_as_data(error)} for name, error in failed.items()]
        _print_json({"snapshots": results, **({"failed": errors} if errors else {})}, options)
    else:
        print("\n".join(line for found in results for line in report(found)), file=options.output)
    if failed:
        return next(iter(failed.values())).exit_status
    return EXIT_OK if all(Verdict(result["verdict"]).good for result in results) else EXIT_NOT_GOOD


@contextmanager
def _output(path: str) -> Iterator[TextIO]:
    """Open the output for the result, before the work, so that the work is not done in vain.

    Raises:
        OutputError: it cannot be written.
    """
    if not path:
        yield sys.stdout
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(path).open("w", encoding="utf-8"))
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror}",
                hint="check the path and its rights",
                field="result",
            ) from error
        yield file


def _failed(error: SnapkafkaError, options: argparse.Namespace) -> int:
    if options.json:
        _print_json({"error": {**_as_data(error), "exit_status": error.exit_status}}, options)
    if options.json and options.progress:
        return error.exit_status  # who reads along says it
    options.say(f"error: {_one_line(COMMAND.message(error))}\n       {_one_line(COMMAND.advice(error))}")
    return error.exit_status


def _as_data(error: SnapkafkaError) -> dict[str, Any]:
    parts = msgspec.to_builtins(Reported.of(error))
    return {**parts, "message": COMMAND.message(error), "hint": COMMAND.advice(error)}


def _interrupted(number: int, options: argparse.Namespace) -> int:
    options.say(f"interrupted by {signal.Signals(number).name}; nothing half-written is left")
    return exit_status(number)


# --- Assembly -------------------------------------------------------------------------------------------------------


def _assemble(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, SnapkafkaError]]:
    if problem := namespace_problem(options.namespace):
        raise BadInputError(problem, hint=("add ", Option("namespace"), ", or set SNAPKAFKA_NAMESPACE"))
    if not options.snapshot:
        raise BadInputError(
            "no snapshot is named", hint=("add ", Option("snapshot", "ID"), "; ", Verb("list"), " shows them")
        )
    require_around(options.around)
    options.isolation = options.isolation or DEFAULT_ISOLATION
    given_sql, connection = _invariants(options), _connection(options.bootstrap)
    wanted, asked = ((), given_sql) if options.ask else (given_sql, ())
    schemas, registry = read_schemas(options.avro), _registry(options)
    with Desk(connection, options.namespace) as desk:
        failures = _Failures(options)
        work, offsets = _to_assemble(desk, options, failures)
        if not work:
            return [], failures.found
        results = []
        with _spark(options, offsets, {store.scheme for _, store in work}) as spark:
            from .verify import v6_invariants

            v6_invariants.require_valid(spark, asked)
            for captured, store in work:
                settings = _settings(options, desk.ledger(captured), schemas, registry)
                with failures.of(captured):
                    results.append(_one(spark, desk, captured, store, settings, options, wanted, asked))
    return results, failures.found


def _to_assemble(
    desk: Desk, options: argparse.Namespace, failures: _Failures
) -> tuple[list[tuple[Captured, Store]], int]:
    """List the snapshots to assemble, each with its storage; and the largest number of offsets that one of them reads.
    What can be refused is refused here, before Spark takes its seconds to start."""
    given = _store(options.storage) if options.storage else None
    work, offsets, to_come = [], 0, set()
    named = set(map(desk.captured, options.snapshot))
    failures.alone = len(named) == 1
    for captured in sorted(named, key=lambda captured: captured.epoch):
        with failures.of(captured):
            store = given if given is not None else _store(captured.storage)
            view = desk.look(captured, options.isolation)
            # A parent that is assembled on the way is looked at when it is there.
            parent_is_there = (captured.parent, store.uri) not in to_come
            base = _base(store, captured, desk, options)[0] if parent_is_there else None
            view = view_on(base, captured, view.bounds)
            with with_time_of_loss(store, captured):
                require_offsets(view, starts=view.starts)
            offsets = max(offsets, _offsets(view, options))
            work.append((captured, store))
            to_come.add((captured.id, store.uri))
    return work, offsets


def _one(
    spark: Any,
    desk: Desk,
    captured: Captured,
    store: Store,
    settings: Any,
    options: argparse.Namespace,
    wanted: tuple[Invariant, ...],
    asked: tuple[Invariant, ...],
) -> dict[str, Any]:
    """Assemble one snapshot; return the report."""
    from . import job
    from .reading.meter import Meter

    base, whole = _base(store, captured, desk, options)
    view = desk.look(captured, options.isolation)  # as it is by now
    far = desk.far(view, options.isolation)
    _say_far(far, captured.id, options)
    meter = Meter(spark, captured.id, options.notify)
    assemble = partial(
        job.assemble,
        spark,
        view,
        replace(settings, far=far),
        store,
        namespace=options.namespace,
        wanted=wanted,
        external_readers=desk.external_readers(captured, options.sink),
        restorable=desk.restorable(captured),
        topics=desk.topics(captured),
        meter=meter,
        say=options.say,
    )
    try:
        manifest = assemble(base=base)
    except Exception as error:
        ours = error if isinstance(error, SnapkafkaError) else translate(error)
        # Files of the parent may also be missed by a query, late.
        if (
            base is None
            or interrupted_by() is not None
            or not isinstance(ours, ParentUnfitError | StorageError)
        ):
            raise
        base, whole = None, require_whole(store, captured, ours)
        manifest = assemble(base=None)
    work_done = meter.work(manifest.checks, written=manifest)
    options.say(in_words(work_done))
    place = store.manifest_place(captured.id)
    desk.record(manifest, place)
    not_committed = desk.commit(manifest) if Verdict(manifest.verdict).good else "not verified"
    result = assembled(manifest, place, not_committed, work_done, whole=whole)
    if asked and Verdict(manifest.verdict).good:
        answers = job.ask(spark, store, manifest, base, asked)
        result["answers"] = [asdict(entry(answer)) for answer in answers]
    return result


def _say_far(far: Iterable[FarStretch], name: str, options: argparse.Namespace) -> None:
    for stretch in far:
        options.say(f"{name}: {stretch}: Spark cannot read that, another client does")


def _base(
    store: Store, captured: Captured, desk: Desk, options: argparse.Namespace
) -> tuple[Base | None, str]:
    return base_or_whole(store, captured, desk.ledger(captured), isolation=options.isolation)


class _Failures:
    """The snapshots of a run that could not be assembled. One does not stop the others."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.alone = False  # only one snapshot is named
        self.found: dict[str, SnapkafkaError] = {}

    @contextmanager
    def of(self, captured: Captured) -> Iterator[None]:
        """Note a failure in the block as that of a snapshot; raise it if no other is named, or it would befall all."""
        try:
            yield
        except Exception as error:
            ours = error if isinstance(error, SnapkafkaError) else translate(error)
            if self.alone or interrupted_by() is not None or isinstance(ours, OF_ALL):
                raise
            if ours is None:
                self._options.say(traceback.format_exc())
            self.found[captured.id] = ours or InternalError(f"{type(error).__name__}: {error}"[:300])
            self._options.say(f"{captured.id}: {_one_line(self.found[captured.id].message)}")


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
            hint=("leave ", Option("isolation"), " out"),
        )
    return asked or manifest.isolation or DEFAULT_ISOLATION


def _verify_only(options: argparse.Namespace) -> list[dict[str, Any]]:
    if not options.manifest:
        raise BadInputError("no manifest is named", hint=("add ", Option("manifest", "PATH")))
    connection, given = _connection(options.bootstrap), _invariants(options)
    schemas, registry = read_schemas(options.avro), _registry(options)
    work = [_again(path, connection, options) for path in options.manifest]
    results = []
    offsets = max(_offsets(item.view, options) for item in work)
    schemes = {item.store.scheme for item in work} if options.tables else set()
    with _spark(options, offsets, schemes) as spark:
        from . import job
        from .reading.meter import Meter

        for item in work:
            manifest = item.manifest
            # Without others named, the invariants are those of the manifest, as they were run then.
            wanted = given or tuple(Invariant(name=it.name, sql=it.sql) for it in manifest.invariants)
            _say_far(item.far, manifest.id, options)
            settings = replace(
                _settings(options, manifest.ledger, schemas, registry),
                isolation=manifest.isolation,
                far=item.far,
            )
            meter = Meter(spark, manifest.id, options.notify)
            outcomes, _, external, outside = job.verify(
                spark,
                item.view,
                settings,
                wanted=wanted,
                stored=Stored(item.store, manifest) if options.tables else None,
                meter=meter,
                say=options.say,
            )
            declared = {*options.source, *(e.topic for e in manifest.external if e.declared)}
            openness = openness_of(
                manifest.captured,
                external,
                manifest.open,
                outside=outside,
                sources=declared,
                strict=options.strict or manifest.strict,
            )
            checked = replace(
                manifest,
                verdict=verdict_of(manifest.captured, outcomes, openness),
                open=openness.groups,
                external=openness.external,
                outsiders=openness.outsiders,
                strict=openness.strict,
                checks=check_entries(outcomes),
            )
            work_done = meter.work(checked.checks)
            options.say(in_words(work_done))
            results.append(verified(checked, item.place, work_done, item.not_compared))
            if options.record:
                with Desk(connection, manifest.namespace) as desk:
                    desk.record(checked, item.place, sha256=item.sha256)
    return results


class _Again(NamedTuple):
    """A snapshot that is verified again: the place of its manifest, the SHA-256 of that, and the settings by which its
    log is read; `far`: see `Settings`."""

    store: Store
    place: str
    sha256: str
    manifest: Manifest
    view: CutView
    not_compared: tuple[str, ...]
    far: tuple[FarStretch, ...]


def _again(path: str, connection: Connection, options: argparse.Namespace) -> _Again:
    store, manifest = read_manifest(path)
    if options.tables:  # what is gone, or is not what was built on, is refused before Spark starts
        state_parts(store, manifest)
    name = open_manifest(path)[1]
    isolation = isolation_of(manifest, options.isolation)
    since_ms = manifest.ledger.triggered_ms
    view = asyncio.run(look(connection, manifest.captured, isolation=isolation, triggered_ms=since_ms))
    seen = asyncio.run(look_for_external_readers(connection, manifest.captured, sinks=options.sink))
    asked = replace(manifest, isolation=isolation, open=still_open(manifest.open, seen, options.sink))
    compared = (
        [] if options.tables else ["stored tables were not compared with the log (the option tables does)"]
    )
    if not options.record:  # else what is recorded now counts
        compared += not_compared(StoredManifest.of(store, manifest), _ledger_of(manifest, connection))
    # The place is one that leads there from wherever it is read later.
    far = asyncio.run(far_stretches(connection, view.bounds or (), isolation=isolation))
    return _Again(store, store.place(name), store.sha256(name), asked, view, tuple(compared), far)


def _ledger_of(manifest: Manifest, connection: Connection) -> LedgerReading | str:
    """Read the ledger of a snapshot; or return why it cannot be read: verification needs the log alone."""
    try:
        return asyncio.run(read_ledger(connection, manifest.namespace))
    except (BrokerUnavailableError, LedgerUnusableError) as error:
        return error.message


# --- Arguments ------------------------------------------------------------------------------------------------------


def _connection(bootstrap: str) -> Connection:
    if not bootstrap:
        raise BadInputError(
            "no broker is given",
            hint=("add ", Option("bootstrap", "host:port"), ", or set SNAPKAFKA_BOOTSTRAP"),
        )
    return Connection.from_environment(bootstrap, os.environ)


def _invariants(options: argparse.Namespace) -> tuple[Invariant, ...]:
    return load(options.invariants or options.ask, parse_parameters(options.set))


def _registry(options: argparse.Namespace) -> Registry | None:
    if not options.schema_registry:
        return None
    return Registry.from_environment(options.schema_registry, os.environ, options.say)


def _store(uri: str) -> Store:
    store = open_store(uri)
    store.check_writable()
    return store


def _settings(
    options: argparse.Namespace,
    ledger: LedgerEntry,
    schemas: dict[str, str],
    registry: Registry | None,
) -> Any:
    from .settings import Settings
    from .values.values import Decoding

    return Settings(
        bootstrap=_connection(options.bootstrap).bootstrap,
        ledger=ledger,
        isolation=options.isolation,
        tail_max=options.tail_max,
        options=kafka_options(os.environ),
        decoding=Decoding(
            codecs=tuple(options.codecs), unpickle=options.unpickle, avro=schemas, registry=registry
        ),
        sources=tuple(options.source),
        strict=options.strict,
        around=options.around,
        with_inputs=options.with_inputs,
    )


def _offsets(view: CutView, options: argparse.Namespace) -> int:
    ranges = reading_ranges(view, tail_max=options.tail_max, starts=view.starts)
    return sum(item.end - item.start for item in ranges)


@contextmanager
def _spark(options: argparse.Namespace, offsets: int, schemes: Collection[str] = ()) -> Iterator[Any]:
    from .reading.session import session

    options.say("starting Spark")
    with session(offsets=offsets, ui=options.ui, s3="s3a" in schemes) as spark:
        interruptible_again()
        if options.ui and spark.sparkContext.uiWebUrl:
            options.say(f"Spark's page: {spark.sparkContext.uiWebUrl}")
        yield spark


# --- Telling --------------------------------------------------------------------------------------------------------


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _notify(working: Working) -> None:
    _say(as_line(working))


def _silent(text: str) -> None:
    pass


def _print_json(value: Any, options: argparse.Namespace) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False), file=options.output)


def _one_line(text: str) -> str:
    return " ".join(text.split())
