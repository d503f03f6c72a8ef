"""The settings by which the log is read, and the place of an assembled snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from snapkafka.manifest import LedgerEntry

from .spec import JobSpec
from .values.decoding import PLAIN, Decoding


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of the job, and what follows from them for one snapshot.

    Args:
        spec: with an isolation.
        ledger: the ledger whose headers are ours, with the times of the processes' reports.
        options: more options of Spark's Kafka source (credentials).
        decoding: of keys and values.
    """

    spec: JobSpec
    ledger: LedgerEntry
    options: Mapping[str, str] = field(default_factory=dict)
    decoding: Decoding = PLAIN
