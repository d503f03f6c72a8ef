"""Questions about one input and the progress of its agents, and how causes name it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from snapkafka.protocol.captured_snapshot import Captured, InputCut
from snapkafka.protocol.records import NOBODY, TopicPartition
from snapkafka.wire.headers import topic_check, topics_by_check


def named_inputs(captured: Captured) -> dict[str, dict[Hashable, InputCut]]:
    """Return the inputs of each app by the names that a cause has for them, in a record and in a header."""
    by_app: dict[str, list[InputCut]] = defaultdict(list)
    for source in captured.inputs:
        by_app[source.app].append(source)
    named: dict[str, dict[Hashable, InputCut]] = {}
    for app, sources in by_app.items():
        clear = set(topics_by_check(source.topic for source in sources).values())
        named[app] = {mark_of(topic_check(it.topic), it.partition): it for it in sources if it.topic in clear}
        named[app] |= {TopicPartition(it.topic, it.partition): it for it in sources}
    return named


def mark_of(check: int, partition: int) -> int:
    """Return the number for the input of a cause, as a header names it."""
    return check << 16 | partition


def read_before(source: InputCut, process: int) -> bool:
    """Return whether `process` read the input before the one that cut it. A later reader replays nothing."""
    return process != source.receiver and (process in source.earlier or NOBODY in source.earlier)


def in_flight(source: InputCut, offset: int) -> bool:
    """Return whether some agent of the input has still to start this offset."""
    if not source.agents:
        return offset >= source.position
    return any(offset >= agent.offset and offset not in agent.started_above for agent in source.agents)


def received(source: InputCut, offset: int) -> bool:
    """Return whether some agent of the input has started this offset."""
    if not source.agents:
        return offset < source.position
    return any(offset < agent.offset or offset in agent.started_above for agent in source.agents)
