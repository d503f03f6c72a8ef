"""A log as a list of records in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from functools import partial
from typing import Any

from snapkafka.protocol.records import TopicPartition

from . import questions
from .log import LogRecord
from .ranges import ReadRange
from .sequences import CutLog
from .stretch import Stretch, Wanted, blocks_of
from .summary import stretch_of
from .view import CutView


class Listed:
    """The source of a log that is in memory (`sequences.Source`); its records may come in any order, each once."""

    def __init__(self, view: CutView, records: Iterable[LogRecord]) -> None:
        self._view = view
        found: dict[TopicPartition, list[LogRecord]] = defaultdict(list)
        for record in records:
            found[record.tp].append(record)
        self._lines = {tp: sorted(lines, key=lambda it: it.offset) for tp, lines in found.items()}

    def stretches(self, wanted: Wanted) -> Iterator[Stretch]:
        """Yield a stretch for each partition."""
        for tp, lines in self._lines.items():
            if tp not in self._view.recreated:
                yield stretch_of(self._view, tp, partial(blocks_of, lines), wanted)

    def still_there(self, wanted: Collection[ReadRange]) -> Set[TopicPartition]:
        return {TopicPartition(*item[:2]) for item in wanted}

    def ask(self, question: str) -> Sequence[tuple[Any, ...]]:
        return questions.answered(
            question,
            (
                (place, it.offset, it.key_hash, int(self._view.in_state(it)))
                for place, tp in enumerate(questions.places(self._view))
                for it in self._lines.get(tp, ())
                if not it.marker
            ),
        )


def listed(view: CutView, records: Iterable[LogRecord]) -> CutLog:
    """Return the log of a snapshot from a list of records.

    Args:
        records: all records of the reading ranges (`ranges.reading_ranges`), in any order, each once. Those of a
            changelog need a `key_hash` (equal for equal keys; None without a key), for V3 alone. A simulator may pass
            more than the ranges.
    """
    return CutLog(view, Listed(view, records))
