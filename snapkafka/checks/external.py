"""External records in inputs, and what a verdict assumes of them.

A record without a header of ours does not name who wrote it. In a topic that apps with snapkafka write as well, it
may be an effect of what they sent (a plain producer inside an instrumented app, a reader without a consumer group), and
so red where nothing shows it. In a topic that nobody with snapkafka writes, a snapshot assumes that nothing that writes
there reads outputs of its apps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .view import EXTERNAL, CutView, LogRecord

__all__ = ["ExternalTopic", "external_topics", "written_topics"]


class ExternalTopic(NamedTuple):
    """An input topic with external records below a snapshot's ends. `mixed`: its processes write there, too."""

    topic: str
    mixed: bool


def external_topics(view: CutView, records: Iterable[LogRecord]) -> list[ExternalTopic]:
    """List the topics with external records where a snapshot reads them, in order."""
    external, written = set[str](), written_topics(view)
    for record in records:
        tp = record.tp
        if tp in view.recreated or record.marker:
            continue
        if record.process in view.processes:
            written.add(record.topic)
        elif record.process == EXTERNAL and tp in view.inputs and _counts(view, record):
            external.add(record.topic)
    return [ExternalTopic(topic, topic in written) for topic in sorted(external)]


def _counts(view: CutView, record: LogRecord) -> bool:
    return view.only_state_below(record.tp) <= record.offset < view.closed_end(record.tp)


def written_topics(view: CutView) -> set[str]:
    """The topics to which processes of a snapshot sent in white."""
    return {end.topic for end in view.captured.senders if end.last_seq >= 0}
