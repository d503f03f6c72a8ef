"""Random small logs of honest senders and receivers, and every kind of damage, for holding the checks to one another.

`history(random, n)` makes one small world with topics and processes of its own (`n` keeps them apart), so that many of
them can be put together into one captured snapshot, and looked at by Spark in one go.
"""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from snapkafka.checks import EXTERNAL, LogBounds, LogRecord, in_flight
from snapkafka.protocol import Captured, InputCut, TopicPartition
from snapkafka.protocol.captured_snapshot import ChangelogCut, OldTopic, ProcessCut, Recorded, SenderEnd
from snapkafka.protocol.offsets import NOBODY, Position, SeqRange, TornEvent
from tests.worlds.little_log import CAPTURED

EPOCH = 1_000_000_000
#: The parts of a world that processes report.
REPORTED = ("processes", "inputs", "senders", "changelogs", "recorded", "old_topics")
#: In this share of the worlds the first sender has known its inputs before they were recreated.
OLD = 0.3


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
    return replace(CAPTURED, epoch=EPOCH, **reported)


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
    cut = of | {"topic_id": "", "position": position, "noted": position, "receiver": living[0]}
    cut |= {"low": rng.randint(0, position), "log_end": rng.randint(max(position, red_from), end)}
    earlier, steady = rng.choice(((), (), (living[-1],), (NOBODY,))), rng.random() < 0.7
    world.inputs.append(InputCut(app=f"app{n}", **cut, agents=tuple(agents), earlier=earlier, steady=steady))
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
    """The same world with a few things wrong with it, or none: records that are lost, or others than they were, and
    reports that say something else. The sends near any of it may have had an unknown outcome."""
    for of in rng.sample(world.records, min(len(world.records), rng.randint(0, 6))):
        rng.choice((_lose, _forge, _forge, _swap, _report))(rng, world, of)
        if rng.random() < 0.3:
            first = max(0, of.seq + rng.choice((-2, 0, 0, 1, 5)))
            lost = SeqRange(first=first, last=first + rng.choice((0, 0, 2)), refused=rng.random() < 0.5)
            end = world.bounds[of.tp].end
            landed = rng.choice((0, 0, end - 1, end))
            _reported(world, "senders", of, process=of.process, unacknowledged=(lost,), landed_end=landed)
    return world


def _lose(rng: random.Random, world: World, lost: LogRecord) -> None:
    """A record, or what lies below it, or half of that; or the next ones of its sender stand in its place."""
    how, own = rng.randrange(4), (lost.tp, lost.process)
    if how == 0:
        world.bounds[lost.tp] = replace(world.bounds[lost.tp], start=lost.offset)
    world.records = [
        it._replace(seq=it.seq + 1)
        if how == 1 and (it.tp, it.process) == own and it.seq >= lost.seq >= 0
        else it
        for it in world.records
        if not (how > 1 and it == lost)
        and not (
            how in (0, 3) and it.tp == lost.tp and it.offset < lost.offset and rng.random() < 1 - how / 6
        )
    ]


def _forge(rng: random.Random, world: World, of: LogRecord) -> None:
    """Another one in its place, or at the end of its partition: of another colour, seq, sender or cause, or without its
    header. Its readers may have received it; its sender may have sent it before, and read the input of its cause."""
    tp, source = of.tp, rng.choice(world.inputs)
    event = TopicPartition(source.topic, source.partition)
    known = [it.cause for it in world.records if it.cause is not None and it.epoch < EPOCH]
    red = [(it.tp, it.offset) for it in world.records if it.epoch >= EPOCH and it.tp == event]
    causes = rng.choice((known, known, red, ())) or [(event, rng.randint(0, source.position + 2))]
    seqs = [of.seq, *(it.seq for it in world.records if it.tp == tp)]
    changes: dict[str, Any] = rng.choice(
        (
            *({"cause": rng.choice(causes)} for _ in range(2)),
            {"epoch": rng.choice((0, EPOCH))},
            {"seq": rng.choice(seqs) + rng.choice((0, 1, 20))},
            {"process": rng.choice((*(cut.process for cut in world.processes), EPOCH + 5, EPOCH - 1))},
            {"process": EXTERNAL},
        )
    )
    made, end = of._replace(**changes), world.bounds[tp].end
    made = made._replace(seq=max(made.seq, 0)) if made.process >= 0 else LogRecord(*tp, of.offset)
    if of in world.records and rng.random() < 0.6:
        world.records[world.records.index(of)] = made
    else:
        made = made._replace(offset=end)
        world.records.append(made)
        world.bounds[tp] = replace(world.bounds[tp], end=end + 1)
    if rng.random() < 0.4:
        _receive(world, tp, made.offset + 1, low=rng.choice((0, made.offset)))
    if rng.random() < 0.2:
        before = rng.choice((0, made.offset))
        _reported(world, "senders", made, process=made.process, earlier_seq=made.seq, earlier_end=before)
    if "cause" in changes and rng.random() < 0.5:
        _reported(world, "inputs", LogRecord(*event, 0), earlier=(rng.choice((NOBODY, of.process)),))


def _swap(rng: random.Random, world: World, of: LogRecord) -> None:
    """Two seqs of one sender."""
    other = rng.choice([it for it in world.records if (it.tp, it.process) == (of.tp, of.process)] or [of])
    new = {of: of._replace(seq=other.seq), other: other._replace(seq=of.seq)}
    world.records = [new.get(it, it) for it in world.records]


def _report(rng: random.Random, world: World, of: LogRecord) -> None:
    """An event tore; an input was received further; a topic is another one by now."""
    if of.cause is not None:
        (topic, partition), offset = of.cause
        torn = TornEvent(agent="a", topic=topic, partition=partition, offset=offset, was=0, met=EPOCH)
        world.processes = [
            replace(it, torn=(torn,)) if it.process == of.process else it for it in world.processes
        ]
    elif rng.random() < 0.9:
        _receive(world, of.tp, of.offset + rng.randint(0, 6))
    else:
        _reported(world, "inputs", of, topic_id="aa")
        world.bounds[of.tp] = replace(world.bounds[of.tp], topic_id="bb")


def _reported(world: World, what: str, of: LogRecord, *, process: int = NOBODY, **changes: Any) -> None:
    """Change what is reported of a partition, or of a process there."""
    found = [
        replace(it, **changes)
        if (it.topic, it.partition) == of.tp and process in (NOBODY, getattr(it, "process", NOBODY))
        else it
        for it in getattr(world, what)
    ]
    setattr(world, what, found)


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
