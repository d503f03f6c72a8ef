"""V5, a note: events that ran twice before the cut, as far as the log shows them.

Faust is at-least-once: after a crash or a rebalance the next reader of an input runs events again that the last one
had run. If both left white effects with the same cause, the log shows it. The state is then exactly that of the
service, and a restore runs none of these events again: so it changes no verdict, but anyone who counts events has to
know.

Not seen: a second run in the same worker (an event may send several times), a run that left no effect, effects that
were compacted or lie below the offsets that are read, and those of forgotten processes.

They are found in a list here, and by `snapkafka.assembly.spark.verify.v5_ran_twice` in Spark; a test compares the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from snapkafka.protocol.records import TopicPartition

from .log import LogRecord
from .view import CutView, in_flight
from .witness import Finding


class Twice(NamedTuple):
    """An event of an input that ran in two workers: the first ids of the lowest and of the highest of them."""

    partition: int
    offset: int
    one: int
    other: int


def apps_of_several(view: CutView) -> set[str]:
    """Return the apps of which the snapshot knows several workers; in the others no event can have run in a second
    worker.

    The earlier readers of an input may be unknown (the ledger was recreated), so all inputs of these apps are checked.
    """
    workers: dict[str, set[int]] = defaultdict(set)
    for process, cut in view.processes.items():
        if process not in view.before_restore:
            workers[cut.app].add(view.worker(process))
    return {app for app, known in workers.items() if len(known) > 1}


def ran_twice(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """Find the events below the cut of which two workers left white effects: one finding per app and topic."""
    apps = apps_of_several(view)
    inputs = (source for source in view.captured.inputs if source.app in apps)
    sources = {(source.app, TopicPartition(source.topic, source.partition)): source for source in inputs}
    workers: dict[tuple[str, TopicPartition, int], set[int]] = defaultdict(set)
    for record in records if sources else ():
        cut = view.processes.get(record.process)
        if record.cause is None or cut is None:
            continue
        tp, offset = record.cause
        source = sources.get((cut.app, tp))
        if source is None or not view.names_cause(record.process, source):
            continue
        if view.counts_white(record) and not in_flight(source, offset):
            workers[cut.app, tp, offset].add(view.worker(record.process))
    events: dict[tuple[str, str], list[Twice]] = defaultdict(list)
    for (app, tp, offset), by in workers.items():
        if len(by) > 1:
            events[app, tp.topic].append(Twice(tp.partition, offset, min(by), max(by)))
    return [found_twice(*place, len(found), min(found)) for place, found in events.items()]


def found_twice(app: str, topic: str, events: int, first: Twice) -> Finding:
    """Return the finding for all such events of one topic."""
    return Finding(
        "ran-twice", topic, first.partition, first.offset, first.one, app=app, a=events, b=first.other
    )
