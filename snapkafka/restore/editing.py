"""Edits on the way from a snapshot to a restore or a fork: erased keys are left out, and values masked.

Both fail closed: a record that cannot be examined or masked is refused by name, and so is a rule that matches nothing.
A row of a set is taken apart first: each member is a row of its own, with the member as its value.

Everything is examined before anything is written: `examine` takes the records to be written, `counts` returns the
matches of each rule, `raise_unmatched` refuses rules without a match.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from snapkafka.errors import BadInputError
from snapkafka.kafka.records.read import KafkaRecord
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut
from snapkafka.wire import headers as wire

from .rules import (
    Expressions,
    Key,
    Mask,
    Suppression,
    fields_of,
    has_text,
    header_texts,
    read_key,
    replace_field,
    text_of,
)
from .state import units

#: Records that are examined together.
BATCH: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCount:
    """The number of records, rows and members of sets that a rule has matched. `kind`: "key", "prefix", "sql" or
    "mask". `place`: the topic of a mask; empty: the rule applies to all."""

    kind: str
    rule: str
    items: int
    place: str = ""


class Editing:
    """Both files, applied to the content of a snapshot, by the names of production."""

    def __init__(
        self,
        captured: Captured,
        suppression: Suppression | None = None,
        masks: tuple[Mask, ...] = (),
        *,
        allow_unmatched: bool = False,
    ) -> None:
        self._allow_unmatched = allow_unmatched
        self._cuts = {cut.topic: cut for cut in captured.changelogs}
        self._inputs = {cut.topic: cut for cut in captured.inputs}
        self._suppression = found = suppression or Suppression()
        named = {*found.binary}
        self._binary = named | {topic for topic, cut in self._cuts.items() if cut.table in named}
        self._masks = [(mask, mask.topics(captured)) for mask in masks]
        self._rules = [("key", key, "") for key in found.keys] + [("prefix", it, "") for it in found.prefixes]
        self._rules += [("sql", sql, "") for sql in found.sql]
        self._rules += [
            ("mask", part, topic) for mask, topics in self._masks for topic in topics for part in mask.parts
        ]
        #: The examined matches of each rule, and the examined values of topics that are masked.
        self._matched: Counter[tuple[str, str, str]] = Counter()
        self._values: Counter[str] = Counter()
        self._sql = Expressions() if masks or found.sql else None
        self._compile()

    def _compile(self) -> None:
        for sql in self._suppression.sql:
            list(self._hold(sql, ()))
        for mask, topics in self._masks:
            if not topics:
                raise BadInputError(
                    f"the snapshot has no {mask}: the mask would hide nothing",
                    hint="correct its name; inputs go by topic, changelogs by table",
                )
            for sql in mask.parts.values():
                self._replacements(mask, sql)

    # -- before anything is written ------------------------------------------------------------------------------

    def examine(self, items: Iterable[KafkaRecord]) -> tuple[RuleCount, ...]:
        """Examine the records to be written, and count the matches of each rule; change nothing."""
        for batch in _batches(self._apart(items)):
            kept = self._kept(batch, self._matched)
            self._values.update(item.tp.topic for item in kept if item.value is not None)
            self._mask(kept, self._matched)
        return self.counts

    @property
    def counts(self) -> tuple[RuleCount, ...]:
        return tuple(
            RuleCount(kind=kind, rule=rule, items=self._matched[kind, rule, place], place=place)
            for kind, rule, place in self._rules
        )

    def raise_unmatched(self) -> None:
        """Refuse rules without a match among the examined records, and parts of masks that no record has: in a topic
        that has values, or anywhere."""
        unmatched = [f"{it.kind} {it.rule}" for it in self.counts if not it.items and it.kind != "mask"]
        unmatched += [
            f"{part} in the mask of {mask}"
            for mask, topics in self._masks
            for part in mask.parts
            for topic in topics
            if not self._matched["mask", part, topic]
            and (self._values[topic] or not any(self._matched["mask", part, other] for other in topics))
        ]
        if unmatched and not self._allow_unmatched:
            raise BadInputError(
                f"nothing was changed: the snapshot holds nothing for {'; '.join(unmatched)}",
                hint="correct the name, or add --allow-unmatched",
            )

    # -- while it is written ---------------------------------------------------------------------------------------

    def edit(self, items: Iterable[KafkaRecord]) -> Iterator[KafkaRecord]:
        """Leave out what is erased, and mask the rest; the order stays."""
        batches = _batches(self._apart(items))
        edited = (it for batch in batches for it in self._mask(self._kept(batch, Counter()), Counter()))
        return iter(items) if self.idle else edited

    def erases_any(self, items: Iterable[KafkaRecord]) -> bool:
        return bool(self._suppression) and any(
            len(self._kept(batch, Counter())) < len(batch) for batch in _batches(self._apart(items))
        )

    @property
    def idle(self) -> bool:
        return not self._suppression and not self._masks

    # -- erased keys -----------------------------------------------------------------------------------------------

    def _apart(self, items: Iterable[KafkaRecord]) -> Iterator[KafkaRecord]:
        """Take the rows of sets apart into rows of single members."""
        for item in items:
            cut = self._cuts.get(item.tp.topic)
            if cut is None or not cut.sets:
                yield item
                continue
            members = [it.record(item.tp) for it in units(item.key, item.value, cut) if it.value is not None]
            yield from [item._replace(key=it.key, value=it.value) for it in members] or [item]

    def _kept(
        self, batch: Sequence[KafkaRecord], matched: Counter[tuple[str, str, str]]
    ) -> list[KafkaRecord]:
        if not self._suppression:
            return list(batch)
        rules = [self._matching(item) for item in batch]
        if self._suppression.sql:
            self._fill(batch)
            for sql in self._suppression.sql:
                for of, holds in zip(rules, self._hold(sql, batch), strict=True):
                    if holds:
                        of.add(("sql", sql))
        matched.update((kind, rule, "") for of in rules for kind, rule in of)
        return [item for item, of in zip(batch, rules, strict=True) if not of]

    def _matching(self, item: KafkaRecord) -> set[tuple[str, str]]:
        """Find the rules about keys that an item matches; refuse what cannot be examined."""
        cut = self._cuts.get(item.tp.topic)
        keys = {"key": read_key(item.key, cut)}
        if cut is not None and cut.sets:
            keys["value"] = read_key(item.value, None)  # a member
        if item.tp.topic not in self._binary:
            self._require_examined(item, keys)
        return {rule for key in keys.values() for rule in key.rules(self._suppression)}

    def _require_examined(self, item: KafkaRecord, keys: Mapping[str, Key]) -> None:
        for what, key in keys.items():
            if key.problem or (what == "key" and not has_text(item.key)):
                raise self._refused(item, what, key.problem or "is not text")
        if not self._suppression.sql:
            return
        if not has_text(item.value):
            raise self._refused(item, "value", "is not text")
        for name, value in wire.without_header(item.headers):
            if not has_text(value):
                raise self._refused(item, f"header {name}", "is not text")

    def _refused(self, item: KafkaRecord, what: str, problem: str) -> BadInputError:
        cut = self._cuts.get(item.tp.topic) or self._inputs.get(item.tp.topic)
        codec = getattr(cut, f"{what}_codec", None)
        by = "" if codec is None else f" (codec {codec or 'unknown'})"
        name = cut.table if isinstance(cut, ChangelogCut) else item.tp.topic
        return BadInputError(
            f"a {what} of {item.tp.topic}{by} cannot be compared with what was erased: it {problem}",
            hint=f'add binary = ["{name}"] to the file, and examine key_raw and value_raw by sql',
        )

    def _hold(self, sql: str, items: Sequence[KafkaRecord]) -> Iterator[bool]:
        assert self._sql is not None
        found = self._sql.ask(f"CAST(({sql}\n) AS BOOLEAN)", sql)
        for item, holds in zip(items, found, strict=True):
            if holds is None:
                raise BadInputError(
                    f"the SQL {sql} is NULL for a record of {item.tp.topic}: that is neither yes nor no",
                    hint="write coalesce(..., false) where nothing is to be found, or limit it by topic or table",
                )
            yield holds

    def _fill(self, items: Sequence[KafkaRecord]) -> None:
        """Let SQL see these: the values of `COLUMNS`."""
        assert self._sql is not None
        found = []
        for item in items:
            cut = self._cuts.get(item.tp.topic)
            names = ("", "") if cut is None else (cut.app, cut.table)
            texts = read_key(item.key, cut).text, text_of(item.value), header_texts(item.headers)
            found.append((*names, *item.tp, *texts, item.key, item.value))
        self._sql.fill(found)

    # -- masks -----------------------------------------------------------------------------------------------------

    def _mask(
        self, items: Sequence[KafkaRecord], matched: Counter[tuple[str, str, str]]
    ) -> list[KafkaRecord]:
        """Mask records, each mask to the result of the one before."""
        found: list[KafkaRecord] = list(items)
        for mask, topics in self._masks:
            covered = [at for at, it in enumerate(found) if it.tp.topic in topics and it.value is not None]
            if not (covered and mask.parts):
                continue
            values, changed = {at: self._maskable(mask, found[at]) for at in covered}, set[int]()
            self._fill([found[at] for at in covered])
            for part, sql in mask.parts.items():
                for at, new in zip(covered, self._replacements(mask, sql), strict=True):
                    made: bytes | None
                    if mask.value:
                        made = self._required(mask, found[at], new)
                    else:
                        made = replace_field(values[at], part.removeprefix("field "), (new or "").encode())
                    if made is not None:
                        values[at] = made
                        changed.add(at)
                        matched["mask", part, found[at].tp.topic] += 1
            for at in changed:
                found[at] = found[at]._replace(value=values[at])
        return [self._with_headers(it) for it in found]

    def _replacements(self, mask: Mask, sql: str) -> list[str | None]:
        """Evaluate an expression for the filled records: as text, or for a field as JSON."""
        assert self._sql is not None
        if mask.value:
            return self._sql.ask(f"CAST(({sql}\n) AS VARCHAR)", str(mask))
        return [text[1:-1] for text in self._sql.ask(f"CAST(json_array(({sql}\n)) AS VARCHAR)", str(mask))]

    def _maskable(self, mask: Mask, item: KafkaRecord) -> bytes:
        text = text_of(item.value) if has_text(item.value) else None
        if text is None:
            raise _not_masked(mask, item, "it is not text")
        if mask.fields and fields_of(text.encode()) is None:
            raise _not_masked(mask, item, "it is not a JSON object")
        return text.encode()

    def _required(self, mask: Mask, item: KafkaRecord, value: str | None) -> bytes:
        if value is None:
            raise _not_masked(mask, item, "no mask covers it")
        cut = self._cuts.get(item.tp.topic)
        if cut is not None and cut.sets:
            try:
                json.loads(value)
            except (ValueError, RecursionError):
                raise _not_masked(mask, item, "a member of a set would not be JSON") from None
        return value.encode()

    def _with_headers(self, record: KafkaRecord) -> KafkaRecord:
        """Drop or keep the headers of a record by the masks of its topic; refuse one about whose headers none
        decides."""
        masks = [mask for mask, _ in self._masks if mask.topic == record.topic]
        own, decided = wire.without_header(record.headers), {mask.headers for mask in masks}
        if not masks or not own or ("keep" in decided and "drop" not in decided):
            return record
        if "drop" in decided:
            return record._replace(headers=tuple(it for it in record.headers if it[0] == wire.HEADER))
        raise BadInputError(
            f"a record in {record.tp} has a header {own[0][0]}, which the mask of {masks[0]} does not mention",
            hint='add headers = "drop" or headers = "keep" to the mask',
        )


def _batches(items: Iterable[KafkaRecord]) -> Iterator[list[KafkaRecord]]:
    remaining = iter(items)
    while batch := list(itertools.islice(remaining, BATCH)):
        yield batch


def _not_masked(mask: Mask, item: KafkaRecord, why: str) -> BadInputError:
    return BadInputError(
        f"the mask of {mask} cannot be applied to a value in {item.tp}: {why}",
        hint="mask the whole value, or suppress the key: nothing is copied as it is",
    )
