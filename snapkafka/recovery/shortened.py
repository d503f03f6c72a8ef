"""Logs whose end was lost since a snapshot: an election of a replica that lagged behind, a disk that was set back.

Such a log ends before an offset that it had already, and offsets there will belong to other records. What was deleted
at its beginning or compacted is no such loss: state is the difference from what the log holds (`state`), and records of
inputs are judged in `lost_inputs`. Neither settings nor clocks are used: only offsets prove anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from snapkafka.manifest import Manifest
from snapkafka.protocol.records import TopicPartition


def shortened(manifest: Manifest, ends: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Find logs whose end was lost: the records that the snapshot names by offset are missing.

    Args:
        ends: the next offsets to be written to its inputs and changelogs, as the broker reports them now. Partitions
            that are missing here do not exist, which is not judged here.
    """
    changelogs = {(cut.topic, cut.partition) for cut in manifest.captured.changelogs}
    for tp, reached in sorted(_reached(manifest).items()):
        if tp in ends and ends[tp] < reached:
            kind = "changelog" if tp in changelogs else "input"
            yield (
                f"{kind} {tp} ends at offset {ends[tp]}, and had records up to {reached} when the snapshot was made"
            )


def _reached(manifest: Manifest) -> dict[TopicPartition, int]:
    """Find the offset up to which each input and changelog certainly had records, whatever release assembled the
    snapshot."""
    found: defaultdict[TopicPartition, int] = defaultdict(int)

    def reach(topic: str, partition: int, *offsets: int) -> None:
        tp = TopicPartition(topic, partition)
        found[tp] = max(found[tp], *offsets)

    for cut in manifest.captured.inputs:
        reach(cut.topic, cut.partition, cut.position, cut.log_end)
        for agent in cut.agents:
            reach(cut.topic, cut.partition, agent.offset, *(offset + 1 for offset in agent.started_above))
    for changelog in manifest.captured.changelogs:
        reach(changelog.topic, changelog.partition, changelog.end)
    for log in manifest.logs:
        if (tp := TopicPartition(log.topic, log.partition)) in found:
            reach(*tp, log.end)
    for item in manifest.settled:
        if (tp := TopicPartition(item.topic, item.partition)) in found:
            reach(*tp, item.offset)
    return dict(found)
