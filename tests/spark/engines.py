"""Each engine, by which tests assemble and verify what a stage has captured."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from snapkafka.assembly import Desk, Job, Settings, Tables, base_or_whole, published, require_offsets
from snapkafka.assembly.base import view_on
from snapkafka.assembly.embedded import EmbeddedEngine
from snapkafka.assembly.invariants import MAIN, opened
from snapkafka.assembly.ledger import ClusterFacts
from snapkafka.assembly.manifest import Task
from snapkafka.assembly.order import Engine as OfJob
from snapkafka.checks import Checked, CutView
from snapkafka.kafka import Connection
from snapkafka.manifest import STATE, InvariantEntry, Manifest
from snapkafka.protocol import Captured
from snapkafka.store import Store
from tests.spark.at_hand import settings_of
from tests.spark.scene import Stage
from tests.worlds.stores import LocalStore


@dataclass(frozen=True)
class Engine:
    """`session`: of Spark; None: the embedded engine."""

    name: str
    session: Any = None
    notify: Callable[[str], None] = lambda line: None

    def of(self, settings: Settings) -> OfJob:
        """Return the engine of a job with these settings."""
        job = Job(spec=settings.spec, notify=self.notify)
        if self.session is None:
            return EmbeddedEngine(job)
        from snapkafka.assembly.spark.engine import SparkEngine

        return SparkEngine(self.session, job)

    def assembled(self, view: CutView, settings: Settings, store: LocalStore, **more: Any) -> Manifest:
        """Assemble a snapshot as it was looked at, with a base, invariants and facts or without."""
        given: dict[str, Any] = {"base": None, "wanted": (), "facts": ClusterFacts(), **more}
        view = view_on(given["base"], view, settings.ledger.triggered_ms)
        require_offsets(view)
        task = Task(view=view, settings=settings, store=store, require_same_log=lambda: None, **given)
        store.root.mkdir(parents=True, exist_ok=True)
        return self.of(settings).assemble(task)

    def assemble(
        self,
        stage: Stage,
        store: LocalStore,
        name: str = "snap",
        *,
        wanted: Sequence[InvariantEntry] = (),
        sinks: Collection[str] | None = None,
        whole: bool = False,
        **options: Any,
    ) -> Manifest:
        """Assemble a snapshot of a stage.

        Args:
            whole: also of an incremental one all of its state.
            sinks: topics that whoever reads them may read; None: who reads is not asked.
        """
        with looked_at(stage, name, **options) as (desk, captured, view, settings):
            facts = ClusterFacts()
            if sinks is not None:
                facts = ClusterFacts(external_readers=desk.facts(captured, sinks).external_readers)
            base = None
            if not whole:
                base, _ = base_or_whole(store, captured, settings.ledger, isolation=settings.spec.isolation)
            return self.assembled(view, settings, store, base=base, wanted=tuple(wanted), facts=facts)

    def verify(
        self, stage: Stage, name: str = "snap", store: Store | None = None, **options: Any
    ) -> tuple[Tables, Checked]:
        """Verify a snapshot of a stage from its log alone."""
        with looked_at(stage, name, **options) as (_, _, view, settings):
            return self.of(settings).verify(view, settings, store=store)


@contextmanager
def looked_at(
    stage: Stage, name: str = "snap", *, isolation: str = "read_committed", **options: Any
) -> Iterator[tuple[Desk, Captured, CutView, Settings]]:
    """Look at a captured snapshot."""
    with Desk(Connection(bootstrap=stage.bootstrap), stage.namespace) as desk:
        captured = desk.captured(f"{stage.namespace}-{name}")
        view = desk.look(captured, isolation)
        settings = settings_of(
            desk.ledger(captured),
            bootstrap=stage.bootstrap,
            isolation=isolation,
            namespace=stage.namespace,
            **options,
        )
        yield desk, captured, view, settings


def rows(store: LocalStore, manifest: Manifest, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    place = store.root / next(entry.path for entry in manifest.tables if entry.name == table)
    found: list[dict[str, Any]] = pq.read_table(place, partitioning=None).to_pylist()
    return found


def state_of(store: Store, manifest: Manifest, columns: str = "key, value") -> list[Any]:
    """Return the whole state, of an incremental snapshot with the rows of its parents."""
    with opened({MAIN: published(store, manifest)}) as database:
        rows = database.execute(f'SELECT {columns} FROM {STATE} ORDER BY "partition", changelog_offset')
        return list(rows.fetchall())
