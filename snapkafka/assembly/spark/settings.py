"""How the log is read, and the place of an assembled snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from snapkafka.checks.ranges import TAIL_MAX
from snapkafka.kafka.records.far_times import FarStretch
from snapkafka.manifest import (
    LedgerEntry,
    Manifest,
)
from snapkafka.store import Store

from .values.values import PLAIN, Decoding


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings by which the log is read.

    Args:
        bootstrap: `host:port` of a broker.
        ledger: the ledger whose headers are ours, with the times of the processes' reports.
        isolation: "read_committed": without aborted records.
        tail_max: how many offsets past the snapshot's ends are read, per partition.
        options: more options of Spark's Kafka source (credentials).
        decoding: of keys and values.
        sources: topics whose external records are declared to be no effects of the apps.
        strict: undeclared external records leave a snapshot open everywhere.
        around: records of a channel and side of the cut in the table `around`, at most; 0: it is not written.
        with_inputs: whether to write the table `inputs`, of external records that are still to be read.
        far: stretches of the log whose times Spark cannot read.
    """

    bootstrap: str
    ledger: LedgerEntry
    isolation: str = "read_uncommitted"
    tail_max: int = TAIL_MAX
    options: Mapping[str, str] = field(default_factory=dict)
    decoding: Decoding = PLAIN
    sources: tuple[str, ...] = ()
    strict: bool = False
    around: int = 0
    with_inputs: bool = False
    far: tuple[FarStretch, ...] = ()


class Stored(NamedTuple):
    """A snapshot and its storage."""

    store: Store
    manifest: Manifest
