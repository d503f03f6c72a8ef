"""A slow scan of the tables as they were in one instant, between the events of the app: copy-on-write by hand.

A table in memory is copied as references, which is fast; an object that may change in place is encoded before it is
handed out again. A table in RocksDB is read by iterators that see the instant in which they were made.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

from snapkafka.wire.audit import pack

from .image import Row, TableImage, unencodable

#: The scan holds the loop for so long at a time, and leaves it alone for so long in between.
SLICE_S: Final = 0.003
REST_S: Final = 0.012
READ_WHOLE: Final = "the app read it as a whole while it was scanned"


class Scan:
    """A scan, from the instant in which it is made.

    Attributes:
        failed: number of a table -> why it is not audited after all.
    """

    def __init__(self, images: list[TableImage]) -> None:
        self._images = images
        self.failed: dict[int, str] = {}
        self._numbers = {id(image.table): number for number, image in enumerate(images) if not image.reason}
        #: What is not encoded yet of the tables in memory, and what was encoded before its turn.
        self._due: dict[int, dict[Any, Any]] = {}
        self._early: dict[int, deque[Row | None]] = {}
        self._stored: dict[int, Iterator[Row]] = {}
        for number in self._numbers.values():
            image = images[number]
            if image.in_memory:
                self._due[number] = dict(image.objects())
                self._early[number] = deque()
            else:
                self._stored[number] = image.stored_rows()

    def before_use(self, table: Any, key: Any) -> None:
        """Encode a key first: it is about to be handed out, or changed."""
        number = self._numbers.get(id(table))
        due = self._due.get(number) if number is not None else None
        if number is not None and due and key in due:
            self._encode(number, key, due.pop(key))

    def read_whole(self, table: Any) -> None:
        """Give up a table: all of its objects are about to be handed out."""
        number = self._numbers.get(id(table))
        if number is not None and self._due.get(number):
            self.failed[number] = READ_WHOLE
            self._due[number] = {}

    def _encode(self, number: int, key: Any, value: Any) -> None:
        image = self._images[number]
        try:
            if image.holds(key):
                self._early[number].append(image.row(key, value))
        except Exception as error:
            self.failed[number] = unencodable(error)
            self._due[number] = {}

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the pieces that it packs, a slice of the loop at a time."""
        until = time.perf_counter() + SLICE_S
        for piece in pack(self._rows()):
            if piece:
                yield piece
            if time.perf_counter() > until:
                await asyncio.sleep(REST_S)
                until = time.perf_counter() + SLICE_S

    def _rows(self) -> Iterator[tuple[int, bytes, bytes]]:
        for number in self._numbers.values():
            rows = self._stored.pop(number) if number in self._stored else self._objects(number)
            try:
                for row in rows:
                    yield number, *row
            except Exception as error:
                self.failed[number] = unencodable(error)

    def _objects(self, number: int) -> Iterator[Row]:
        early = self._early[number]
        while early or self._due[number]:
            if not early:
                self._encode(number, *self._due[number].popitem())
            while early:
                if (row := early.popleft()) is not None:
                    yield row
