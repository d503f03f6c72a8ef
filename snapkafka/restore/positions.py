"""The starts of agents after a recovery, computed without I/O.

A recovery appends; it deletes nothing. If an input holds only external records, the position of its readers goes back
and nothing is written. If there is a record of the apps between the lowest position and the end, the messages in
flight and the external records of that range are appended again, in their old order, after the present end of the
partition: the *base*. All records below a base are older than the restore. New positions are offsets after the base.

Source of the design: a trial with real workers; docs/guide/restore.md lists the fault that each part prevents.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut, InputCut
from snapkafka.protocol.records import AgentPosition, LogEnd, Position, Restore, TopicId, TopicPartition

#: Rows of positions and ends in a record: each takes at most 300 bytes, and a record at most 256 KB.
ROWS_PER_RECORD: Final = 500


class Appended(NamedTuple):
    """A record of an input that was appended again: its old offset, and the new one."""

    old: int
    new: int


# --- What belongs to it ---------------------------------------------------------------------------------------------


def parts_of(captured: Captured) -> list[InputCut | ChangelogCut]:
    """List the parts of a recovery: the inputs and the changelogs."""
    return [*captured.inputs, *captured.changelogs]


def apps_of(captured: Captured) -> tuple[str, ...]:
    """List the apps of a snapshot that have inputs or tables, sorted."""
    return tuple(sorted({part.app for part in parts_of(captured)}))


def inputs_of(captured: Captured) -> dict[TopicPartition, list[InputCut]]:
    """Group the inputs by partition: several apps may read one."""
    found: dict[TopicPartition, list[InputCut]] = defaultdict(list)
    for cut in captured.inputs:
        found[TopicPartition(cut.topic, cut.partition)].append(cut)
    return dict(sorted(found.items()))


def changelogs_of(captured: Captured) -> dict[TopicPartition, ChangelogCut]:
    """Index the changelogs by partition; for that of a global table, which each process reports, the highest end
    counts."""
    by_end = sorted(captured.changelogs, key=lambda cut: cut.end)
    return {TopicPartition(cut.topic, cut.partition): cut for cut in by_end}


def _agents(cut: InputCut) -> Sequence[Position]:
    """List the positions of its agents; an input without agents has one without a name."""
    nobody = Position(agent="", topic=cut.topic, partition=cut.partition, offset=cut.position)
    return cut.agents or (nobody,)


def lowest_positions(captured: Captured) -> dict[TopicPartition, int]:
    """Find the lowest position of any agent of any app, per input partition."""
    return {
        tp: min(agent.offset for cut in cuts for agent in _agents(cut))
        for tp, cuts in inputs_of(captured).items()
    }


def started_by_all(captured: Captured, tp: TopicPartition) -> set[int]:
    """Find the offsets above the lowest position that every agent of every app has started."""
    agents = [agent for cut in inputs_of(captured).get(tp, ()) for agent in _agents(cut)]
    above = {offset for agent in agents for offset in agent.started_above}
    return {
        offset for offset in above if all(offset < it.offset or offset in it.started_above for it in agents)
    }


def renamed(captured: Captured, named: Callable[[str], str]) -> Captured:
    """Translate the apps, inputs and changelogs of a cut to other names."""
    return dataclasses.replace(
        captured,
        inputs=tuple(
            dataclasses.replace(
                cut,
                app=named(cut.app),
                topic=named(cut.topic),
                topic_id="",
                agents=tuple(dataclasses.replace(at, topic=named(at.topic)) for at in cut.agents),
            )
            for cut in captured.inputs
        ),
        changelogs=tuple(
            dataclasses.replace(cut, app=named(cut.app), topic=named(cut.topic), topic_id="")
            for cut in captured.changelogs
        ),
    )


# --- Positions ------------------------------------------------------------------------------------------------------


def moved(position: Position, base: int, appended: Iterable[Appended]) -> tuple[int, tuple[int, ...]]:
    """Translate a position to the log after `base`.

    Others may append there meanwhile, between the records of the restore: every record that the agent had not started
    is still to be started.

    Returns:
        the first offset that is not started, and later ones that are.
    """
    above = frozenset(position.started_above)
    started = {item.new for item in appended if item.old < position.offset or item.old in above}
    offset = base
    while offset in started:
        offset += 1
    return offset, tuple(sorted(new for new in started if new > offset))


def new_positions(
    captured: Captured,
    ends: Mapping[TopicPartition, int],
    appended: Mapping[TopicPartition, Sequence[Appended]],
) -> tuple[AgentPosition, ...]:
    """Compute where each agent of each app starts.

    Args:
        ends: the base of each input partition.
        appended: the records that were appended again to each partition that holds records of the apps; the other
            partitions hold external records only, and keep the old positions.
    """
    found = []
    for tp, cuts in inputs_of(captured).items():
        for cut in cuts:
            for agent in _agents(cut):
                if tp in appended:
                    offset, above = moved(agent, ends[tp], appended[tp])
                else:
                    offset, above = agent.offset, agent.started_above
                found.append(
                    AgentPosition(
                        app=cut.app,
                        agent=agent.agent,
                        topic=tp.topic,
                        partition=tp.partition,
                        offset=offset,
                        started_above=above,
                    )
                )
    return tuple(found)


def group_offsets(positions: Iterable[AgentPosition]) -> dict[str, dict[TopicPartition, int]]:
    """Compute the offsets that the group of each app commits: the lowest position of its agents (a group has one per
    input)."""
    found: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for item in positions:
        tp = TopicPartition(item.topic, item.partition)
        found[item.app][tp] = min(item.offset, found[item.app].get(tp, item.offset))
    return dict(found)


def spread(
    template: Restore,
    ends: Mapping[TopicPartition, int],
    positions: Sequence[AgentPosition] = (),
    topics: Mapping[str, str] | None = None,
) -> Iterator[Restore]:
    """Spread the ends, positions and topic ids of a record over as many records as the ledger takes.

    Args:
        template: the record without ends, positions, topics, parts and numbers.
        topics: ids by name.
    """
    rows: list[LogEnd | AgentPosition | TopicId] = [
        *(LogEnd(topic=tp.topic, partition=tp.partition, end=end) for tp, end in sorted(ends.items())),
        *positions,
        *(TopicId(topic=topic, topic_id=topic_id) for topic, topic_id in sorted((topics or {}).items())),
    ]
    chunks = [rows[at : at + ROWS_PER_RECORD] for at in range(0, len(rows), ROWS_PER_RECORD)] or [[]]
    for number, chunk in enumerate(chunks):
        yield dataclasses.replace(
            template,
            n=template.n + number,
            ends=tuple(row for row in chunk if isinstance(row, LogEnd)),
            positions=tuple(row for row in chunk if isinstance(row, AgentPosition)),
            topics=tuple(row for row in chunk if isinstance(row, TopicId)),
            part=number,
            parts=len(chunks),
        )
