"""What must be the same with snapkafka and without, and what must hold of every snapshot, told from the logs alone."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from snapkafka.checks import LOG_CHECKS, CutView, Finding, LogRecord, find, listed
from snapkafka.protocol import Captured, InputCut, TopicPartition
from snapkafka.wire import headers as wire
from tests.chaos.judge import log_record

from .harness import Pair, Record, Side, folded, is_marker

#: What Faust promises: the order of a partition, that of a key only (several partitions meet), or none, also of places.
Order = Literal["partition", "key", "none"]
#: Headers by which a record tells the test where it comes from; offsets differ by markers.
OURS: Final = ("src", "src-n")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of docs/reference/features.md: what an app reads and writes for it.

    `inner`: topics that it sends to itself; `<input>` stands for what the names of inputs begin with.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    order: Order = "partition"
    tables: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


class Judge:
    """Looks at what a pair left behind.

    Args:
        pair: finished.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.snapshots = [pair.observer.state.captured(epoch) for epoch in pair.epochs]
        self.log = list(_log_records(pair))
        self.stamped = {(r.topic, r.partition, r.offset): r for r in self.log}
        self._broken: dict[str, list[str]] | None = None

    # -- with and without ---------------------------------------------------------------------------------------

    def same(self, row: Row) -> None:
        """Outputs in their order, tables folded and as written, of both runs."""
        changelogs = [f"{table}-changelog" for table in (*row.tables, *row.sets)]
        for name in (*row.outputs, *self._inner(row), *changelogs):
            ours, plain = (_ordered(side, name, row.order) for side in self.pair.sides)
            assert plain, f"{row.name}: nothing was written to {name}"
            _same(f"{row.name}, topic {name}", ours, plain)
        for name in changelogs:
            a, b = (folded(side.records[name]) for side in self.pair.sides)
            assert a == b, f"{row.name}: {name} differs"

    def same_errors(self) -> None:
        """The same exceptions in both logs, equally often, and none of ours."""
        ours, plain = (_exceptions(side.log) for side in self.pair.sides)
        assert ours == plain, f"with snapkafka {ours}, without {plain}"
        assert "snapkafka: <" not in self.pair.ours.log, "a task of ours failed"

    # -- snapshots ------------------------------------------------------------------------------------------------

    def captured(self, row: Row) -> None:
        """Some snapshots found the row half-way, and what it read and wrote is on the right side in every one."""
        topics = [
            *(f"{self.pair.input}-{name}" for name in row.inputs),
            *(f"{self.pair.ours.id}-{name}" for name in self._inner(row)),
        ]
        for topic in topics:
            assert self.half_way(topic), f"{row.name}: no snapshot found {topic} half read"
        if self._broken is None:
            self._broken = self._break()
        written = (*row.outputs, *(f"{table}-changelog" for table in (*row.tables, *row.sets)))
        names = {*topics, *(f"{self.pair.ours.id}-{name}" for name in written)}
        broken = [line for name in names for line in self._broken.get(name, ())]
        assert not broken, f"{row.name}: {len(broken)} broken\n" + "\n".join(broken[:10])

    def _inner(self, row: Row) -> list[str]:
        return [name.replace("<input>", self.pair.input) for name in row.inner]

    def messages(self, name: str) -> list[Record]:
        """What our run wrote to a topic, without markers."""
        return _messages(self.pair.ours, name)

    def place(self, name: str, n: int) -> tuple[TopicPartition, int]:
        """Where the record of that number lies that was sent to an input."""
        partition, offset = self.pair.sent[name][n]
        return TopicPartition(f"{self.pair.input}-{name}", partition), offset

    def half_way(self, topic: str) -> int:
        """In how many snapshots a partition of the topic was read in part only."""
        positions = [
            {cut.partition: cut.position for cut in captured.inputs if cut.topic == topic}
            for captured in self.snapshots
        ]
        assert positions[-1], f"no snapshot has the input {topic}"
        return sum(any(0 < at < positions[-1][n] for n, at in found.items()) for found in positions)

    def in_flight(self) -> int:
        """How many messages were on their way in all snapshots together."""
        return sum(
            view.in_channel(record, source)
            for captured in self.snapshots
            for view in [CutView(captured)]
            for record in self.log
            for source in view.inputs.get(record.tp, ())
        )

    def consistent(self) -> None:
        """The checks of the log (V1 to V5) find nothing; names of random topics may share their check value."""
        for captured in self.snapshots:
            assert not captured.contaminated, f"snapshot {captured.id}: {captured.contaminated}"
            found = [it for it in self.findings(captured.epoch) if it.kind != "cause-unclear"]
            assert not found, f"snapshot {captured.id}: {len(found)} findings, {found[:5]}"

    def findings(self, epoch: int) -> list[Finding]:
        """What the checks of the log find in one snapshot."""
        view = CutView(next(captured for captured in self.snapshots if captured.epoch == epoch))
        log = listed(view, self.log)
        # Where transactions end offsets are missing, and keys, which would tell, are not compared here. The view knows
        # no ends of logs, past which records of a process that left would be late.
        found = [finding for check in LOG_CHECKS for finding in find(check, log)]
        return [finding for finding in found if finding.kind not in ("state-unproven", "left-late")]

    def _break(self) -> dict[str, list[str]]:
        """Per topic, the records that are white though their event is not in the snapshot, or the other way round."""
        broken: dict[str, list[str]] = defaultdict(list)
        sources = list(self._sources())
        for captured in self.snapshots:
            view, inputs = CutView(captured), Inputs(captured)
            for record, agent, tp, offset in sources:
                stamp = self.stamped[record.topic, record.partition, record.offset]
                white = view.white_stamped(stamp)
                if white != inputs.taken(agent, tp, offset) and not inputs.torn(agent, tp, offset):
                    what = "is white, and its event not in it" if white else "is red, and its event in it"
                    broken[record.topic].append(
                        f"snapshot {captured.id}: {record.topic}[{record.partition}]@{record.offset} {what}"
                        f" ({agent}, {tp}@{offset})"
                    )
            for stamp in self.log:
                if stamp.cause is None or not view.living(stamp.process):
                    continue
                tp, offset = stamp.cause
                opposite = not view.white_stamped(stamp)
                if inputs.by_anyone(tp, offset) == opposite and not inputs.torn("", tp, offset):
                    broken[stamp.topic].append(
                        f"snapshot {captured.id}: {stamp.tp}@{stamp.offset} is of {tp}@{offset}, and on the other side"
                    )
        return broken

    def _sources(self) -> Iterator[tuple[Record, str, TopicPartition, int]]:
        """Which event each record comes from, as its agent says."""
        for record in (record for records in self.pair.ours.records.values() for record in records):
            if is_marker(record):
                continue
            if (said := record.header("src")) is not None:
                agent, topic, partition, offset = said.split("|")
                yield record, agent, TopicPartition(topic, int(partition)), int(offset)
            elif (said := record.header("src-n")) is not None:
                agent, n = said.split("|")
                number, place = self.pair.sent[agent][int(n)]
                yield record, agent, TopicPartition(f"{self.pair.input}-{agent}", number), place


