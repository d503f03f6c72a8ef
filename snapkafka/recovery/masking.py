"""Masks applied to batches of records, in the order of the file, each to the result of the one before."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from snapkafka.errors import BadInputError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut
from snapkafka.wire import headers as wire

from .expressions import Expressions, Subject
from .masks import DROP, KEEP, Mask, replace_field
from .state import Row
from .suppression import has_text, members_of, read_key, text_of

T = TypeVar("T", Row, KafkaRecord)


class Place(NamedTuple):
    """A table of an app, or an input topic."""

    app: str
    name: str

    @classmethod
    def of(cls, topic: str, cut: ChangelogCut | None) -> Place:
        """Name the place of a record."""
        return cls("", topic) if cut is None else cls(cut.app, cut.table)

    def __str__(self) -> str:
        return f"table {self.name} of app {self.app}" if self.app else f"topic {self.name}"


class Masking:
    """The masks of one restore or fork.

    Args:
        subject: builds the input of an expression from a record, its value and the text of its key.

    Raises:
        BadInputError: a mask names something that the snapshot does not have, or its SQL is invalid.
    """

    def __init__(
        self,
        expressions: Expressions,
        captured: Captured,
        masks: Sequence[Mask],
        subject: Callable[[Row | KafkaRecord, bytes | None, str | None], Subject],
    ) -> None:
        self._expressions = expressions
        self._subject = subject
        self._masks = tuple(masks)
        self._cuts = {cut.topic: cut for cut in captured.changelogs}
        inputs = {cut.topic for cut in captured.inputs}
        #: Of each mask the places that it is of.
        self._places: list[list[Place]] = []
        for mask in self._masks:
            if mask.topic:
                places = [Place("", mask.topic)] if mask.topic in inputs else []
            else:
                covered = (cut for cut in captured.changelogs if mask.covers(cut))
                places = sorted({Place.of(cut.topic, cut) for cut in covered})
            if not places:
                raise BadInputError(
                    f"the snapshot has no {mask}: the mask would hide nothing",
                    hint="correct its name; inputs go by topic, changelogs by table",
                )
            self._places.append(places)
            self._compile(mask)
        #: By number of the mask, place and part of it: so many were masked.
        self._hits: Counter[tuple[int, Place, str]] = Counter()
        #: By number of the mask and place: so many values were there to be masked.
        self._values: Counter[tuple[int, Place]] = Counter()

    def _compile(self, mask: Mask) -> None:
        self._expressions.fill([])
        if mask.value:
            self._expressions.texts(mask.value, str(mask))
        for sql in mask.fields.values():
            self._expressions.json(sql, str(mask))

    def apply(self, items: Sequence[T], *, count: bool) -> list[T]:
        """Mask records.

        Args:
            count: whether they count as examined.

        Raises:
            BadInputError: a record cannot be masked.
        """
        found = list(items)
        hits: Counter[tuple[int, Place, str]] = Counter()
        for number, mask in enumerate(self._masks):
            covered = [at for at, item in enumerate(found) if self._covers(mask, item)]
            with_value = [at for at in covered if found[at].value is not None]
            if mask.value or mask.fields:
                values = self._values_of(mask, [found[at] for at in with_value], number, hits)
                for at, value in zip(with_value, values, strict=True):
                    found[at] = found[at] if value is None else found[at]._replace(value=value)
            if count:
                self._values.update((number, self._place(found[at])) for at in with_value)
        for at, item in enumerate(found):
            if isinstance(item, KafkaRecord):
                found[at] = self._with_headers(item)
        if count:
            self._hits.update(hits)
        return found

    # -- counts ----------------------------------------------------------------------------------------------------

    def counts(self) -> Iterator[tuple[str, str, int]]:
        """Yield for each mask the place, the masked part, and the number of examined records with it."""
        for number, mask in enumerate(self._masks):
            for place in self._places[number]:
                for part in _parts(mask):
                    yield str(place), part, self._hits[number, place, part]

    def unmatched(self) -> list[str]:
        """List the parts of masks that no record has: in a whole place that has values, or anywhere."""
        found = []
        for number, mask in enumerate(self._masks):
            for part in _parts(mask):
                counts = {place: self._hits[number, place, part] for place in self._places[number]}
                found += [
                    f"{part} in the mask of {place}"
                    for place, count in counts.items()
                    if not count and (self._values[number, place] or not any(counts.values()))
                ]
        return found

    # -- values ----------------------------------------------------------------------------------------------------

    def _values_of(
        self, mask: Mask, items: Sequence[T], number: int, hits: Counter[tuple[int, Place, str]]
    ) -> list[bytes | None]:
        """Return the masked value of each; None: it stays."""
        texts = [self._maskable(mask, item) for item in items]
        self._expressions.fill([self._seen(item) for item in items])
        if mask.value:
            found = self._expressions.texts(mask.value, str(mask))
            for item, value in zip(items, found, strict=True):
                self._require_value(mask, item, value)
                hits[number, self._place(item), "value"] += 1
            return [None if value is None else value.encode() for value in found]
        changed = list(texts)
        for path, sql in mask.fields.items():
            for at, new in enumerate(self._expressions.json(sql, str(mask))):
                if (replaced := replace_field(changed[at], path, new)) is not None:
                    changed[at] = replaced
                    hits[number, self._place(items[at]), f"field {path}"] += 1
        return [None if new is old else new.encode() for new, old in zip(changed, texts, strict=True)]

    def _maskable(self, mask: Mask, item: Row | KafkaRecord) -> str:
        text = text_of(item.value) if has_text(item.value) else None
        if text is None:
            raise _not_masked(mask, item, "it is not text")
        if mask.fields:
            try:
                is_object = isinstance(json.loads(text), dict)
            except (ValueError, RecursionError):
                is_object = False
            if not is_object:
                raise _not_masked(mask, item, "it is not a JSON object")
        return text

    def _require_value(self, mask: Mask, item: Row | KafkaRecord, value: str | None) -> None:
        if value is None:
            raise _not_masked(mask, item, "no mask covers it")
        cut = self._cuts.get(item.tp.topic)
        if cut is not None and cut.sets and members_of(value.encode()) is None:
            raise _not_masked(mask, item, "it would not be a set: [[member, ...], []]")

    # -- headers ---------------------------------------------------------------------------------------------------

    def _with_headers(self, record: KafkaRecord) -> KafkaRecord:
        """Drop or keep the headers of a record by the masks of its topic.

        Raises:
            BadInputError: no mask decides about headers.
        """
        masks = [mask for mask in self._masks if mask.topic == record.topic]
        own = wire.without_header(record.headers)
        if not masks or not own:
            return record
        if any(mask.headers == DROP for mask in masks):
            return record._replace(headers=tuple(it for it in record.headers if it[0] == wire.HEADER))
        if any(mask.headers == KEEP for mask in masks):
            return record
        raise BadInputError(
            f"a record in {record.tp} has a header {own[0][0]}, which the mask of {masks[0]} does not mention",
            hint='add headers = "drop" or headers = "keep" to the mask',
        )

    # -- parts -----------------------------------------------------------------------------------------------------

    def _seen(self, item: Row | KafkaRecord) -> Subject:
        return self._subject(item, item.value, read_key(item.key, self._cuts.get(item.tp.topic)).text)

    def _place(self, item: Row | KafkaRecord) -> Place:
        return Place.of(item.tp.topic, self._cuts.get(item.tp.topic))

    def _covers(self, mask: Mask, item: Row | KafkaRecord) -> bool:
        cut = self._cuts.get(item.tp.topic)
        return mask.topic == item.tp.topic if mask.topic else cut is not None and mask.covers(cut)


def _parts(mask: Mask) -> Iterator[str]:
    if mask.value:
        yield "value"
    yield from (f"field {path}" for path in mask.fields)


def _not_masked(mask: Mask, item: Row | KafkaRecord, why: str) -> BadInputError:
    return BadInputError(
        f"the mask of {mask} cannot be applied to a value in {item.tp}: {why}",
        hint="mask the whole value, or suppress the key: nothing is copied as it is",
    )
