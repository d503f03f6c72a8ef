"""Records in inputs that have no proven colour: external ones and those of outsiders.

A record without a header of ours does not name its writer. In a topic that apps with snapkafka write as well, it may
be an effect of their records (a plain producer inside an instrumented app, a reader without a consumer group), and so
be red without showing it. In a topic that no app with snapkafka writes, a snapshot assumes that its writers do not
read outputs of the snapshot's apps.

A record of an outsider names a process that is not part of the snapshot. If that process did not turn red for the
snapshot, it may have received red records and passed their content on with an old epoch: so records of it that were
received since the trigger leave the snapshot open, and replies and changes of global tables whenever they came.
"""

from __future__ import annotations

from collections.abc import Iterable

from snapkafka.manifest import ExternalEntry, OutsiderEntry

from .inputs import received
from .log import EXTERNAL, LogRecord
from .view import CutView


def external_topics(view: CutView, records: Iterable[LogRecord]) -> list[ExternalEntry]:
    """List the topics with external records where a snapshot reads them, in order."""
    external = set[str]()
    written = {end.topic for end in view.captured.senders if end.last_seq >= 0}
    for record in records:
        tp = record.tp
        if tp in view.recreated or record.marker:
            continue
        if record.process in view.processes:
            written.add(record.topic)
        elif record.process == EXTERNAL and tp in view.inputs and record.offset < view.closed_end(tp):
            external |= {record.topic} if record.offset >= view.only_state_below(tp) else set()
    return [ExternalEntry(topic=topic, mixed=topic in written) for topic in sorted(external)]


def outside_senders(view: CutView, records: Iterable[LogRecord]) -> list[OutsiderEntry]:
    """List the outsiders whose records the snapshot's apps have received since the trigger; without a topic: others."""
    known = view.outsiders
    found = {(it.process, "") for it in known.values() if it.taken and not it.harmless} | {
        (record.process, record.topic)
        for record in records
        if view.outsiders_record(record)
        and record.tp not in view.recreated
        and record.offset >= view.received_since(record.tp)
        and any(received(source, record.offset) for source in view.inputs.get(record.tp, ()))
    }
    return [
        OutsiderEntry(process=process, app=known[process].app if process in known else "", topic=topic)
        for process, topic in sorted(found)
    ]
