"""The parts of ledger records: places, positions, ends and ranges of offsets.

All are offsets, whatever the size of the state (design: a snapshot is a vector of offsets). Ends are exclusive.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from ._dataclass import value

#: The author of a record that no process wrote.
NOBODY: Final = -1
#: The id of a process in a ledger that is gone.
SOMEBODY: Final = -2

#: How a process learnt of the snapshot that it cut for; `trigger` is the process that asked for it itself.
Heard = Literal["trigger", "ledger", "marker", "header", "assigned"]

#: Why a process never read some records: they were deleted before it came to them, or its app sought past them.
WhyUnread = Literal["lost", "sought"]

#: How far a restore has come: it may be aborted before it is `appending`, and only finished after.
RestoreStage = Literal["begun", "appending", "done", "aborted"]


class TopicPartition(NamedTuple):
    """A Kafka partition: the place of a channel."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@value
class InputTopic:
    """A topic that an app consumes. `topic_id` is Kafka's own (hex; empty: unknown): it identifies a recreated topic.

    Codecs are Faust's names of those by which the app reads it, empty where it has several or a schema of its own.
    """

    topic: str
    partitions: int
    topic_id: str = ""
    key_codec: str = ""
    value_codec: str = ""


@value
class Table:
    """A table of an app and the changelog that it is the fold of. Codecs are Faust's names ("json", "raw", ...).

    `expires_ms`: after how long its windows expire, 0 where it has none or they never do. `sets`: its values are sets,
    so every record of the changelog counts, not only the last of a key. `windowed`: its keys are pairs of a key and a
    window. `copartitioned`: a change goes to the partition of the event that makes it, so the changelog needs as many
    partitions as the input; False also where that is unknown. `is_global`: every worker has all of it, whichever
    partitions it was assigned. `keyed`: each key belongs in one partition, that of its events; False also where that is
    unknown. `kind`: Faust's class. `key_type`, `value_type`: the models or types of keys and
    values, with their fields; empty: none is declared.
    """

    name: str
    changelog: str
    partitions: int
    key_codec: str = "json"
    value_codec: str = "json"
    topic_id: str = ""
    expires_ms: int = 0
    sets: bool = False
    windowed: bool = False
    copartitioned: bool = False
    is_global: bool = False
    keyed: bool = False
    kind: str = ""
    key_type: str = ""
    value_type: str = ""


@value
class Agent:
    """An agent of an app and the types by which it reads `topics`; none: an in-memory channel. Codecs: see
    `InputTopic`.

    `key_type`, `value_type`: see `Table`.
    """

    name: str
    topics: tuple[str, ...] = ()
    key_codec: str = ""
    value_codec: str = ""
    key_type: str = ""
    value_type: str = ""


@value
class Position:
    """The position of `agent` in an input: `offset` is the first offset not started; `started_above` lists later ones
    that were started all the same (agents with concurrency). `replay_until`: effects of earlier readers' events at
    offsets in [`offset`, `replay_until`) may be in the state already (R10); 0: none."""

    agent: str
    topic: str
    partition: int
    offset: int
    started_above: tuple[int, ...] = ()
    replay_until: int = 0


@value
class AgentPosition:
    """The start of `agent` of `app` in an input after a restore: it takes the records at `offset` and above, except
    those in `started_above`. Offsets are those of the log as the restore left it."""

    app: str
    agent: str
    topic: str
    partition: int
    offset: int
    started_above: tuple[int, ...] = ()


@value
class TopicId:
    """A topic and Kafka's own id of it, 32 hex digits: it identifies a recreated topic."""

    topic: str
    topic_id: str


@value
class Running:
    """An event that was running at the cut: it is white, and so are its effects still to come."""

    agent: str
    topic: str
    partition: int
    offset: int


@value
class TornEvent:
    """An event of colour `was` that took in work of epoch `met`, and continued in that colour (R6).

    For every snapshot with an epoch in (`was`, `met`] its input counts as not processed, although its earlier effects
    are white: a restore runs it again. `table`: where it met the red work, empty for a reply.
    """

    agent: str
    topic: str
    partition: int
    offset: int
    was: int
    met: int
    table: str = ""


