"""A broker loses the acknowledged tail of a partition: its files end earlier than they did, as after a power cut.

Without an fsync for each record, which is how Kafka works and what its replicas are for, a machine that loses its power
loses what it had acknowledged last.
"""

from __future__ import annotations

import struct
from pathlib import Path

from snapkafka.testing import EmbeddedKafka

#: A batch begins with its first offset and the number of bytes that follow these two numbers.
BATCH = struct.Struct(">qi")


def lose_tail(broker: EmbeddedKafka, topic: str, since: int) -> None:
    """Cut the log of the first partition short: nothing from offset `since` on is left. The broker does not run, and
    finds that it was not stopped in order."""
    assert broker.pid is None, "stop it first"
    data = broker.folder / "data"
    folder = data / f"{topic}-0"
    segments = sorted(folder.glob("*.log"))
    cut = 0
    for segment in segments:
        cut += _cut(segment, since)
    assert cut, f"{topic} has nothing from offset {since} on"
    for kind in ("*.index", "*.timeindex", "*.snapshot"):
        for made_of_it in folder.glob(kind):
            made_of_it.unlink()
    for checkpoint in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (data / checkpoint).unlink(missing_ok=True)


def _cut(segment: Path, since: int) -> int:
    content, at = segment.read_bytes(), 0
    while at + BATCH.size <= len(content):
        first, size = BATCH.unpack_from(content, at)
        if size <= 0 or first >= since:
            break
        at += BATCH.size + size
    lost = len(content) - at
    with segment.open("r+b") as file:
        file.truncate(at)
    return lost
