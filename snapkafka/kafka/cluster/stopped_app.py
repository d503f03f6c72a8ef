"""The position of an app that does not run (R10): it will continue at the committed offsets of its group.

The broker shows that it does not run: its consumer group has no member, neither before nor after the rest is asked
for. A topic that was deleted counts as empty: no other app has to wait until this one is retired.
"""

from __future__ import annotations

from snapkafka.errors import SnapkafkaError
from snapkafka.protocol.actions import AskStopped
from snapkafka.protocol.events import StoppedSeen
from snapkafka.protocol.records import ChangelogEnd, LogEnd, Position, TopicPartition

from .admin import KafkaTopicAdmin

#: Faust commits one position per input, whichever agents read it.
ANY_AGENT = "*"


async def stopped_app(admin: KafkaTopicAdmin, action: AskStopped) -> StoppedSeen:
    """Ask the broker."""
    before, unseen = await _members(admin, action.app)
    committed = {tp: offset for tp, (offset, _) in (await admin.committed(action.app)).items()}
    asked_starts = {TopicPartition(start.topic, start.partition): start.end for start in action.starts}
    begins = await admin.log_starts(action.inputs)
    positions = begins | asked_starts | committed
    changelogs = [
        (table.name, TopicPartition(table.changelog, partition))
        for table in action.tables
        for partition in range(table.partitions)
    ]
    ends = await admin.log_ends([*action.inputs, *(tp for _, tp in changelogs)])
    after, unseen_after = await _members(admin, action.app)
    return StoppedSeen(
        epoch=action.epoch,
        app=action.app,
        asked_at=action.asked_at,
        positions=tuple(
            Position(
                agent=ANY_AGENT,
                topic=tp.topic,
                partition=tp.partition,
                offset=positions.get(tp, 0),
            )
            for tp in action.inputs
        ),
        changelogs=tuple(
            ChangelogEnd(table=name, topic=tp.topic, partition=tp.partition, end=ends.get(tp, 0))
            for name, tp in changelogs
        ),
        ends=tuple(
            LogEnd(topic=tp.topic, partition=tp.partition, end=ends.get(tp, 0)) for tp in action.inputs
        ),
        members=max(before, after),
        unseen=unseen or unseen_after,
    )


async def _members(admin: KafkaTopicAdmin, app: str) -> tuple[int, str]:
    """Count the members of an app's group; if they cannot be seen, return why."""
    try:
        return await admin.members(app), ""
    except SnapkafkaError as error:
        return 0, f"{error} ({error.advice})"
