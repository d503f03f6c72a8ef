"""The options of a job, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

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

from .entry import interrupted_by
from .invariant_files import load, parse_parameters
from .spark_errors import as_ours
from .spec import JobSpec
from .values.avro import read_schemas
from .values.decoder import PLAIN, Decoding
from .values.registry import Registry

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

    `notify`: called with each line of its log. `failed`: the errors of snapshots, by their names. `alone`: only one is
    named.
    """

    spec: JobSpec
    notify: Callable[[str], None]
    failed: dict[str, SnapkafkaError] = field(default_factory=dict)

    @contextmanager
    def of(self, name: str, *, alone: bool) -> Iterator[None]:
        """Note a failure in the block as that of a snapshot, as one does not stop the others; raise it if no other is
        named, or it would befall all."""
        try:
            yield
        except Exception as error:
            if alone or interrupted_by() is not None:
                raise
            ours = as_ours(error, self.notify)
            if isinstance(ours, OF_ALL):
                raise
            self.failed[name] = ours
            self.notify(f"{name}: {' '.join(ours.message.split())}")

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
