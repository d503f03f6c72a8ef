"""The options of a job, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from snapkafka.checks import CutView, reading_ranges
from snapkafka.errors import BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import LedgerEntry

from .cluster import DEFAULT_ISOLATION, kafka_options
from .invariant_files import Invariant, load, parse_parameters
from .progress import Working
from .settings import Settings
from .spec import JobSpec, changed
from .values.avro import read_schemas
from .values.decoding import Decoding
from .values.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The options of a job, and what it works with.

    `notify`, `progress`: called with each line of its log, and with its progress.
    """

    spec: JobSpec
    notify: Callable[[str], None]
    progress: Callable[[Working], None]

    def connection(self) -> Connection:
        if not self.spec.bootstrap:
            raise BadInputError(
                "no broker is given",
                hint="add --bootstrap host:port, or set SNAPKAFKA_BOOTSTRAP",
            )
        return Connection.from_environment(self.spec.bootstrap, os.environ)

    def sql(self) -> tuple[tuple[Invariant, ...], tuple[Invariant, ...]]:
        """Return the invariants, and the predicates that are asked instead; the parameters are those of either."""
        spec = self.spec
        found = load(spec.invariants or spec.asked, parse_parameters(spec.parameters))
        return ((), found) if spec.asked else (found, ())

    def decoding(self) -> Decoding:
        spec, registry = self.spec, None
        if spec.schema_registry:
            registry = Registry(spec.schema_registry, os.environ)
        schemas = read_schemas(spec.avro)
        return Decoding(codecs=spec.codecs, unpickle=spec.unpickle, avro=schemas, registry=registry)

    @property
    def isolation(self) -> str:
        return self.spec.isolation or DEFAULT_ISOLATION

    def settings(self, ledger: LedgerEntry, decoding: Decoding, isolation: str) -> Settings:
        """Return the settings by which the log of a snapshot is read."""
        spec = changed(self.spec, isolation=isolation, bootstrap=self.connection().bootstrap)
        options = kafka_options(os.environ)
        return Settings(spec=spec, ledger=ledger, options=options, decoding=decoding)

    def offsets(self, view: CutView) -> int:
        ranges = reading_ranges(view, tail_max=self.spec.tail_max, starts=view.starts)
        return sum(item.end - item.start for item in ranges)
