"""V5, causes: no white effect of an input at or past the cut, and no red effect of one below it.

Torn events and replays are listed, not hidden, and so are events that ran twice before the cut; an effect with a red
cause is not a replay. Effects of processes that are older than a restore of their app neither accuse nor are listed;
nor do causes in a topic that was recreated since.

*Events that ran twice.* Faust is at-least-once: after a crash or a rebalance the next reader of an input runs events
again that the last one had run. If both left white effects with the same cause, the log shows it. The state is then
exactly that of the service, and a restore runs none of these events again: so it changes no verdict, but anyone who
counts events has to know. Not seen: a second run in the same worker (an event may send several times), a run that left
no effect, effects that were compacted or lie below the offsets that are read, and those of forgotten processes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from snapkafka.protocol.records import TopicPartition
from snapkafka.wire.headers import topic_check, topics_by_check

from .inputs import in_flight, read_before, received
from .sequences import CutLog, Effect
from .witness import Finding


def find(log: CutLog) -> Iterator[Finding]:
    """Find effects on the wrong side of the cut, events that ran twice, and causes that show nothing."""
    # By their headers or the birth of their senders, whatever was observed of their partition.
    red = {record[:3] for record in log.records if not (record.marker or log.view.is_white(record))}
    for effect in log.effects:
        if not effect.torn and (kind := _kind_of(log, effect, red)):
            source = effect.source
            yield Finding.at(kind, effect.record, app=source.app, a=effect.offset, b=source.position)
    yield from _ran_twice(log)
    yield from _cause_unclear(log)


def _kind_of(log: CutLog, effect: Effect, red: set[tuple[str, int, int]]) -> str:
    """Return what is wrong with an effect; empty: nothing."""
    view, (record, source, offset, _) = log.view, effect
    if not in_flight(source, offset):  # every agent had started its event, and nobody else has run it
        ran_here = record.process == source.receiver and source.steady and view.red_stamped(record)
        missing = ran_here and record.offset < view.sent_end(record.process, record.tp)
        return "effect-missing" if missing else ""
    if not view.counts_white(record):
        return ""
    if _replayed(effect):  # a red cause is no replay
        return "effect-of-red" if (source.topic, source.partition, offset) in red else "replayed"
    return "" if received(source, offset) else "effect-of-later"


def _replayed(effect: Effect) -> bool:
    """Return whether an earlier reader, announced or not, may have run the event that the present one runs again."""
    process, source = effect.record.process, effect.source
    # A stamp does not name the agent: where only some of them have started the input, it may be one of those.
    if process == source.receiver:
        return effect.offset < max((agent.replay_until for agent in source.agents), default=0)
    return read_before(source, process) or received(source, effect.offset)


def _ran_twice(log: CutLog) -> Iterator[Finding]:
    """Find the events below the cut of which two workers left white effects: one finding per app and topic."""
    view, apps = log.view, log.view.apps_of_several
    workers: dict[tuple[str, TopicPartition, int], set[int]] = defaultdict(set)
    for record, source, offset, _ in log.effects if apps else ():
        if source.app in apps and view.counts_white(record) and not in_flight(source, offset):
            tp = TopicPartition(source.topic, source.partition)
            workers[source.app, tp, offset].add(view.worker(record.process))
    events: dict[tuple[str, str], list[tuple[int, int, int, int]]] = defaultdict(list)
    for (app, tp, offset), by in workers.items():
        if len(by) > 1:
            events[app, tp.topic].append((tp.partition, offset, min(by), max(by)))
    for (app, topic), found in events.items():
        partition, offset, one, other = min(found)
        yield Finding("ran-twice", topic, partition, offset, one, app=app, a=len(found), b=other)


def _cause_unclear(log: CutLog) -> Iterator[Finding]:
    """Find inputs of an app whose check values are equal: causes that name them show nothing, and are not checked."""
    topics: dict[str, set[str]] = defaultdict(set)
    for source in log.view.captured.inputs:
        topics[source.app].add(source.topic)
    for app, of_app in sorted(topics.items()):
        for topic in sorted(of_app - set(topics_by_check(of_app).values())):
            yield Finding("cause-unclear", topic, -1, -1, app=app, a=topic_check(topic))
