"""`checkpoint`: write the part of the ledger that still matters once more, so that older records can be deleted.

Every service that starts, and every command, reads the ledger from its beginning. It grows by some hundred bytes for
each process and partition with every snapshot: one snapshot a minute makes a million records in half a year.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Final

from snapkafka.kafka.ledger.reading import LedgerReading, opened
from snapkafka.kafka.ledger.settings import RECORD_BYTES_MAX
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_checkpoint import take_checkpoint
from snapkafka.wire.codec import encode

#: What is younger stays as it is: whoever reads the ledger, and is no more than this behind, misses nothing.
KEEP_MS: Final = 60 * 60 * 1000
#: A checkpoint that would remove more records is due: a worker that starts waits two seconds for the ledger, and reads
#: some thousand records in that time, beside its own work.
DUE: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """The result: of `records` below offset `upto` those that still matter were `kept`, in `chunks` records; the
    ledger begins at `upto` now. All 0: nothing was old enough, or only the checkpoint with which the ledger begins,
    and nothing was done."""

    namespace: str
    upto: int
    records: int
    kept: int
    chunks: int


def checkpoint_due(reading: LedgerReading, now_ms: int, *, keep_ms: int = KEEP_MS) -> int:
    """Count the records of the ledger that a checkpoint would remove now; 0 if that is not worth it yet."""
    old = sum(
        offset >= reading.start and at_ms <= now_ms - keep_ms for offset, at_ms in reading.times_ms.items()
    )
    return old if old > DUE else 0


async def checkpoint(
    where: Connection | Cluster, namespace: str, *, now_ms: int, keep_ms: int = KEEP_MS
) -> Checkpointed:
    """Write a checkpoint of all records older than `keep_ms`, then delete these.

    Open snapshots, the latest 64 captured ones, processes, owners and names stay known; the ledger forgets older
    snapshots, and their manifests stay. Running it twice, or twice at once, is safe.

    Args:
        now_ms: the time, in milliseconds since 1970, by a clock that agrees with the broker's.

    Raises:
        RecordTooLargeError: a record with its envelope exceeds the limit; nothing is deleted.
        LedgerUnusableError: deletion is unauthorized. Nothing is lost; the checkpoint is written.
    """
    async with opened(where, namespace, remember=True) as work:
        reading = work.reading
        assert reading.entries is not None
        old = list(itertools.takewhile(lambda entry: entry.timestamp_ms <= now_ms - keep_ms, reading.entries))
        chunks = take_checkpoint(
            ((entry.offset, entry.record) for entry in old),
            first_n=random.getrandbits(62),
            start=reading.start,
            times_ms=reading.times_ms,
            fits=lambda chunk: len(encode(chunk)) <= RECORD_BYTES_MAX,
        )
        if not old or not chunks:
            return Checkpointed(namespace=namespace, upto=0, records=0, kept=0, chunks=0)
        for chunk in chunks:
            await work.ledger.append(chunk)
        upto = chunks[0].upto
        await work.ledger.trim(upto)
        return Checkpointed(
            namespace=namespace,
            upto=upto,
            records=len(old),
            kept=sum(len(chunk.kept) for chunk in chunks),
            chunks=len(chunks),
        )