class Inputs:
    """Which events are in a snapshot."""

    def __init__(self, captured: Captured) -> None:
        self.by_tp: dict[TopicPartition, InputCut] = {
            TopicPartition(source.topic, source.partition): source for source in captured.inputs
        }
        self._torn = {
            (torn.agent, TopicPartition(torn.topic, torn.partition), torn.offset)
            for cut in captured.processes
            for torn in cut.torn
        }

    def taken(self, agent: str, tp: TopicPartition, offset: int) -> bool:
        positions = [p for p in self.by_tp[tp].agents if p.agent == agent]
        assert positions, f"{agent} does not read {tp}"
        return any(offset < p.offset or offset in p.started_above for p in positions)

    def by_anyone(self, tp: TopicPartition, offset: int) -> bool | None:
        """None where some agents have started it and others not: a stamp does not name the agent."""
        source = self.by_tp.get(tp)
        if source is None:
            return None
        answers = {offset < p.offset or offset in p.started_above for p in source.agents}
        return answers.pop() if len(answers) == 1 else None

    def torn(self, agent: str, tp: TopicPartition, offset: int) -> bool:
        if agent:
            return (agent, tp, offset) in self._torn
        return any(torn[1:] == (tp, offset) for torn in self._torn)


def _log_records(pair: Pair) -> Iterator[LogRecord]:
    """What our run wrote, as the checks look at it."""
    ledger = pair.observer.ledger.ledger_id
    by_check = wire.topics_by_check(
        source.topic for view in pair.observer.state.processes.values() for source in view.hello.inputs
    )
    for record in (record for records in pair.ours.records.values() for record in records):
        tp = TopicPartition(record.topic, record.partition)
        found = log_record(tp, record.offset, record.stamp, ledger, by_check)
        assert (record.stamp is None) == (found == LogRecord(*tp, record.offset)), f"{found} is foreign"
        yield found


# -- comparing ----------------------------------------------------------------------------------------------------


def _messages(side: Side, name: str) -> list[Record]:
    return [record for record in side.records.get(name, ()) if not is_marker(record)]


def _ordered(side: Side, name: str, order: Order) -> Any:
    """The messages of a topic by the order that is promised, less what tells the two runs apart."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    for record in _messages(side, name):
        group = {"partition": record.partition, "key": (record.partition, record.key), "none": None}[order]
        headers = tuple(pair for pair in record.headers if pair[0] not in OURS)
        value = record.value and record.value.replace(side.id.encode(), b"<id>")
        groups[group].append((record.partition, record.key, value, headers))
    if order == "none":
        return {None: sorted((message[1:] for message in groups[None]), key=repr)} if groups else {}
    return dict(groups)


def _same(what: str, ours: dict[Any, list[Any]], plain: dict[Any, list[Any]]) -> None:
    assert ours.keys() == plain.keys(), f"{what}: other partitions or keys"
    for group, expected in plain.items():
        found = ours[group]
        for n, (a, b) in enumerate(zip(found, expected, strict=False)):
            assert a == b, f"{what}, {group}, number {n}:\n  with    {a}\n  without {b}"
        assert len(found) == len(expected), f"{what}, {group}: {len(found)} with, {len(expected)} without"


_LAST_LINE: Final = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Skip))\b(.*)$")


def _exceptions(log: str) -> Counter[str]:
    """The last lines of the tracebacks."""
    found = (_LAST_LINE.match(line) for line in log.splitlines())
    return Counter(f"{match[1]}{match[2]}" for match in found if match)
