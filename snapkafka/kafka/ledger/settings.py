"""Settings of the ledger's topic: those at its creation, and those with which it is refused.

A topic inherits every setting that it does not have itself from its broker, and operators choose those for other
topics: short retention, compaction, a codec, small records, more replicas in sync than a small topic has. So each
setting that could lose, refuse or damage a record is set on the topic itself.

Two kinds are left out, because brokers of some supported release do not know the name or ignore it here:
`message.timestamp.before.max.ms` and `.after.max.ms` do not apply where the broker sets the time (`LogAppendTime`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from snapkafka.topic_config import TopicSettings

#: Larger records would be chunked, which is not built yet. A report of 256 KB is that of some 6,000 partitions.
RECORD_BYTES_MAX: Final = 256 * 1024
#: A batch of one such record is larger than it by its key and two headers.
BATCH_BYTES_MIN: Final = RECORD_BYTES_MAX + 1_024

#: What a ledger is created with. Its records are small and few; they stay until there are checkpoints to start from.
#: Where no reason is given the value is Kafka's own default, set so that no other can be inherited.
SETTINGS: Final = {
    "cleanup.policy": "delete",
    "compression.type": "producer",  # ours uses gzip, which every client can read
    "max.message.bytes": "1048588",
    "message.timestamp.type": "LogAppendTime",  # one clock for `capture_ms` and for ages
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",  # a lost record is a lost agreement
}

#: Not every client can unpack these.
_CODECS: Final = frozenset({"zstd", "lz4", "snappy"})


def settings_for(replicas: int) -> dict[str, str]:
    """Return the settings of a ledger with so many replicas.

    Of three replicas two have to be in sync; with fewer the topic stays writable while a broker is unavailable.
    """
    return {**SETTINGS, "min.insync.replicas": str(max(1, min(2, replicas - 1)))}


def harmful(holding: Mapping[str, str], replicas: int) -> Iterator[tuple[str, str]]:
    """Yield the settings with which a ledger is refused, each with the harm that it does.

    Args:
        holding: all effective settings of the topic.
    """
    settings = TopicSettings.parse(holding)
    if settings.compacts:
        yield "cleanup.policy", "compaction would lose records"
    for name, bound in (
        ("retention.ms", settings.retention_ms),
        ("retention.bytes", settings.retention_bytes),
    ):
        if bound is not None:
            yield name, "records that are needed would be deleted"
    if holding.get("compression.type") in _CODECS:
        yield "compression.type", "a client without that codec cannot read what is written"
    if (settings.message_bytes or BATCH_BYTES_MIN) < BATCH_BYTES_MIN:
        yield "max.message.bytes", f"reports of up to {RECORD_BYTES_MAX:,} bytes would be refused"
    if settings.in_sync > replicas:
        yield "min.insync.replicas", f"it has {replicas} replicas, so nothing could ever be written to it"
