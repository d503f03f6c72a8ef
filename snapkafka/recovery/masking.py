"""Masks applied to batches of records, in the order of the file, each to the result of the one before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, TypeVar

import msgspec

from snapkafka.errors import BadInputError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut
from snapkafka.wire import headers as wire

from .state import Row
from .suppression import Expressions, Subject, Text, has_text, members_of, read_key, read_toml, text_of

T = TypeVar("T", Row, KafkaRecord)


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
        self._topics: list[list[str]] = []  # of each mask
        for mask in self._masks:
            topics = {cut.topic for cut in captured.inputs if cut.topic == mask.topic}
            topics |= {cut.topic for cut in captured.changelogs if mask.covers(cut)}
            if not topics:
                raise BadInputError(
                    f"the snapshot has no {mask}: the mask would hide nothing",
                    hint="correct its name; inputs go by topic, changelogs by table",
                )
            self._topics.append(sorted(topics))
            self._compile(mask)
        #: By number of the mask, topic and part of it: so many were masked.
        self._hits: Counter[tuple[int, str, str]] = Counter()
        #: By number of the mask and topic: so many values were there to be masked.
        self._values: Counter[tuple[int, str]] = Counter()

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
        hits: Counter[tuple[int, str, str]] = Counter()
        for number, mask in enumerate(self._masks):
            covered = [at for at, item in enumerate(found) if item.tp.topic in self._topics[number]]
            with_value = [at for at in covered if found[at].value is not None]
            if mask.value or mask.fields:
                values = self._values_of(mask, [found[at] for at in with_value], number, hits)
                for at, value in zip(with_value, values, strict=True):
                    found[at] = found[at] if value is None else found[at]._replace(value=value)
            if count:
                self._values.update((number, found[at].tp.topic) for at in with_value)
        for at, item in enumerate(found):
            if isinstance(item, KafkaRecord):
                found[at] = self._with_headers(item)
        if count:
            self._hits.update(hits)
        return found

    # -- counts ----------------------------------------------------------------------------------------------------

    def counts(self) -> Iterator[tuple[str, str, int]]:
        """Yield for each mask the topic, the masked part, and the number of examined records with it."""
        for number, mask in enumerate(self._masks):
            for topic in self._topics[number]:
                for part in _parts(mask):
                    yield topic, part, self._hits[number, topic, part]

    def unmatched(self) -> list[str]:
        """List the parts of masks that no record has: in a topic that has values, or anywhere."""
        return [
            f"{part} in the mask of {topic}"
            for number, mask in enumerate(self._masks)
            for part in _parts(mask)
            for topic in self._topics[number]
            if not self._hits[number, topic, part]
            and (
                self._values[number, topic]
                or not any(self._hits[number, other, part] for other in self._topics[number])
            )
        ]

    # -- values ----------------------------------------------------------------------------------------------------

    def _values_of(
        self, mask: Mask, items: Sequence[T], number: int, hits: Counter[tuple[int, str, str]]
    ) -> list[bytes | None]:
        """Return the masked value of each; None: it stays."""
        values = [self._maskable(mask, item) for item in items]
        self._expressions.fill([self._seen(item) for item in items])
        if mask.value:
            found = self._expressions.texts(mask.value, str(mask))
            for item, value in zip(items, found, strict=True):
                self._require_value(mask, item, value)
                hits[number, item.tp.topic, "value"] += 1
            return [None if value is None else value.encode() for value in found]
        changed = list(values)
        for path, sql in mask.fields.items():
            for at, new in enumerate(self._expressions.json(sql, str(mask))):
                if (replaced := replace_field(changed[at], path, new.encode())) is not None:
                    changed[at] = replaced
                    hits[number, items[at].tp.topic, f"field {path}"] += 1
        return [None if new is old else new for new, old in zip(changed, values, strict=True)]

    def _maskable(self, mask: Mask, item: Row | KafkaRecord) -> bytes:
        text = text_of(item.value) if has_text(item.value) else None
        if text is None:
            raise _not_masked(mask, item, "it is not text")
        if mask.fields and fields_of(text.encode()) is None:
            raise _not_masked(mask, item, "it is not a JSON object")
        return text.encode()

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


def _parts(mask: Mask) -> Iterator[str]:
    if mask.value:
        yield "value"
    yield from (f"field {path}" for path in mask.fields)


def _not_masked(mask: Mask, item: Row | KafkaRecord, why: str) -> BadInputError:
    return BadInputError(
        f"the mask of {mask} cannot be applied to a value in {item.tp}: {why}",
        hint="mask the whole value, or suppress the key: nothing is copied as it is",
    )


#: What a mask may do with all headers of a record.
DROP: Final = "drop"
KEEP: Final = "keep"


class Mask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A replacement for values of a table or topic. `value`: an expression for the whole of it; `fields`: one for each
    field of a JSON object, whose name may have dots. `headers`: empty: records with headers are refused."""

    app: str = ""
    table: str = ""
    topic: str = ""
    value: str = ""
    fields: dict[Text, Text] = {}
    headers: Literal["", "drop", "keep"] = ""

    def __post_init__(self) -> None:
        if bool(self.table) == bool(self.topic):
            raise ValueError("a mask must name a table or a topic")
        if self.headers and not self.topic:
            raise ValueError("rows of a table have no headers")
        if bool(self.value) == bool(self.fields) and (self.value or not self.headers):
            raise ValueError("a mask must have a value or fields")

    def __str__(self) -> str:
        return (
            f"topic {self.topic}"
            if self.topic
            else f"table {self.table}" + (f" of {self.app}" * bool(self.app))
        )

    def covers(self, cut: ChangelogCut) -> bool:
        """Return whether it applies to the table of this changelog."""
        return bool(self.table) and self.table == cut.table and self.app in ("", cut.app)


class _Masks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mask: tuple[Mask, ...]

    def __post_init__(self) -> None:
        if not self.mask:
            raise ValueError("it has no [[mask]]")


def read_masks(path: str) -> tuple[Mask, ...]:
    """Read a file of masks.

    Raises:
        BadInputError: it cannot be read, or a mask has no target or no value.
    """
    return read_toml(path, _Masks).mask


# --- Fields of JSON --------------------------------------------------------------------------------------------------

_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array: Final = msgspec.json.Decoder(list[msgspec.Raw])


def fields_of(value: bytes) -> dict[str, msgspec.Raw] | None:
    """Return the fields of a JSON object as they are written; None: it is none."""
    try:
        return _object.decode(value)
    except (ValueError, RecursionError):
        return None


def replace_field(value: bytes, path: str, new: bytes) -> bytes | None:
    """Replace each value at a path in JSON; None: it has no such field.

    A name may contain dots; of one that occurs twice the last counts. A path through an array applies to every element.

    Args:
        new: JSON.
    """
    if value.startswith(b"["):
        items = _array.decode(value)
        replaced = [replace_field(bytes(item), path, new) for item in items]
        if not any(replaced):
            return None
        return b"[%s]" % b",".join(made or bytes(item) for made, item in zip(replaced, items, strict=True))
    fields, found = fields_of(value) or {}, False
    for name, of in fields.items():
        within = path.startswith(f"{name}.")
        made = (
            new if name == path else replace_field(bytes(of), path[len(name) + 1 :], new) if within else None
        )
        if made is not None:
            fields[name], found = msgspec.Raw(made), True
    return msgspec.json.encode(fields) if found else None
