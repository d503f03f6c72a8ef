"""Random small logs of honest senders and receivers, and every kind of damage, for holding the checks to one another.

`history(random, n)` makes one small world with topics and processes of its own (`n` keeps them apart), so that many of
them can be put together into one captured snapshot, and looked at by Spark in one go.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from snapkafka.checks import LogBounds, LogRecord, in_flight
from snapkafka.protocol import (
    NOBODY,
    Captured,
    ChangelogCut,
    InputCut,
    OldTopic,
    Position,
    ProcessCut,
    Recorded,
    SenderEnd,
    SeqRange,
    TopicPartition,
    TornEvent,
)

EPOCH = 1_000_000_000
#: The parts of a world that processes report.
REPORTED = ("processes", "inputs", "senders", "changelogs", "recorded", "old_topics")
#: In this share of the worlds the first sender has known its inputs before they were recreated.
OLD = 0.1


@dataclass
class World:
    """What one small history leaves: its logs, and what its processes reported."""

    records: list[LogRecord] = field(default_factory=list)
    bounds: dict[TopicPartition, LogBounds] = field(default_factory=dict)
    processes: list[ProcessCut] = field(default_factory=list)
    inputs: list[InputCut] = field(default_factory=list)
    senders: list[SenderEnd] = field(default_factory=list)
    changelogs: list[ChangelogCut] = field(default_factory=list)
    recorded: list[Recorded] = field(default_factory=list)
    old_topics: list[OldTopic] = field(default_factory=list)


def captured(world: World) -> Captured:
    reported: dict[str, Any] = {name: tuple(getattr(world, name)) for name in REPORTED}
    return Captured(
        id="random",
        attempt=1,
        epoch=EPOCH,
        type="full",
        parent="",
        storage="",
        **reported,
    )


def together(worlds: list[World]) -> World:
    whole = World()
    for world in worlds:
        for name in ("records", *REPORTED):
            getattr(whole, name).extend(getattr(world, name))
        whole.bounds.update(world.bounds)
    return whole


def history(rng: random.Random, n: int) -> World:
    """Some senders, one of which may have left, writing to one or two inputs and a changelog, before and after E."""
    world = World()
    living = [n * 10 + i for i in range(rng.randint(1, 3))]
    left = [n * 10 + 7] if rng.random() < 0.4 else []
    formerly = left[0] if left and rng.random() < 0.3 else NOBODY
    world.processes += [ProcessCut(process=p, app=f"app{n}", formerly=formerly) for p in living[:1]]
    world.processes += [ProcessCut(process=p, app=f"app{n}") for p in living[1:]]
    world.processes += [ProcessCut(process=p, app=f"app{n}", left=True) for p in left]
    for i in range(rng.randint(1, 2)):
        _input(rng, world, TopicPartition(f"in{n}", i), n, living, left)
    _changelog(rng, world, TopicPartition(f"table{n}", 0), n, living[0])
    if rng.random() < 0.3:
        _read_by_another(rng, world, TopicPartition(f"table{n}", 0), n)
    if random.Random(f"old {n} {world.senders}").random() < OLD:  # so that others draw what they drew
        world.old_topics.append(OldTopic(process=living[0], topic=f"in{n}"))
    ran: dict[tuple[TopicPartition, int], int] = {}
    world.records = [_caused(rng, world, record, ran) for record in world.records]
    return world


def _caused(
    rng: random.Random, world: World, record: LogRecord, ran: dict[tuple[TopicPartition, int], int]
) -> LogRecord:
    """As an effect of an event: in white of one that every agent had started at its cut, in red of one that its
    sender had not.

    Args:
        ran: who ran each event; nobody else does.
    """
    source = rng.choice(world.inputs)
    offset = rng.randint(0, source.log_end)
    by_receiver = source.steady and record.process == source.receiver
    flies = in_flight(source, offset)
    honest = not flies if record.epoch < EPOCH else flies or not by_receiver
    if record.process < 0 or record.marker or not honest:
        return record
    event = TopicPartition(source.topic, source.partition), offset
    if ran.setdefault(event, record.process) != record.process:
        return record
    return record._replace(cause=event)


def _write(
    rng: random.Random, tp: TopicPartition, living: list[int], left: list[int], size: int
) -> list[LogRecord]:
    """A log as honest senders leave it: white, then from some point on red; a marker where each one turns. Its first
    offset is 0; here and there one is missing."""
    seqs = dict.fromkeys([*living, *left], rng.randint(0, 5))
    turned: set[int] = set()
    lines: list[LogRecord] = []
    offset = -1
    for step in range(size):
        # 2: a control record of some transaction in between
        offset += 1 if step == 0 or rng.random() < 0.95 else 2
        if rng.random() < 0.1:
            lines.append(LogRecord(*tp, offset))  # external
            continue
        late = step >= size // 2
        process = rng.choice(living if late else [*living, *left])
        marker = late and process not in turned and rng.random() < 0.8
        if late:
            turned.add(process)
        epoch = EPOCH if process in turned else rng.choice((0, 17))
        lines.append(LogRecord(*tp, offset, process, epoch, seqs[process], marker))
        seqs[process] += 1
    return lines


def _input(
    rng: random.Random, world: World, tp: TopicPartition, n: int, living: list[int], left: list[int]
) -> None:
    lines = _write(rng, tp, living, left, rng.randint(0, 16))
    end = lines[-1].offset + 1 if lines else 0
    red_from = min((line.offset for line in lines if line.epoch >= EPOCH and not line.marker), default=end)
    position = rng.randint(0, red_from)
    above: list[int] = []
    if rng.random() < 0.3:
        above = rng.sample(range(position, red_from), k=min(2, red_from - position))
    again = position + 2 if rng.random() < 0.2 else 0
    started = tuple(sorted(above))
    of: dict[str, Any] = tp._asdict()
    agents = [Position(agent="a", **of, offset=position, started_above=started, replay_until=again)]
    if rng.random() < 0.3:
        agents.append(Position(agent="b", **of, offset=rng.randint(position, red_from)))
    world.records += lines
    world.bounds[tp] = LogBounds(start=0, end=end)
    world.inputs.append(
        InputCut(
            app=f"app{n}",
            **of,
            topic_id="",
            position=position,
            noted=position,
            low=rng.randint(0, position),
            log_end=rng.randint(max(position, red_from), end),
            receiver=living[0],
            agents=tuple(agents),
            earlier=rng.choice(((), (), (living[-1],), (NOBODY,))),
            steady=rng.random() < 0.7,
        )
    )
    _ends(world, tp, lines, living)
    for sender in world.senders:
        if (sender.topic, sender.partition) == tp and sender.marker >= 0 and rng.random() < 0.7:
            world.recorded.append(
                Recorded(app=f"app{n}", sender=sender.process, **of, start=position, end=sender.marker)
            )


def _changelog(rng: random.Random, world: World, tp: TopicPartition, n: int, process: int) -> None:
    lines = _write(rng, tp, [process], [], rng.randint(0, 12))
    end = lines[-1].offset + 1 if lines else 0
    world.records += lines
    world.bounds[tp] = LogBounds(start=0, end=end)
    _ends(world, tp, lines, [process])
    white_end = max((s.white_end for s in world.senders if (s.topic, s.partition) == tp), default=0)
    of: dict[str, Any] = tp._asdict() | {"topic_id": "", "end": white_end, "process": process}
    world.changelogs.append(ChangelogCut(app=f"app{n}", table="t", **of))


def _read_by_another(rng: random.Random, world: World, tp: TopicPartition, n: int) -> None:
    """Another app reads a changelog, too."""
    reader, end = n * 10 + 8, world.bounds[tp].end
    red_from = min((r.offset for r in world.records if r.tp == tp and r.epoch >= EPOCH), default=end)
    at = rng.randint(0, red_from)
    place: dict[str, Any] = tp._asdict() | {"position": at, "noted": at}
    agent = Position(agent="a", **tp._asdict(), offset=at)
    ends: dict[str, Any] = {"low": rng.randint(0, at), "log_end": end, "receiver": reader, "agents": (agent,)}
    world.processes.append(ProcessCut(process=reader, app=f"audit{n}"))
    world.inputs.append(replace(world.inputs[0], app=f"audit{n}", **place, **ends))


def _ends(world: World, tp: TopicPartition, lines: list[LogRecord], living: list[int]) -> None:
    for process in living:
        mine = [line for line in lines if line.process == process]
        white = [line for line in mine if line.epoch < EPOCH and not line.marker]
        marker = next((line.offset for line in mine if line.marker), -1)
        if mine:
            end, seq = (white[-1].offset + 1, white[-1].seq) if white else (0, -1)
            world.senders.append(
                SenderEnd(process=process, **tp._asdict(), white_end=end, last_seq=seq, marker=marker)
            )


def damage(rng: random.Random, world: World) -> World:
    """The same world with a few things wrong with it, or none: records that are lost, forged, changed or without their
    header, and reports that say something else."""
    for _ in range(rng.choice((0, 1, 1, 2))):
        rng.choice((_lose, _append, _change, _swap, _cause, _strip, _report, _move))(rng, world)
    return world


def _lose(rng: random.Random, world: World) -> None:
    """One record, or what lies below an offset; or one in whose place the next ones of its sender stand."""
    if not world.records:
        return
    lost, how = rng.choice(world.records), rng.randrange(4)
    if rng.random() < 0.3:
        _unacknowledged(rng, world, lost)
    if how == 0:
        world.bounds[lost.tp] = replace(world.bounds[lost.tp], start=lost.offset)
    world.records = [
        it._replace(seq=it.seq + 1)
        if how == 1 and (it.tp, it.process) == (lost.tp, lost.process) and it.seq >= max(lost.seq, 0)
        else it
        for it in world.records
        if not (how > 1 and it == lost)
        and not (how == 0 and it.tp == lost.tp and it.offset < lost.offset)
        and not (how == 3 and it.tp == lost.tp and it.offset < lost.offset and rng.random() < 0.5)
    ]


def _append(rng: random.Random, world: World) -> None:
    """At the end of a partition, with a seq that is new or not; its readers may have received it."""
    tp = rng.choice(list(world.bounds))
    process = rng.choice([*(cut.process for cut in world.processes), EPOCH + 5, EPOCH - 1])
    seqs = [it.seq for it in world.records if (it.tp, it.process) == (tp, process)] or [0]
    seq = max(0, rng.choice(seqs) + rng.choice((0, 0, 1, 20)))
    end = world.bounds[tp].end
    world.records.append(LogRecord(*tp, end, process, rng.choice((0, 0, EPOCH)), seq, rng.random() < 0.1))
    world.bounds[tp] = replace(world.bounds[tp], end=end + 1)
    if rng.random() < 0.5:
        _unacknowledged(rng, world, world.records[-1], landed_end=rng.choice((0, end, end + 1)))
    if rng.random() < 0.5:
        _receive(world, tp, end + 1)


def _change(rng: random.Random, world: World) -> None:
    """A record, to one of another colour, seq or sender; it may be one that its sender had sent before."""
    if not world.records:
        return
    i = rng.randrange(len(world.records))
    changes: dict[str, Any] = rng.choice(
        (
            {"epoch": rng.choice((0, EPOCH))},
            {"process": EPOCH + 1},
            {"seq": rng.randint(0, 20)},
            {"process": world.processes[0].process, "seq": rng.randint(0, 3), "epoch": 0},
        )
    )
    if (record := world.records[i]._replace(**changes)).process >= 0:
        world.records[i] = record = record._replace(seq=max(record.seq, 0))
        if rng.random() < 0.3:
            _report_of(world, record, earlier_seq=record.seq, earlier_end=rng.choice((0, record.offset)))


def _swap(rng: random.Random, world: World) -> None:
    """Two seqs of one sender."""
    senders = [(it.tp, it.process) for it in world.records if it.process >= 0]
    left = {cut.process for cut in world.processes if cut.left}
    if senders:
        of = rng.choice([it for it in senders if it[1] in left] or senders)
        mine = [n for n, it in enumerate(world.records) if (it.tp, it.process) == of]
        i, j = rng.choice(mine), rng.choice(mine)
        one, other = world.records[i], world.records[j]
        world.records[i], world.records[j] = one._replace(seq=other.seq), other._replace(seq=one.seq)


def _cause(rng: random.Random, world: World) -> None:
    """An effect, of an event that another one names, of a red record, or of any; who has it may have read that input
    before."""
    ours = [n for n, it in enumerate(world.records) if it.process >= 0 and not it.marker]
    if not ours:
        return
    i, source = rng.choice(ours), rng.choice(world.inputs)
    tp = TopicPartition(source.topic, source.partition)
    red = [(it.tp, it.offset) for it in world.records if it.epoch >= EPOCH and it.tp == tp]
    known = [it.cause for it in world.records if it.cause is not None and it.epoch < EPOCH]
    places = rng.choice((known, red, [(tp, n) for n in range(source.position + 3)]))
    if places:
        world.records[i] = world.records[i]._replace(cause=rng.choice(places))
        if rng.random() < 0.5:
            before = rng.choice((NOBODY, world.records[i].process))
            world.inputs = [
                replace(it, earlier=(*it.earlier, before)) if it.topic == source.topic else it
                for it in world.inputs
            ]


def _strip(rng: random.Random, world: World) -> None:
    """Headers, of a whole topic or of the last white records of its senders; some of it was received."""
    tp = rng.choice(list(world.bounds))
    ends = {end.white_end - 1 for end in world.senders if (end.topic, end.partition) == tp}
    whole = rng.random() < 0.5
    world.records = [
        LogRecord(*it[:3], key_hash=it.key_hash) if it.tp == tp and (whole or it.offset in ends) else it
        for it in world.records
    ]
    if rng.random() < 0.5:
        _receive(world, tp, max(ends, default=0) + 1, low=0)


def _report(rng: random.Random, world: World) -> None:
    """What a sender reports: sends of unknown outcome at one of its records, or before and after them all; an event
    that tore."""
    if not world.records:
        return
    of = rng.choice(world.records)
    _unacknowledged(rng, world, of._replace(seq=max(0, of.seq + rng.choice((-2, 0, 0, 1, 5)))))
    if of.cause is not None:
        (topic, partition), offset = of.cause
        torn = TornEvent(agent="a", topic=topic, partition=partition, offset=offset, was=0, met=EPOCH)
        world.processes = [
            replace(it, torn=(torn,)) if it.process == of.process else it for it in world.processes
        ]


def _move(rng: random.Random, world: World) -> None:
    """How far an input was received, and which topic it is of."""
    source = rng.choice(world.inputs)
    _receive(world, TopicPartition(source.topic, source.partition), source.position + rng.randint(0, 6))
    if rng.random() < 0.1:
        world.inputs = [replace(it, topic_id="aa") if it.topic == source.topic else it for it in world.inputs]
        world.bounds |= {
            tp: replace(now, topic_id="bb") for tp, now in world.bounds.items() if tp.topic == source.topic
        }


def _unacknowledged(rng: random.Random, world: World, of: LogRecord, **more: Any) -> None:
    last = of.seq + rng.choice((0, 0, 2))
    lost = SeqRange(first=of.seq, last=last, refused=rng.random() < 0.5)
    _report_of(world, of, unacknowledged=(lost,), **more)


def _report_of(world: World, of: LogRecord, **changes: Any) -> None:
    place = (*of[:2], of.process)
    world.senders = [
        replace(it, **changes) if (it.topic, it.partition, it.process) == place else it
        for it in world.senders
    ]


def _receive(world: World, tp: TopicPartition, upto: int, **changes: Any) -> None:
    """Let whoever reads a partition have received it up to an offset."""
    world.inputs = [
        replace(
            it,
            position=max(upto, it.position),
            noted=max(upto, it.noted),
            agents=tuple(replace(agent, offset=max(upto, agent.offset)) for agent in it.agents),
            **changes,
        )
        if (it.topic, it.partition) == tp
        else it
        for it in world.inputs
    ]
