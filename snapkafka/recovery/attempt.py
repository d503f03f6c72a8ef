"""An attempt of a recovery, compared with the snapshot before its commit point.

`appending.read_back` reads back all appended records; here the result is judged: the changelogs are folded from their
starts by separate rules (`comparing`), and the messages of each input are collected once more. So a fault in the rules
of appending shows as well, and so does an incomplete changelog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from snapkafka.checks import ReadRange
from snapkafka.errors import RestoreFailedError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .appending import Author, Bulk
from .channels import Channel
from .comparing import ComparedTable, StateRow, compare_state
from .comparing_inputs import ChannelComparison, ComparedChannel, compare_in_flight
from .positions import changelogs_of
from .target import Target

#: Differences that the error names.
NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt that has appended everything.

    Args:
        starts, bases, ends: of each changelog and input: the start of its log, its end before anything was appended,
            and its present end.
        state: the fold of the ledger.
    """

    target: Target
    bulk: Bulk
    author: Author
    state: LedgerState
    starts: Mapping[TopicPartition, int]
    bases: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    def compare(self, channels: Iterable[Channel], timed: Mapping[str, bool]) -> tuple[str, ...]:
        """Compare it; return what was compared, a sentence each. Blocks.

        Args:
            channels: the records that each input must hold after its base.
            timed: by topic, whether it keeps the times of records.

        Raises:
            RestoreFailedError: something differs, and is named; nothing is committed.
        """
        tables = list(self._tables())
        inputs = [(it.tp, self._input(it, timed)) for it in channels]
        differences = [f"table {it.table} of app {it.app}: {key}" for it in tables for key in it.keys]
        differences += [str(it) for _, compared in inputs for it in compared.differences]
        count = sum(it.missing + it.unexpected + it.different for it in tables)
        count += sum(compared.differing for _, compared in inputs)
        if count:
            more = f"; and {count - NAMED:,} more" if count > NAMED else ""
            raise RestoreFailedError(
                f"the logs do not hold what the snapshot does: {'; '.join(differences[:NAMED])}{more}",
                hint="nothing is committed; run the same command again, and report it if it happens again",
            )
        return (
            *(f"equal: table {it.table} of app {it.app}, {it.rows:,} keys" for it in tables),
            *(f"equal: input {tp}, {compared.messages:,} messages" for tp, compared in inputs),
        )

    def _tables(self) -> Iterator[ComparedTable]:
        cuts = changelogs_of(self.target.captured)

        def rows() -> Iterator[StateRow]:
            for row, erased in self.target.marked(self.target.rows()):
                if not erased and row.tp in cuts:
                    yield row.tp, row.key, row.value

        def records(tp: TopicPartition) -> Iterator[KafkaRecord]:
            return self._read(tp, self.starts[tp])

        return compare_state(rows, records, cuts, is_void=self._is_void)

    def _input(self, channel: Channel, timed: Mapping[str, bool]) -> ComparedChannel:
        unread = (
            record
            for record in self._read(channel.tp, self.bases[channel.tp])
            if self._process(record) == self.author.process
        )
        comparable = ChannelComparison(channel.tp, channel.records, unread)
        return compare_in_flight(comparable, timed=timed.get(channel.tp.topic, True))

    def _read(self, tp: TopicPartition, start: int) -> Iterator[KafkaRecord]:
        there = ReadRange(*tp, start, self.ends[tp])
        return self.bulk.read([there]) if there.start < there.end else iter(())

    def _process(self, record: KafkaRecord) -> int | None:
        header = wire.find(record.headers)
        found = (
            None if header is None else wire.read(header, self.author.ledger_id, wire.tp_check(*record.tp))
        )
        return None if found is None else found.process

    def _is_void(self, record: KafkaRecord) -> bool:
        process = self._process(record)
        return process is not None and self.state.is_void(process, record.tp, record.offset)
