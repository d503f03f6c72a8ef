"""The broker of the simulator: partitions with offsets, transactions, committed positions, and the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from snapkafka.checks import LogRecord
from snapkafka.checks.log import EXTERNAL
from snapkafka.protocol.records import LedgerRecord, TopicPartition

#: The process that a forged header names.
FORGER: Final = 10**9
COMMITTED, OPEN, ABORTED = "committed", "open", "aborted"


@dataclass(slots=True, eq=False)
class SimStored:
    """A record in a partition: the content of its header and body, and its true origin.

    `step`: the step of the history that sent it (-1: an external writer). `ledger`: the ledger of `epoch` and
    `process`. `hops`: the limit of messages that one message may cause.
    """

    process: int = EXTERNAL
    epoch: int = 0
    seq: int = -1
    marker: bool = False
    previous: int = 0
    cause: tuple[TopicPartition, int] | None = None
    ledger: int = 0
    key: str = ""
    hops: int = 0
    reply_to: tuple[int, int] | None = None  # (process object, execution) that waits for an answer
    step: int = -1
    state: str = COMMITTED
    copied: bool = False  # by somebody who queued it again, with all its headers


@dataclass(slots=True)
class SimBroker:
    """All logs. Offsets are list indices; nothing is ever deleted. Records to the topics in `strips` lose their
    headers in transit, so that only the history knows who sent them."""

    logs: dict[TopicPartition, list[SimStored]] = field(default_factory=dict)
    committed: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    ledger: list[LedgerRecord] = field(default_factory=list)
    ledger_id: int = 0
    strips: frozenset[str] = frozenset()
    #: Written by workers, but without a header now: by a process, or (`NOBODY`) by a worker without snapkafka.
    unstamped: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)

    def log(self, tp: TopicPartition) -> list[SimStored]:
        return self.logs.setdefault(tp, [])

    def append(self, tp: TopicPartition, record: SimStored) -> int:
        log = self.log(tp)
        if tp.topic in self.strips:
            self.unstamped[tp, len(log)] = record.process
            record = replace(record, process=EXTERNAL, cause=None)
        log.append(record)
        return len(log) - 1

    def end(self, tp: TopicPartition, offset: int, state: str) -> SimStored:
        """Commit or abort the transaction of a record; return the record as it is now."""
        record = self.log(tp)[offset]
        record.state = state
        return record

    def is_readable(self, tp: TopicPartition, offset: int) -> bool:
        """Return whether there is a record for a reader of committed ones: not at the end, nor at an open transaction.

        An aborted record counts (its reader skips it): offsets of aborted records are holes.
        """
        log = self.log(tp)
        return offset < len(log) and log[offset].state != OPEN

    def records(self, *, truth: bool = False) -> list[LogRecord]:
        """Return the records that a verifier reads: every visible one. A verdict assumes that nobody forges headers,
        so those that were forged are external.

        Args:
            truth: whether copied records are external as well.
        """
        found = []
        for tp, log in self.logs.items():
            for offset, record in enumerate(log):
                if record.state == ABORTED:
                    continue
                ours = record.process not in (EXTERNAL, FORGER) and record.ledger == self.ledger_id
                ours = ours and not (truth and record.copied)
                stamp = (record.process, record.epoch, record.seq) if ours else (EXTERNAL, 0, -1)
                cause = record.cause if ours else None
                found.append(LogRecord(tp.topic, tp.partition, offset, *stamp, record.marker, cause))
        return found
