"""The options of a job, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    DependencyMissingError,
    LedgerUnusableError,
    OutputError,
    SnapkafkaError,
)
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import InvariantEntry, LedgerEntry

from .interrupts import interrupted_by
from .invariant_files import load, parse_parameters
from .spark_errors import as_ours
from .spec import JobResult, JobSpec
from .values.avro import read_schemas
from .values.decoder import PLAIN, Decoding
from .values.registry import Registry

T = TypeVar("T")

#: What befalls every snapshot of a run, so that the others are not tried.
OF_ALL: Final = (BrokerUnavailableError, LedgerUnusableError, DependencyMissingError, OutputError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the log of one snapshot is read: options of the job, and the ledger whose headers are ours, with the times of
    the processes' reports."""

    spec: JobSpec
    ledger: LedgerEntry
    decoding: Decoding = PLAIN


@dataclass(frozen=True, kw_only=True)
class Job:
    """The options of a job, and what it works with.

    `notify`: called with each line of its log. `failed`: the errors of snapshots, by their names.
    """

    spec: JobSpec
    notify: Callable[[str], None]
    failed: dict[str, SnapkafkaError] = field(default_factory=dict)

    def each(self, named: Mapping[str, T], work: Callable[[T], JobResult]) -> list[JobResult]:
        """Work on each snapshot. One that fails is noted, and does not stop the others; its error is raised if there is
        no other, or if it would befall all."""
        results = []
        for name, item in named.items():
            try:
                results.append(work(item))
            except Exception as error:
                if len(named) == 1 or interrupted_by() is not None:
                    raise
                ours = as_ours(error, self.notify)
                if isinstance(ours, OF_ALL):
                    raise
                self.failed[name] = ours
                self.notify(f"{name}: {' '.join(ours.message.split())}")
        return results

    def connection(self) -> Connection:
        if not self.spec.bootstrap:
            raise BadInputError(
                "no broker is given", hint="add --bootstrap host:port, or set SNAPKAFKA_BOOTSTRAP"
            )
        return Connection.from_environment(self.spec.bootstrap, os.environ)

    @cached_property
    def sql(self) -> tuple[tuple[InvariantEntry, ...], tuple[InvariantEntry, ...]]:
        """Return the invariants, and the predicates that are asked instead; the parameters are those of either."""
        spec = self.spec
        found = load(spec.invariants or spec.asked, parse_parameters(spec.parameters))
        return ((), found) if spec.asked else (found, ())

    @cached_property
    def decoding(self) -> Decoding:
        spec, schemas = self.spec, read_schemas(self.spec.avro)
        registry = Registry(spec.schema_registry, os.environ) if spec.schema_registry else None
        return Decoding(codecs=spec.codecs, unpickle=spec.unpickle, avro=schemas, registry=registry)
