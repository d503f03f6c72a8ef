"""Logs of which every record is judged, and logs in random stretches: the findings have to be the same."""

import random
from collections.abc import Iterable, Iterator

from snapkafka.checks import CutView, LogRecord, Stretch, Wanted, stretch_of
from snapkafka.checks.listed import Listed
from snapkafka.checks.stretch import Group, Kept, rows_of
from snapkafka.protocol import TopicPartition

__all__ = ["Divided", "Whole", "whole"]


def whole(tp: TopicPartition, records: Iterable[LogRecord]) -> Stretch:
    kept = [Kept(nth, it) for nth, it in enumerate(records, 1)]
    groups = [Group(it, 1, it.offset, int(it.cause is not None)) for _, it, _ in kept]
    return Stretch(tp, groups, kept, records=len(kept))


class Whole(Listed):
    """The source that leaves nothing out: each record is kept, and is a group of its own."""

    def stretches(self, wanted: Wanted) -> Iterator[Stretch]:
        for tp, lines in self._lines.items():
            yield whole(tp, lines)


class Divided(Listed):
    """The source of stretches of random length, in random order; so many records begin another one."""

    def __init__(self, view: CutView, records: Iterable[LogRecord], rng: random.Random, share: float) -> None:
        super().__init__(view, records)
        self._rng, self._share = rng, share

    def stretches(self, wanted: Wanted) -> Iterator[Stretch]:
        found: list[Stretch] = []
        for tp, lines in self._lines.items():
            cuts = [at for at in range(1, len(lines)) if self._rng.random() < self._share]
            for start, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
                found.append(stretch_of(self._view, tp, rows_of(lines[start:end]), wanted))
        self._rng.shuffle(found)
        yield from found
