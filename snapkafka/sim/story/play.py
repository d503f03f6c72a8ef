"""The outcome of a story: its snapshots, with the states and the messages in flight that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from snapkafka.protocol.ledger_state import LedgerState

from .file import Story, StoryChannel
from .performance import Logs, StoryRun, changelog_of, topic_of


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


def play_story(story: Story, *, one_ledger: bool = False) -> list[StoryOutcome]:
    """Run a story; return the outcomes of its snapshots, in the order in which they were started.

    Raises:
        BadInputError: a step cannot be done.
    """
    run = StoryRun(story, one_ledger=one_ledger)
    run.run()
    return outcomes(run)


def outcomes(run: StoryRun) -> list[StoryOutcome]:
    """Return the outcomes of the snapshots of a run, in the order in which they were started."""
    return [_outcome(run.story, ledger.fold, run.logs, name) for name, ledger in run.ledger_of.items()]


def _outcome(story: Story, fold: LedgerState, logs: Logs, name: str) -> StoryOutcome:
    """Read the outcome from the ledger, which has only offsets: a process is an end of its changelog, and a channel
    leads from the position of its receiver to the white end of its sender."""
    view = fold.snapshots[fold.latest_of[name]]
    reports = {fold.processes[process].hello.app: report for process, (_, report) in view.reports.items()}
    cut = [process for process in story.processes if process in reports]

    def events(process: str) -> tuple[str, ...]:
        (end,) = (end.end for end in reports[process].changelogs)
        return tuple(entry.what for entry in logs[changelog_of(process)][:end])

    def messages(channel: StoryChannel) -> tuple[str, ...]:
        tp = topic_of(channel)
        (start,) = (p.offset for p in reports[channel.receiver].positions if p.topic == tp.topic)
        ends = (sent.white_end for sent in reports[channel.sender].sent if sent.topic == tp.topic)
        return tuple(entry.what for entry in logs[tp][start : max(ends, default=0)] if entry.marker is None)

    reached = _reached(story, cut)
    return StoryOutcome(
        id=name,
        complete=view.captured_at is not None,
        processes={process: events(process) for process in cut},
        channels={c: messages(c) for c in story.channels if c.sender in cut and c.receiver in cut},
        unreached=tuple(p for p in story.processes if p not in reached),
        under_way=tuple(p for p in story.processes if p in reached and p not in cut),
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
