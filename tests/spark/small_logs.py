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
    return Captured(
        id="random",
        attempt=1,
        epoch=EPOCH,
        type="full",
        parent="",
        storage="",
        processes=tuple(world.processes),
        inputs=tuple(world.inputs),
        senders=tuple(world.senders),
        changelogs=tuple(world.changelogs),
        recorded=tuple(world.recorded),
        old_topics=tuple(world.old_topics),
    )


def together(worlds: list[World]) -> World:
    whole = World()
    for world in worlds:
        for name in ("records", "processes", "inputs", "senders", "changelogs", "recorded", "old_topics"):
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
    honest = (
        not in_flight(source, offset)
        if record.epoch < EPOCH
        else in_flight(source, offset) or not by_receiver
    )
    if record.process < 0 or record.marker or not honest:
        return record
    event = TopicPartition(source.topic, source.partition), offset
    if ran.setdefault(event, record.process) != record.process:
        return record
    return record._replace(cause=event)


def _run_again(rng: random.Random, world: World) -> None:
    """An event that two processes of an app ran, or one twice."""
    caused = [record for record in world.records if record.cause is not None and record.epoch < EPOCH]
    others = [i for i, r in enumerate(world.records) if r.process >= 0 and r.epoch < EPOCH and not r.marker]
    if caused and others:
        i, cause = rng.choice(others), rng.choice(caused).cause
        world.records[i] = world.records[i]._replace(cause=cause)


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
        offset += (
            1 if step == 0 or rng.random() < 0.95 else 2
        )  # a control record of some transaction in between
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
    above = (
        tuple(sorted(rng.sample(range(position, red_from), k=min(2, red_from - position))))
        if rng.random() < 0.3
        else ()
    )
    agents = [
        Position(
            agent="a",
            topic=tp.topic,
            partition=tp.partition,
            offset=position,
            started_above=above,
            replay_until=position + 2 if rng.random() < 0.2 else 0,
        )
    ]
    if rng.random() < 0.3:
        further = rng.randint(position, red_from)
        agents.append(Position(agent="b", topic=tp.topic, partition=tp.partition, offset=further))
    world.records += lines
    world.bounds[tp] = LogBounds(start=0, end=end)
    world.inputs.append(
        InputCut(
            app=f"app{n}",
            topic=tp.topic,
            topic_id="",
            partition=tp.partition,
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
                Recorded(
                    app=f"app{n}",
                    sender=sender.process,
                    topic=tp.topic,
                    partition=tp.partition,
                    start=position,
                    end=sender.marker,
                )
            )


def _changelog(rng: random.Random, world: World, tp: TopicPartition, n: int, process: int) -> None:
    lines = _write(rng, tp, [process], [], rng.randint(0, 12))
    end = lines[-1].offset + 1 if lines else 0
    world.records += lines
    world.bounds[tp] = LogBounds(start=0, end=end)
    _ends(world, tp, lines, [process])
    white_end = max((s.white_end for s in world.senders if (s.topic, s.partition) == tp), default=0)
    world.changelogs.append(
        ChangelogCut(
            app=f"app{n}",
            table="t",
            topic=tp.topic,
            topic_id="",
            partition=tp.partition,
            end=white_end,
            process=process,
        )
    )


def _read_by_another(rng: random.Random, world: World, tp: TopicPartition, n: int) -> None:
    """Another app reads a changelog, too."""
    reader, end = n * 10 + 8, world.bounds[tp].end
    red_from = min((r.offset for r in world.records if r.tp == tp and r.epoch >= EPOCH), default=end)
    at = rng.randint(0, red_from)
    agent = Position(agent="a", topic=tp.topic, partition=tp.partition, offset=at)
    place: dict[str, Any] = {"topic": tp.topic, "partition": tp.partition, "position": at, "noted": at}
    ends: dict[str, Any] = {"low": rng.randint(0, at), "log_end": end, "receiver": reader, "agents": (agent,)}
    world.processes.append(ProcessCut(process=reader, app=f"audit{n}"))
    world.inputs.append(replace(world.inputs[0], app=f"audit{n}", **place, **ends))


def _ends(world: World, tp: TopicPartition, lines: list[LogRecord], living: list[int]) -> None:
    for process in living:
        mine = [line for line in lines if line.process == process]
        white = [line for line in mine if line.epoch < EPOCH and not line.marker]
        marker = next((line.offset for line in mine if line.marker), -1)
        if mine:
            world.senders.append(
                SenderEnd(
                    process=process,
                    topic=tp.topic,
                    partition=tp.partition,
                    white_end=white[-1].offset + 1 if white else 0,
                    last_seq=white[-1].seq if white else -1,
                    marker=marker,
                )
            )


def damage(rng: random.Random, world: World) -> World:
    """The same world with one thing wrong with it, or two, or none."""
    for _ in range(rng.choice((0, 1, 1, 2))):
        rng.choice(DAMAGES)(rng, world)
    return world


def _forge(rng: random.Random, world: World) -> None:
    """A record that somebody appends, or slips in, under another's name."""
    tp = rng.choice(list(world.bounds))
    end = world.bounds[tp].end
    process = rng.choice([*[cut.process for cut in world.processes], EPOCH + 5, EPOCH - 1])
    world.records.append(
        LogRecord(
            *tp, end, process, rng.choice((0, EPOCH, EPOCH + 9)), rng.randint(0, 30), rng.random() < 0.2
        )
    )
    world.bounds[tp] = replace(world.bounds[tp], end=end + 1)


def _pick(rng: random.Random, world: World) -> int | None:
    return rng.randrange(len(world.records)) if world.records else None


def _vanish(rng: random.Random, world: World) -> None:
    if (i := _pick(rng, world)) is not None:
        del world.records[i]


def _compact(rng: random.Random, world: World) -> None:
    """What the cleaner leaves of a changelog, as far as it came."""
    tp = TopicPartition(world.changelogs[0].topic, world.changelogs[0].partition)
    end = rng.randint(0, world.bounds[tp].end)
    world.records = [r for r in world.records if r.tp != tp or r.offset >= end or rng.random() < 0.5]


def _recolour(rng: random.Random, world: World) -> None:
    if (i := _pick(rng, world)) is not None and world.records[i].process >= 0:
        changed: dict[str, Any] = rng.choice(
            (
                {"epoch": rng.choice((0, EPOCH, EPOCH + 3))},
                {"process": EPOCH + 1},
                {"seq": rng.randint(0, 20)},
            )
        )
        world.records[i] = world.records[i]._replace(**changed)


def _swap(rng: random.Random, world: World) -> None:
    if (i := _pick(rng, world)) is not None and (j := _pick(rng, world)) is not None:
        one, other = world.records[i], world.records[j]
        if min(one.seq, other.seq) < 0:
            return  # an external record has no seq to swap
        world.records[i], world.records[j] = one._replace(seq=other.seq), other._replace(seq=one.seq)


def _repeat(rng: random.Random, world: World) -> None:
    if (i := _pick(rng, world)) is not None:
        tp = world.records[i].tp
        end = world.bounds[tp].end
        world.records.append(world.records[i]._replace(offset=end))
        world.bounds[tp] = replace(world.bounds[tp], end=end + 1)


def _trim(rng: random.Random, world: World) -> None:
    tp = rng.choice(list(world.bounds))
    start = rng.randint(0, world.bounds[tp].end)
    world.bounds[tp] = replace(world.bounds[tp], start=start)
    world.records = [record for record in world.records if record.tp != tp or record.offset >= start]


def _move_position(rng: random.Random, world: World) -> None:
    i = rng.randrange(len(world.inputs))
    moved = world.inputs[i].position + rng.randint(0, 6)
    agents = tuple(replace(agent, offset=max(agent.offset, moved)) for agent in world.inputs[i].agents)
    world.inputs[i] = replace(
        world.inputs[i],
        position=min(a.offset for a in agents),
        noted=min(a.offset for a in agents),
        agents=agents,
    )


def _recreate(rng: random.Random, world: World) -> None:
    i = rng.randrange(len(world.inputs))
    source = world.inputs[i]
    world.inputs[i] = replace(source, topic_id="aa")
    tp = TopicPartition(source.topic, source.partition)
    world.bounds[tp] = replace(world.bounds[tp], topic_id="bb")


def _lose_a_send(rng: random.Random, world: World) -> None:
    """A seq that was given out and whose record never came."""
    if (i := _pick(rng, world)) is not None and world.records[i].process >= 0:
        _lose(world, world.records[i])


def _lose(world: World, lost: LogRecord) -> None:
    world.records = [
        r._replace(seq=r.seq + 1)
        if r[:2] == lost[:2] and r.process == lost.process and r.seq >= lost.seq
        else r
        for r in world.records
    ]


def _fail_a_send(rng: random.Random, world: World) -> None:
    """A seq whose record never came, as its sender says; with or without a record missing in its place."""
    i = _pick(rng, world)
    if i is None or world.records[i].seq < 0:
        return
    lost = world.records[i]
    if rng.random() < 0.5:
        del world.records[i]
    else:
        _lose(world, lost)
    last = lost.seq + rng.choice((0, 0, 1, 4))
    _report(world, lost, unacknowledged=(SeqRange(first=lost.seq, last=last, refused=rng.random() < 0.5),))


def _report(world: World, of: LogRecord, **changes: Any) -> None:
    """Something else that the sender of a record reports of its partition."""
    world.senders = [
        replace(sender, **changes)
        if (sender.topic, sender.partition, sender.process) == (*of[:2], of.process)
        else sender
        for sender in world.senders
    ]


def _fail_at_the_edge(rng: random.Random, world: World) -> None:
    """Seqs whose records never came, before all of its sender's records or after them."""
    i = _pick(rng, world)
    if i is None or world.records[i].seq < 0:
        return
    of = world.records[i]
    seqs = [r.seq for r in world.records if r[:2] == of[:2] and r.process == of.process and r.epoch < EPOCH]
    first = rng.choice((max(seqs, default=0) + 1, max(0, min(seqs, default=0) - 2)))
    _report(world, of, unacknowledged=(SeqRange(first=first, last=first + 1),))


def _time_out(rng: random.Random, world: World) -> None:
    """A send without a result lands after all that is there: below the end that its sender asked for, or past it; some
    have received it."""
    i = _pick(rng, world)
    if i is None or world.records[i].seq < 0:
        return
    of = world.records[i]
    seq = of.seq if rng.random() < 0.3 else of.seq + rng.randint(1, 30)
    end = world.bounds[of.tp].end
    world.records.append(LogRecord(*of.tp, end, of.process, 0, seq))
    world.bounds[of.tp] = replace(world.bounds[of.tp], end=end + 1)
    reported = SeqRange(first=seq, last=seq + rng.choice((0, 0, 2)))
    _report(world, of, unacknowledged=(reported,), landed_end=rng.choice((0, end, end + 1)))
    if rng.random() < 0.3:
        _receive(world, of.tp, end + 1)


def _receive(world: World, tp: TopicPartition, upto: int, **changes: Any) -> None:
    """Let whoever reads a partition have received it up to an offset."""
    world.inputs = [
        replace(
            source,
            position=max(upto, source.position),
            noted=max(upto, source.noted),
            agents=tuple(replace(agent, offset=max(upto, agent.offset)) for agent in source.agents),
            **changes,
        )
        if (source.topic, source.partition) == tp
        else source
        for source in world.inputs
    ]


def _queue_again(rng: random.Random, world: World) -> None:
    """A record that its sender had sent long ago, where an external one lay."""
    ours = [r for r in world.records if r.process >= 0 and r.epoch < EPOCH and not r.marker]
    places = [i for i, r in enumerate(world.records) if r.process < 0]
    if not ours or not places:
        return
    i, of = rng.choice(places), rng.choice(ours)
    seq = rng.randint(0, 3)
    world.records[i] = LogRecord(*world.records[i].tp, world.records[i].offset, of.process, 0, seq)
    if rng.random() < 0.7:
        earlier = {"earlier_seq": seq + rng.randint(0, 2), "earlier_end": world.records[i].offset}
        _report(world, world.records[i], **earlier)


def _cause_earlier(rng: random.Random, world: World) -> None:
    """A red effect of an event that its process had started before it turned red."""
    sources = [source for source in world.inputs if source.position > 0]
    red = [
        i for i, r in enumerate(world.records) if r.epoch >= EPOCH and r.process == world.processes[0].process
    ]
    if not sources or not red:
        return
    i, source = rng.choice(red), rng.choice(sources)
    cause = (TopicPartition(source.topic, source.partition), rng.randrange(source.position))
    world.records[i] = world.records[i]._replace(cause=cause)


def _cause_later(rng: random.Random, world: World) -> None:
    """The effect of an event that was still to come; or it was torn, or had been run by somebody else."""
    if (i := _pick(rng, world)) is None or world.records[i].process < 0:
        return
    record, source = world.records[i], rng.choice(world.inputs)
    cause = (TopicPartition(source.topic, source.partition), source.position + rng.randint(0, 3))
    world.records[i] = record._replace(cause=cause)
    if rng.random() < 0.3:
        event = TornEvent(
            agent="a", topic=cause[0].topic, partition=cause[0].partition, offset=cause[1], was=0, met=EPOCH
        )
        world.processes = [
            replace(cut, torn=(event,)) if cut.process == record.process else cut for cut in world.processes
        ]


def _cause_red(rng: random.Random, world: World) -> None:
    """A white effect of a red record, by a process that had read the input and was declared dead since."""
    inputs = {(s.topic, s.partition): i for i, s in enumerate(world.inputs)}
    red = [
        r for r in world.records if r.epoch >= EPOCH and r.process >= 0 and (r.topic, r.partition) in inputs
    ]
    white = [
        i
        for i, r in enumerate(world.records)
        if r.epoch < EPOCH and r.process == world.processes[0].process and not r.marker
    ]
    if not red or not white:
        return
    cause, i = rng.choice(red), rng.choice(white)
    at = inputs[cause.topic, cause.partition]
    source, effect = world.inputs[at], world.records[i]
    world.inputs[at] = replace(source, earlier=(*source.earlier, effect.process))
    world.records[i] = effect._replace(cause=(TopicPartition(cause.topic, cause.partition), cause.offset))


def _receive_what_was_late(rng: random.Random, world: World) -> None:
    """A white record after its sender's white end, below the position."""
    i = rng.randrange(len(world.inputs))
    source = world.inputs[i]
    tp = TopicPartition(source.topic, source.partition)
    end = world.bounds[tp].end
    process = rng.choice([cut.process for cut in world.processes])
    world.records.append(LogRecord(*tp, end, process, 0, rng.randint(0, 30)))
    world.bounds[tp] = replace(world.bounds[tp], end=end + 1)
    agents = tuple(replace(agent, offset=end + 1) for agent in source.agents)
    world.inputs[i] = replace(source, position=end + 1, noted=end + 1, agents=agents)


def _strip(rng: random.Random, world: World) -> None:
    """Something on the way removes the headers of a topic, or of the last white record of a sender; some of it was
    received."""
    if (i := _pick(rng, world)) is None:
        return
    tp = world.records[i].tp
    ends = {end.white_end - 1 for end in world.senders if (end.topic, end.partition) == tp}
    whole = rng.random() < 0.5
    world.records = [
        LogRecord(*record[:3], key_hash=record.key_hash)
        if record.tp == tp and (whole or record.offset in ends)
        else record
        for record in world.records
    ]
    if rng.random() < 0.5:
        _receive(world, tp, max(ends, default=0) + 1, low=0)


DAMAGES = (
    _strip,
    _forge,
    _vanish,
    _compact,
    _recolour,
    _swap,
    _repeat,
    _trim,
    _move_position,
    _recreate,
    _lose_a_send,
    _fail_a_send,
    _fail_at_the_edge,
    _time_out,
    _queue_again,
    _cause_later,
    _cause_red,
    _cause_earlier,
    _receive_what_was_late,
    _run_again,
)
