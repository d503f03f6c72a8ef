"""External records in inputs: which topics have them, and which records of outsiders were received."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapkafka.checks import CutView, LogRecord, external_topics, outside_senders
from snapkafka.manifest import ExternalEntry
from snapkafka.protocol import Outsider
from tests.worlds.little_log import CAPTURED, EPOCH, WHITE, shared_changelog


def external(offset: int) -> LogRecord:
    return LogRecord("in", 0, offset)


def outsiders_record(offset: int, process: int = 50, epoch: int = 0) -> LogRecord:
    return LogRecord("in", 0, offset, process, epoch, 1)


@pytest.mark.parametrize(
    ("outsider", "record"),
    [
        (Outsider(process=50, app="relay", cut=True), outsiders_record(1)),
        (Outsider(process=50, app="relay", left=True), outsiders_record(1)),
        (Outsider(process=50, app="relay"), outsiders_record(0)),  # below the trigger's end
        (Outsider(process=50, app="relay"), outsiders_record(2)),  # not received
        (Outsider(process=50, app="relay"), outsiders_record(1, epoch=EPOCH)),  # red: V2 has it
        (Outsider(process=50, app="relay"), outsiders_record(1, process=EPOCH + 1)),
        (Outsider(process=50, app="relay"), outsiders_record(1)._replace(marker=True)),
        (Outsider(process=50, app="relay"), outsiders_record(1)._replace(topic="elsewhere")),
    ],
)
def test_what_of_an_outsider_leaves_nothing_open(outsider: Outsider, record: LogRecord) -> None:
    """It cut, or had left; or what it sent was not received, or is judged by its header."""
    view = CutView(replace(CAPTURED, outsiders=(outsider,)))
    assert outside_senders(view, [record]) == []


def test_what_is_none_of_the_snapshots_does_not_count() -> None:
    """Past all ends; in a topic that nobody reads; in a changelog, below what its other reader needs."""
    view = CutView(CAPTURED)
    assert external_topics(view, [*WHITE, external(6), external(60), LogRecord("table", 0, 1)]) == []
    log, captured, bounds = shared_changelog()
    assert external_topics(CutView(captured, bounds), log) == [ExternalEntry(topic="table", mixed=True)]
    below = [record for record in log if record.offset < 4]
    below += [LogRecord("table", 0, 2)]
    assert external_topics(CutView(captured, bounds), below) == []
