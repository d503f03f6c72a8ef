"""Edits on the way from a snapshot to a restore or a fork: erased keys are left out, and values masked.

`--suppress FILE` names keys that were erased since: by exact key, by prefix, or by SQL. They are left out of every
table, channel and window. `--mask FILE` replaces values by SQL expressions, per table or topic. Both fail closed: a
record that cannot be examined or masked is refused by name, and so is a rule that matches nothing.

Both files are TOML. The SQL is DuckDB's, and knows the columns of `expressions.COLUMNS`: `key` is the key within a
window or a set, and each member of a set is a row that has the member as its value.

Everything is examined before anything is written: `examine` takes the records to be written, `counts` returns the
matches of each rule, `raise_unmatched` refuses rules without a match.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from snapkafka.errors import BadInputError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut
from snapkafka.wire import headers as wire

from .masking import Mask, Masking
from .state import Row
from .suppression import (
    Expressions,
    Key,
    Subject,
    Suppression,
    has_text,
    header_texts,
    members_of,
    read_key,
    text_of,
)

#: Records that are examined together.
BATCH: Final = 5_000

T = TypeVar("T", Row, KafkaRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCount:
    """The number of records, rows and members of sets that a rule has matched. `kind`: "key", "prefix", "sql" or
    "mask". `place`: the topic of a mask; empty: the rule applies to all."""

    kind: str
    rule: str
    items: int
    place: str = ""


class _Unit(NamedTuple):
    """A record or row, or a member of a set, as it is compared. `number`: of its record in the batch."""

    number: int
    key: Key
    value: bytes | None
    member: Key | None = None


class Editing:
    """Both files, applied to the content of a snapshot, by the names of production.

    `suppressed`, `masked`: the numbers of records and rows left out and changed, without those that `examine` took.

    Args:
        captured: names the tables of its changelogs.
        allow_unmatched: accept a rule that matches nothing.

    Raises:
        BadInputError: a mask names something that the snapshot does not have, or its SQL is invalid.
        DependencyMissingError: DuckDB is needed, and not installed.
    """

    def __init__(
        self,
        captured: Captured,
        suppression: Suppression | None = None,
        masks: tuple[Mask, ...] = (),
        *,
        allow_unmatched: bool = False,
    ) -> None:
        self.suppressed = self.masked = 0
        self._allow_unmatched = allow_unmatched
        self._cuts = {cut.topic: cut for cut in captured.changelogs}
        self._inputs = {cut.topic: cut for cut in captured.inputs}
        self._suppression = suppression or Suppression()
        named = {*self._suppression.binary}
        self._binary = named | {topic for topic, cut in self._cuts.items() if cut.table in named}
        self._exact = frozenset(self._suppression.keys)
        self._matched: Counter[tuple[str, str]] = Counter()
        self._expressions = Expressions() if masks or self._suppression.sql else None
        for sql in self._suppression.sql:  # a wrong expression is found before anything is written
            self._hold(sql)
        self._masking = (
            None if self._expressions is None else Masking(self._expressions, captured, masks, self._subject)
        )

    # -- before anything is written ------------------------------------------------------------------------------

    def examine(self, items: Iterable[T]) -> tuple[RuleCount, ...]:
        """Examine the records to be written, and count the matches of each rule; change nothing.

        Returns:
            the present `counts`.

        Raises:
            BadInputError: something cannot be examined or masked.
        """
        remaining = iter(items)
        with self.uncounted():
            while batch := list(itertools.islice(remaining, BATCH)):
                self._apply(batch, examining=True)
        return self.counts

    @property
    def counts(self) -> tuple[RuleCount, ...]:
        """The number of examined records and rows that each rule has matched."""
        named = [
            *(("key", key) for key in self._suppression.keys),
            *(("prefix", prefix) for prefix in self._suppression.prefixes),
            *(("sql", sql) for sql in self._suppression.sql),
        ]
        found = [RuleCount(kind=kind, rule=rule, items=self._matched[kind, rule]) for kind, rule in named]
        if self._masking is not None:
            found += [
                RuleCount(kind="mask", rule=part, items=count, place=place)
                for place, part, count in self._masking.counts()
            ]
        return tuple(found)

    def raise_unmatched(self) -> None:
        """Refuse rules without a match among the examined records.

        Raises:
            BadInputError: there is such a rule, and it is not allowed.
        """
        if self._allow_unmatched:
            return
        unmatched = [f"{it.kind} {it.rule}" for it in self.counts if not it.items and it.kind != "mask"]
        unmatched += self._masking.unmatched() if self._masking is not None else []
        if unmatched:
            raise BadInputError(
                f"nothing was changed: the snapshot holds nothing for {'; '.join(unmatched)}",
                hint="correct the name, or add --allow-unmatched",
            )

    # -- while it is written ---------------------------------------------------------------------------------------

    def edit(self, items: Iterable[T]) -> Iterator[T]:
        """Leave out what is erased, also members of sets, and mask the rest; the order stays."""
        remaining = iter(items)
        while batch := list(itertools.islice(remaining, BATCH)):
            yield from self._apply(batch, examining=False)

    def erases_any(self, items: Iterable[T]) -> bool:
        """Return whether one of them is erased."""
        if not self._suppression:
            return False
        with self.uncounted():
            before = self.suppressed
            for _ in self.edit(items):
                pass
            return self.suppressed > before

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave `suppressed` and `masked` as they are: nothing is written meanwhile."""
        written = self.suppressed, self.masked
        try:
            yield
        finally:
            self.suppressed, self.masked = written

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._suppression and self._masking is None

    def _apply(self, batch: list[T], *, examining: bool) -> list[T]:
        kept = self._kept(batch, self._matched if examining else Counter()) if self._suppression else batch
        if self._masking is None:
            return kept
        masked = self._masking.apply(kept, count=examining)
        self.masked += sum(new is not old for new, old in zip(masked, kept, strict=True))
        return masked

    # -- erased keys -----------------------------------------------------------------------------------------------

    def _kept(self, batch: Sequence[T], matched: Counter[tuple[str, str]]) -> list[T]:
        units = [unit for number, item in enumerate(batch) for unit in self._units(number, item)]
        erased = [self._names(unit, matched) for unit in units]
        if self._expressions is not None and self._suppression.sql:
            self._expressions.fill(
                [self._subject(batch[unit.number], unit.value, unit.key.text) for unit in units]
            )
            for sql in self._suppression.sql:
                for at, holds in enumerate(self._hold(sql, [batch[unit.number] for unit in units])):
                    erased[at] |= holds
                    matched["sql", sql] += holds
        of_items: list[list[tuple[_Unit, bool]]] = [[] for _ in batch]
        for unit, is_erased in zip(units, erased, strict=True):
            of_items[unit.number].append((unit, is_erased))
        kept = []
        for item, found in zip(batch, of_items, strict=True):
            stay = [unit.value or b"" for unit, is_erased in found if not is_erased]
            if len(stay) == len(found):
                kept.append(item)
                continue
            self.suppressed += 1
            if stay:  # of a set
                kept.append(item._replace(value=b"[[%s],[]]" % b",".join(stay)))
        return kept

    def _units(self, number: int, item: Row | KafkaRecord) -> Iterator[_Unit]:
        """Split an item into units, and refuse what cannot be examined; a row of an unknown table is not written."""
        cut = self._cuts.get(item.tp.topic)
        if cut is None and isinstance(item, Row):
            return
        key = read_key(item.key, cut)
        if not self._is_binary(item):
            self._require_examined(item, key)
        members = members_of(item.value) if cut is not None and cut.sets else None
        if not members:
            yield _Unit(number, key, item.value)
        for member in members or ():
            read = read_key(member, None)
            if read.problem and not self._is_binary(item):
                raise self._refused(item, "member", read.problem, "value_codec")
            yield _Unit(number, key, member, read)

    def _require_examined(self, item: Row | KafkaRecord, key: Key) -> None:
        if key.problem or not has_text(item.key):
            raise self._refused(item, "key", key.problem or "is not text", "key_codec")
        if not self._suppression.sql:
            return
        if not has_text(item.value):
            raise self._refused(item, "value", "is not text", "value_codec")
        for name, value in () if isinstance(item, Row) else wire.without_header(item.headers):
            if not has_text(value):
                raise self._refused(item, f"header {name}", "is not text", "")

    def _refused(self, item: Row | KafkaRecord, what: str, problem: str, codec: str) -> BadInputError:
        cut = self._cuts.get(item.tp.topic) or self._inputs.get(item.tp.topic)
        by = f" (codec {getattr(cut, codec) or 'unknown'})" if cut is not None and codec else ""
        name = cut.table if isinstance(cut, ChangelogCut) else item.tp.topic
        return BadInputError(
            f"a {what} of {item.tp.topic}{by} cannot be compared with what was erased: it {problem}",
            hint=f'add binary = ["{name}"] to the file, and examine key_raw and value_raw by sql',
        )

    def _is_binary(self, item: Row | KafkaRecord) -> bool:
        return item.tp.topic in self._binary

    def _names(self, unit: _Unit, matched: Counter[tuple[str, str]]) -> bool:
        """Return whether it is one of the exact keys, or begins with a prefix."""
        keys = (unit.key,) if unit.member is None else (unit.key, unit.member)
        exact = {name for key in keys for name in key.is_one_of(self._exact)}
        begins = [
            prefix for prefix in self._suppression.prefixes if any(key.begins_with(prefix) for key in keys)
        ]
        if not exact and not begins:
            return False
        matched.update(("key", name) for name in exact)
        matched.update(("prefix", prefix) for prefix in begins)
        return True

    def _hold(self, sql: str, items: Sequence[Row | KafkaRecord] = ()) -> list[bool]:
        assert self._expressions is not None
        found = []
        for at, holds in enumerate(self._expressions.hold(sql)):
            if holds is None:
                raise BadInputError(
                    f"the SQL {sql} is NULL for a record of {items[at].tp.topic}: that is neither yes nor no",
                    hint="write coalesce(..., false) where nothing is to be found, or limit it by topic or table",
                )
            found.append(holds)
        return found

    def _subject(self, item: Row | KafkaRecord, value: bytes | None, key: str | None) -> Subject:
        cut = self._cuts.get(item.tp.topic)
        return Subject(
            app="" if cut is None else cut.app,
            table_name="" if cut is None else cut.table,
            topic=item.tp.topic,
            partition=item.tp.partition,
            key=key,
            value=text_of(value),
            headers="[]" if isinstance(item, Row) else header_texts(item.headers),
            key_raw=item.key,
            value_raw=value,
        )
