"""`python -m snapkafka.sim run FILE.json`: run a scenario from a file, and print its snapshots.

The file lists the sends, the deliveries and the starts of snapshots, in their order; see docs/guide/simulator.md. The
same file yields the same output, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from snapkafka.errors import EXIT_OK, BadInputError
from snapkafka.protocol.ledger_state import LedgerState, SnapshotView
from snapkafka.protocol.records import TopicPartition

from .file import Story, StoryChannel, load_story
from .performance import Logs, StoryLedger, StoryRun, changelog_of, topic_of

NOTHING: Final = 0
WHAT: Final = (
    "A scenario from outside, and the snapshots that come of it. The file states who sends what to whom, when which "
    "message is handed over, and who starts a snapshot when; see docs/guide/simulator.md."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryOutcome:
    """The outcome of one snapshot.

    `processes`: the events before the cut, for every process that has cut and reported. `channels`: the messages in
    flight, for every known channel (both ends have cut). `unreached`: processes that no marker can reach any more, as
    no channel leads there from those that know the snapshot. `under_way`: processes that a marker could still reach.
    """

    id: str
    complete: bool
    processes: Mapping[str, tuple[str, ...]]
    channels: Mapping[StoryChannel, tuple[str, ...]]
    unreached: tuple[str, ...] = ()
    under_way: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return the outcome for JSON: empty channels are left out; missing processes are listed only if there are
        any."""
        missing = {"unreached": list(self.unreached), "under_way": list(self.under_way)}
        return {
            "id": self.id,
            "complete": self.complete,
            "processes": {name: list(events) for name, events in self.processes.items()},
            "channels": {str(channel): list(found) for channel, found in self.channels.items() if found},
            **({} if self.complete else missing),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offsets:
    """A snapshot as the ledger has it: only offsets. Positions are per topic, as each has one reader."""

    changelog_ends: Mapping[int, int]
    positions: Mapping[TopicPartition, int]
    white_ends: Mapping[tuple[int, TopicPartition], int]


def outcomes(run: StoryRun) -> list[StoryOutcome]:
    """Return the outcomes of a story's snapshots, in the order in which they were started."""
    return [
        _outcome(run.story, run.ledgers[run.ledger_of[name]], run.logs, name)
        for name in run.story.snapshot_ids
    ]


def play_story(story: Story, *, one_ledger: bool = False) -> list[StoryOutcome]:
    """Run a story; return the outcomes of its snapshots.

    Raises:
        BadInputError: a step cannot be done.
    """
    run = StoryRun(story, one_ledger=one_ledger)
    run.run()
    return outcomes(run)


def main(arguments: list[str]) -> int:
    """Run `run FILE.json`: print JSON on stdout; return 2 with one line on stderr if the file is invalid."""
    parser = argparse.ArgumentParser(prog="python -m snapkafka.sim run", description=WHAT)
    parser.add_argument("file", type=Path, metavar="FILE.json", help="the scenario")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, which is what there is anyway")
    parser.add_argument(
        "--one-ledger", action="store_true", help="all snapshots in one ledger: one cut may serve several"
    )
    asked = parser.parse_args(arguments)
    try:
        found = play_story(load_story(asked.file), one_ledger=asked.one_ledger)
    except BadInputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    print(json.dumps({"snapshots": [outcome.as_data() for outcome in found]}))
    for outcome in found:
        if outcome.unreached:
            names = ", ".join(outcome.unreached)
            print(f"snapshot {outcome.id}: no marker can reach {names}; it waits in vain", file=sys.stderr)
    return EXIT_OK


def _outcome(story: Story, ledger: StoryLedger, logs: Logs, name: str) -> StoryOutcome:
    epoch = ledger.epochs[name]
    view = ledger.fold.snapshots[epoch]
    complete = view.captured_at is not None
    offsets = _captured(ledger.fold, epoch) if complete else _so_far(view)
    ids = {member.hello.app: process for process, member in ledger.fold.processes.items()}
    cut = [process for process in story.processes if ids[process] in offsets.changelog_ends]

    def events(process: str) -> tuple[str, ...]:
        end = offsets.changelog_ends[ids[process]]
        return tuple(entry.what for entry in logs[changelog_of(process)][:end])

    def messages(channel: StoryChannel) -> tuple[str, ...]:
        tp = topic_of(channel)
        start, end = offsets.positions[tp], offsets.white_ends.get((ids[channel.sender], tp), NOTHING)
        return tuple(entry.what for entry in logs[tp][start:end] if entry.marker is None)

    reached = _reached(story, cut)
    return StoryOutcome(
        id=name,
        complete=complete,
        processes={process: events(process) for process in cut},
        channels={c: messages(c) for c in story.channels if c.sender in cut and c.receiver in cut},
        unreached=tuple(p for p in story.processes if p not in reached),
        under_way=tuple(p for p in story.processes if p in reached and p not in cut),
    )


def _captured(fold: LedgerState, epoch: int) -> _Offsets:
    """Return the offsets of a captured snapshot."""
    captured = fold.captured(epoch)
    return _Offsets(
        changelog_ends={end.process: end.end for end in captured.changelogs},
        positions={TopicPartition(i.topic, i.partition): i.position for i in captured.inputs},
        white_ends={(s.process, TopicPartition(s.topic, s.partition)): s.white_end for s in captured.senders},
    )


def _so_far(view: SnapshotView) -> _Offsets:
    """Return the offsets of a snapshot that is not captured: from the reports of the processes that have reported."""
    reports = {process: report for process, (_, report) in view.reports.items()}
    return _Offsets(
        changelog_ends={p: end.end for p, report in reports.items() for end in report.changelogs},
        positions={
            TopicPartition(p.topic, p.partition): p.offset for r in reports.values() for p in r.positions
        },
        white_ends={
            (process, TopicPartition(sent.topic, sent.partition)): sent.white_end
            for process, report in reports.items()
            for sent in report.sent
        },
    )


def _reached(story: Story, cut: list[str]) -> set[str]:
    """Return the processes that markers can reach from those that have cut."""
    reached, fresh = set(cut), list(cut)
    while fresh:
        sender = fresh.pop()
        for channel in story.channels:
            if channel.sender == sender and channel.receiver not in reached:
                reached.add(channel.receiver)
                fresh.append(channel.receiver)
    return reached
