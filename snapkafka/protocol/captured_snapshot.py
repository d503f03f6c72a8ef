"""A captured snapshot: the whole global state as a vector of offsets, and nothing copied.

The records of one epoch, gathered into one value once every required process has reported (R11). Assembly turns it into
tables, verification proves it from the log; both need nothing else but the broker.
"""

from __future__ import annotations

from typing import Final

from ._dataclass import value
from .records import (
    NOBODY,
    Agent,
    ChannelRange,
    Heard,
    Position,
    Retention,
    Running,
    RunsWithout,
    SentEnd,
    Skipped,
    Table,
    TornEvent,
    WhyUnread,
)
from .snapshots import Unread

#: Why records were never read, in words.
WHY_UNREAD: Final[dict[WhyUnread, str]] = {
    "lost": "lost before they were read",
    "sought": "skipped by the loop",
}


@value
class Outcome:
    """The result of an alignment (R16): `aligned`, no message between its processes was in flight. Otherwise `why`."""

    aligned: bool
    why: str = ""


@value
class ProcessCut:
    """One process of the snapshot: its identity, the source from which it learned of the snapshot, and the events that
    ran at its cut.

    `left`: it sent `Bye` or was `Dead` before the trigger, so it did not cut; what it sent counts as white
    up to the log ends before the trigger (R8). `report`: its ledger offset (-1 where it left). `cut_us`:
    duration of the cut itself, microseconds. `torn`: its events that continued in red (R6), also of inputs that
    another process reads by now. `formerly`: the id that it had until it was declared dead (-1: none).
    """

    process: int
    app: str
    host: str = ""
    pid: int = 0
    left: bool = False
    previous: int = 0
    heard: Heard | None = None
    report: int = -1
    cut_us: int = 0
    running: tuple[Running, ...] = ()
    torn: tuple[TornEvent, ...] = ()
    formerly: int = NOBODY


@value
class InputCut:
    """One input (app, topic-partition) and the position of its reader.

    `position`: the least of the agents' positions, the first unprocessed offset. `noted`: the position at the cut;
    `position` is lower if an event was torn later (R6), as `agents` then has that event as not started, and those
    above it as started. `low`: reading may start here: no red record lies below it (R1). `log_end`: the end of the log
    just before the trigger, or of what was started at the cut, if that is higher (R8); only the latter, if the end was
    not `end_known`, as the author of the trigger may not read it. `receiver`: the process that cut it; -1: its app did
    not run. `torn`: events that were started and count as not processed all the same (R6). `earlier`: its earlier
    readers, by any id, -1 for forgotten ones: their effects past the position are replays. `steady`: the receiver was
    assigned no inputs after it cut this one, so the events that it runs below the position had started by then.
    Codecs: see `records.InputTopic`.
    """

    app: str
    topic: str
    topic_id: str
    partition: int
    position: int
    noted: int
    low: int
    log_end: int
    receiver: int
    agents: tuple[Position, ...] = ()
    torn: tuple[TornEvent, ...] = ()
    earlier: tuple[int, ...] = ()
    steady: bool = False
    end_known: bool = True
    key_codec: str = ""
    value_codec: str = ""


@value
class SenderEnd(SentEnd):
    """The end of one living sender's white records in one partition (changelogs too)."""

    process: int
    landed_end: int = 0


@value
class ChangelogCut:
    """The state of one table partition: the fold of the white records of `topic`[`partition`] below `end`.

    `expires_ms`, `sets`, `windowed`, `is_global`, `keyed`: see `records.Table`.
    """

    app: str
    table: str
    topic: str
    topic_id: str
    partition: int
    end: int
    process: int
    key_codec: str = "json"
    value_codec: str = "json"
    expires_ms: int = 0
    sets: bool = False
    windowed: bool = False
    is_global: bool = False
    keyed: bool = False


@value
class Recorded(ChannelRange):
    """A channel as its receiver, an app of that name, recorded it."""

    app: str


