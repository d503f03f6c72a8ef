"""Logs of which every record is judged, and logs in random stretches: the findings have to be the same."""

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from snapkafka.assembly.records import pieces
from snapkafka.checks import CutView, LogRecord, Stretch, Wanted, stretch_of
from snapkafka.checks.listed import Listed
from snapkafka.checks.stretch import Block, Group, Kept, blocks_of
from snapkafka.protocol import TopicPartition
from tests.spark.at_hand import LEDGER, batch, row_of

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
                found.append(stretch_of(self._view, tp, partial(blocks_of, lines[start:end]), wanted))
            if not cuts:
                self._require_same_in_blocks(tp, lines, wanted)
        self._rng.shuffle(found)
        yield from found

    def _require_same_in_blocks(
        self, tp: TopicPartition, records: Iterable[LogRecord], wanted: Wanted
    ) -> None:
        """Require that it makes no difference whether many records are one block, as an engine reads them."""
        (piece,) = pieces([batch(map(row_of, records))], LEDGER)

        def one_by_one(bounds: Sequence[int]) -> Iterator[Block]:
            rows = (row for *_, rows in piece.blocks(self._view.epoch, bounds) for row in rows())
            return ((row, row, row[-1], row[-1], 1, tuple) for row in rows)

        expected = stretch_of(self._view, tp, one_by_one, wanted)
        assert stretch_of(self._view, tp, partial(piece.blocks, self._view.epoch), wanted) == expected
