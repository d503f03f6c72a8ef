"""The records of the ledger: what processes tell each other, and nothing else is ever agreed upon.

The ledger is a topic with one partition, so its order is *the* order (R11). An epoch is the ledger offset of a
`Trigger` + 1; a process id is the ledger offset of a `Hello`. Every record carries `(process, n)`: `process` is its
author (`NOBODY` for a `Hello`, whose author has no id yet, and for tools that are no process), `n` counts per author
(a random number of 63 bits where the author is `NOBODY`), and a repeat of the pair is dropped by every reader.

Fields added later have defaults, so that two neighbouring releases can share a ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

__all__ = [
    "NOBODY",
    "Abort",
    "Assigned",
    "Bye",
    "ChangelogEnd",
    "ChannelRange",
    "CheckResult",
    "Closed",
    "CutReport",
    "Dead",
    "Heard",
    "Hello",
    "InputTopic",
    "LedgerRecord",
    "LogEnd",
    "Position",
    "Retire",
    "Running",
    "SentEnd",
    "Table",
    "TopicPartition",
    "Trigger",
    "Verdict",
]

#: The author of a record that no process wrote.
NOBODY: Final = -1

#: How a process learnt of the snapshot that it cut for; `trigger` is the process that asked for it itself.
Heard = Literal["trigger", "ledger", "marker", "header", "assigned"]


class TopicPartition(NamedTuple):
    """A Kafka partition: the place where a channel lies."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTopic:
    """A topic that an app consumes. `topic_id` is Kafka's own (hex; empty: unknown): it tells a recreated topic."""

    topic: str
    partitions: int
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of an app and the changelog that it is the fold of. Codecs are Faust's names ("json", "raw", ...)."""

    name: str
    changelog: str
    partitions: int
    key_codec: str = "json"
    value_codec: str = "json"
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where `agent` stands in an input: `offset` is the first offset not started; `started_above` lists those beyond
    it that have been started all the same (agents with concurrency)."""

    agent: str
    topic: str
    partition: int
    offset: int
    started_above: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An event that was running at the cut: white, and its effects still to come are white."""

    agent: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEnd:
    """What a process sent to one partition before it closed an epoch.

    `white_end`: one past its last white record there. `last_seq`: the `seq` of that record (-1: none).
    `marker`: offset of its marker, -1 where none may be sent (readers that do not know markers).
    """

    topic: str
    partition: int
    white_end: int
    last_seq: int
    marker: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogEnd:
    """The state of one table partition at the cut is the fold of the white records below `end`."""

    table: str
    topic: str
    partition: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of a partition's log (next offset to be written), as seen by the author of the record."""

    topic: str
    partition: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRange:
    """Channel state as the receiver recorded it when the sender's marker reached it: offsets `[start, end)`.

    A second witness: assembly derives the same range from the sender's `white_end` and compares (V4).
    """

    sender: int
    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check as it was run: `status` is "passed", "failed" or "unverifiable"; `found` counts the witnesses."""

    name: str
    status: str
    found: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A process joins. Its id is the ledger offset of this record (R11)."""

    process: int = NOBODY
    n: int
    app: str
    host: str = ""
    pid: int = 0
    member: str = ""
    release: str = ""
    inputs: tuple[InputTopic, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A process was given these inputs, all it has now; it reads the ledger up to here before running them (R9)."""

    process: int
    n: int
    generation: int
    inputs: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Asks for a snapshot. Its ledger offset + 1 is the epoch (R1).

    `apps`: those in scope, empty = all. `ends`: log ends of the inputs just before, no red record lies below them;
    empty where the author may not read them. `marker_topics`: topics whose every consumer group knows markers.
    `ttl_ms`: not captured within that time, it is aborted by whoever notices.
    """

    process: int = NOBODY
    n: int
    id: str
    attempt: int = 1
    type: str = "full"
    parent: str = ""
    storage: str = ""
    who: str = ""
    ttl_ms: int = 5000
    apps: tuple[str, ...] = ()
    ends: tuple[LogEnd, ...] = ()
    marker_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CutReport:
    """A process turned red for `epoch` (from `previous`); these are its positions at that instant (R3).

    `assigned` is the ledger offset of the `Assigned` it was made under (-1: no inputs yet); if that is no longer the
    latest for every input named, the report is void (R9).
    """

    process: int
    n: int
    epoch: int
    previous: int
    heard: Heard
    assigned: int
    positions: tuple[Position, ...]
    running: tuple[Running, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """All that was white in this process is in the log: the report at ledger offset `report` now counts (R4, R7)."""

    process: int
    n: int
    epoch: int
    report: int
    sent: tuple[SentEnd, ...] = ()
    changelogs: tuple[ChangelogEnd, ...] = ()
    input_ends: tuple[LogEnd, ...] = ()
    recorded: tuple[ChannelRange, ...] = ()
    cut_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """The snapshot of `epoch` failed: a stable code, a sentence, and who held it up (process, agent, partition)."""

    process: int = NOBODY
    n: int
    epoch: int
    code: str
    reason: str
    culprit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """Process `dead` is not waited for any more (R12)."""

    process: int = NOBODY
    n: int
    dead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    """A process leaves of its own accord; all that it sent is acknowledged."""

    process: int
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """App `app` is gone for good: its inputs are expected no more (R10)."""

    process: int = NOBODY
    n: int
    app: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What verification found, with the checks that were really run (R13)."""

    process: int = NOBODY
    n: int
    epoch: int
    verdict: str
    checks: tuple[CheckResult, ...] = ()
    manifest: str = ""
    digest: str = ""


LedgerRecord = Hello | Assigned | Trigger | CutReport | Closed | Abort | Dead | Bye | Retire | Verdict