@value
class Uncaptured:
    """State of an app that no snapshot holds, as its processes report it, in a sentence."""

    app: str
    what: str


@value
class NeverRead(Skipped):
    """Records of an input that a process of the app passed without reading them."""

    app: str
    process: int

    @property
    def records(self) -> int:
        """How many they are, at least."""
        return max(1, self.end - self.start)

    def __str__(self) -> str:
        which = (
            f"records {self.start} to {self.end - 1}" if self.start >= 0 else "some records, unknown which,"
        )
        return f"{which} of {self.topic}[{self.partition}] were never read by {self.app}: {WHY_UNREAD[self.reason]}"


@value
class Code:
    """The fingerprint of an app's code: its agents and tables, and the types that they read, as its latest process of
    the snapshot announced them. A restore compares it with the code that would run."""

    app: str
    agents: tuple[Agent, ...] = ()
    tables: tuple[Table, ...] = ()


@value
class Outsider:
    """A process that had joined by the trigger and is not part of the snapshot: its app is out of scope.

    `cut`: it turned red for the snapshot before it took in anything red, as the ledger shows. `left`: it had left in
    order before the trigger. The colour of the records of any other one is unknown. `taken`: the snapshot's processes
    have taken in replies or changes of a global table from it.
    """

    process: int
    app: str
    cut: bool = False
    left: bool = False
    taken: bool = False

    @property
    def harmless(self) -> bool:
        """Whether its records with an epoch before the snapshot's are known to be white."""
        return self.cut or self.left


@value
class BaseCut:
    """The base of the latest restore before the snapshot in a partition: `end`, for processes of `apps` from `author`
    on. Records of earlier processes at or above it are void (see `restores`)."""

    topic: str
    partition: int
    end: int
    author: int
    plan: str
    apps: tuple[str, ...] = ()


@value
class OldTopic:
    """A topic that `process` knew, or may have sent to, before it was recreated: offsets that it names may belong to
    the old one."""

    process: int
    topic: str


@value
class Captured:
    """A captured snapshot. `epoch` - 1 is the ledger offset of its trigger. `contaminated`: why it cannot be proved.
    `retention`: the settings of changelogs before the trigger, as its processes saw them last. `unread`: topics to
    which apps in scope subscribe and that no process had: records that wait there are in no channel. `sources`: topics
    whose external records are no effects of its apps, as these declare. `uncaptured`: state of its apps that it does
    not hold. `bases`: of the restores before it. `code`: of each app.
    `outsiders`: processes that are not part of it. `run_without`: see `records.Trigger`. `old_topics`: those that a
    process knew before they were recreated. `alignment`: of an aligned snapshot (R16), the result. `never_read`:
    records below positions that nobody read."""

    id: str
    attempt: int
    epoch: int
    type: str
    parent: str
    storage: str
    processes: tuple[ProcessCut, ...]
    inputs: tuple[InputCut, ...]
    senders: tuple[SenderEnd, ...]
    changelogs: tuple[ChangelogCut, ...]
    recorded: tuple[Recorded, ...] = ()
    contaminated: str = ""
    retention: tuple[Retention, ...] = ()
    unread: tuple[Unread, ...] = ()
    sources: tuple[str, ...] = ()
    uncaptured: tuple[Uncaptured, ...] = ()
    bases: tuple[BaseCut, ...] = ()
    code: tuple[Code, ...] = ()
    outsiders: tuple[Outsider, ...] = ()
    run_without: tuple[RunsWithout, ...] = ()
    old_topics: tuple[OldTopic, ...] = ()
    alignment: Outcome | None = None
    never_read: tuple[NeverRead, ...] = ()

    @property
    def replays(self) -> int:
        """The number of events that a restore runs again although some of their effects are in the state: torn events,
        and inputs whose readers were replaying (each of these counts once)."""
        replaying = (p for source in self.inputs for p in source.agents if p.replay_until > p.offset)
        return sum(len(cut.torn) for cut in self.processes) + sum(1 for _ in replaying)
