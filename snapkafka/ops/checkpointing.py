"""`checkpoint`: the ledger as far as it still matters is written once more, and what stands below may go.

A ledger is read from its beginning by every service that starts and by every command. It grows by some hundred bytes
for each process and partition with every snapshot, so that one a minute makes a million records in half a year.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Final

from snapkafka.kafka.ledger.ledger import RECORD_BYTES_MAX
from snapkafka.kafka.ledger.view import opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_checkpoint import take_checkpoint
from snapkafka.wire.codec import encode

__all__ = ["KEEP_MS", "Checkpointed", "checkpoint"]

#: What is younger stays as it is: whoever reads the ledger, and is no more than this behind, misses nothing.
KEEP_MS: Final = 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """Hold what was done: of `records` below offset `upto` those that still matter were `kept`, in `chunks` records;
    the ledger begins at `upto` now. All 0: nothing was old enough, or not even the checkpoint that the ledger begins
    with, and nothing was done."""

    namespace: str
    upto: int
    records: int
    kept: int
    chunks: int


async def checkpoint(
    where: Connection | Cluster, namespace: str, *, now_ms: int, keep_ms: int = KEEP_MS
) -> Checkpointed:
    """Write a checkpoint of all that is older than `keep_ms`, then delete that.

    Snapshots that are open, the latest 64 that were captured, processes, owners and names stay known; older snapshots
    are forgotten by the ledger, their manifests are not. Running it twice, or two of it at once, does no harm.

    Args:
        now_ms: the time, in milliseconds since 1970, by a clock that agrees with the broker's.

    Raises:
        RecordTooLargeError: a record and what stands around it is larger than a record may be; nothing is deleted.
        LedgerUnusableError: what is old may not be deleted. Nothing is lost; the checkpoint is there.
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