@value
class Skipped:
    """Offsets `[start, end)` of an input that the process passed without reading them (R3); -1: it cannot tell which.
    They are below its position all the same."""

    topic: str
    partition: int
    start: int
    end: int
    reason: WhyUnread


@value
class SeqRange:
    """Seqs `first` to `last`, both included, of sends that were never acknowledged to their sender.

    `refused`: the broker or the client refused them, so none of them was appended. False: the outcome is unknown (a
    time-out, a lost connection), so each of them may be in the log, or still get there. `undone`: nothing is lost,
    because their content is elsewhere or their cause was undone as well: their transaction was aborted, positions
    included, or the record left unstamped.
    """

    first: int
    last: int
    refused: bool = False
    undone: bool = False


@value
class SentEnd:
    """The records that a process sent to one partition in white.

    `white_end`: one past its last acknowledged white record there. `last_seq`: the `seq` of that record (-1: none).
    `marker`: offset of its marker, -1 where none may be sent (readers that do not know markers).

    `unacknowledged`: the seqs that were issued and never acknowledged, in order. The number of ranges is limited: seqs
    between two ranges may be counted to both. `earlier_seq`, `earlier_end`: every record up to this seq was appended
    below this offset, as the process knew at an earlier cut (-1, 0: it knew of none).

    `recreated`: an acknowledgement since the cut before showed that the topic was recreated: a later record lay below
    an earlier one. All ends belong to the present topic.
    """

    topic: str
    partition: int
    white_end: int
    last_seq: int
    marker: int = -1
    unacknowledged: tuple[SeqRange, ...] = ()
    earlier_seq: int = -1
    earlier_end: int = 0
    recreated: bool = False

    @property
    def landed_end(self) -> int:
        """Where records of unknown outcome end: they count as sent below the marker. 0: there are none."""
        return max(self.marker, 0) if any(not item.refused for item in self.unacknowledged) else 0


@value
class ChangelogEnd:
    """The state of one table partition at the cut is the fold of the white records below `end`."""

    table: str
    topic: str
    partition: int
    end: int


@value
class LogEnd:
    """The end of a partition's log (next offset to be written), as seen by the author of the record."""

    topic: str
    partition: int
    end: int


@value
class StoppedApp:
    """An app that did not run when a snapshot was requested (R10): what its group has committed, and the ends of its
    changelogs. It stands still, so this is its cut."""

    app: str
    positions: tuple[Position, ...] = ()
    changelogs: tuple[ChangelogEnd, ...] = ()


@value
class AppSends:
    """The topics to which an app sends, of those that apps in scope read."""

    app: str
    topics: tuple[str, ...]


@value
class RunsWithout:
    """An app that joined once and ran beside a snapshot with more members in its group than processes that take part.

    `topics`: the topics that its group reads; empty: unknown.
    """

    app: str
    topics: tuple[str, ...] = ()


@value
class Retention:
    """The settings of a changelog when a process joined, in milliseconds.

    `uncompacted_ms`: younger records are not compacted (min.compaction.lag.ms). `tombstones_ms`: how long a deletion
    stays (delete.retention.ms). `retained_ms`: older records may be deleted; -1: none ever is for its age.
    """

    topic: str
    uncompacted_ms: int
    tombstones_ms: int
    retained_ms: int


@value
class ChannelRange:
    """Channel state as the receiver recorded it when the sender's marker reached it: offsets `[start, end)`.

    A second witness: assembly derives the same range from the sender's `white_end` and compares (V4).
    """

    sender: int
    topic: str
    partition: int
    start: int
    end: int


@value
class CheckResult:
    """One check as it was run: `status` is "passed", "failed" or "unverifiable"; `found` counts the witnesses.

    `records`: how many records it has read; -1: unknown. `remarks`: what stands beside every verdict.
    """

    name: str
    status: str
    found: int = 0
    records: int = -1
    remarks: tuple[str, ...] = ()
