"""The checks with a sentence each; kinds of findings: the check of each, its weight, sentence, causes and remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Weight(StrEnum):
    """The effect of a finding on its check."""

    FAILS = "fails"
    UNVERIFIABLE = "unverifiable"
    NOTE = "note"


class Kind(NamedTuple):
    """A rule that a record can break: its check, weight, sentence of its witnesses, cause and remedy."""

    check: str
    weight: Weight
    says: str
    cause: str
    do: str


#: Each check: its name, and what it proves from the log. docs/explanation/verification.md has the same table.
CHECKS: Final[Mapping[str, tuple[str, str]]] = {
    "V1": (
        "colour",
        "per sender and partition, white numbers have no gap, rise with the offsets, and end where the sender reported",
    ),
    "V2": ("receipt", "no receiver had received a red record: none lies below its position"),
    "V3": (
        "state",
        (
            "compaction has removed nothing from the changelogs that the cut needs; an incremental snapshot begins "
            "where its parent ended"
        ),
    ),
    "V4": ("channels", "everything that was in flight is in the log and in the tables"),
    "V5": ("cause", "no event after the cut has a white effect, and no event before it has a red one"),
    "V6": ("invariants", "each of your SQL files finds no violating row in the tables"),
}

_LOSS: Final = "see why the broker lost them; take another snapshot"
_SOONER: Final = "assemble sooner; keep records longer (`doctor`); take another snapshot"
_BUG: Final = "report it, unless headers were forged"


def _of_each(kind: str, checks: Iterable[str], *texts: str) -> dict[str, Kind]:
    """Return a kind that leaves several checks open, for each of them."""
    return {f"{kind}-{check}": Kind(check, Weight.UNVERIFIABLE, *texts) for check in checks}


#: Every kind of finding of V1 to V5.
KINDS: Final[Mapping[str, Kind]] = {
    "white-after-end": Kind(
        "V1",
        Weight.FAILS,
        "white record of process {process} (seq {seq}), though its white records here end at offset {a}",
        "a record with a new number was sent white after the sender had closed",
        _BUG,
    ),
    "disorder": Kind(
        "V1",
        Weight.FAILS,
        "record of process {process} has seq {seq}, after a record of it with seq {a}",
        "numbers of one sender do not rise with the offsets",
        _BUG,
    ),
    "gap": Kind(
        "V1",
        Weight.FAILS,
        "of process {process}, seq {a} to {b} are missing before this record, and no missing offset explains it",
        "a record was lost or deleted while its offset was not",
        _LOSS,
    ),
    "white-unsettled": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "process {process} got no result for this send (seq {seq}): past the white end {a}, it counts as not sent",
        "a send timed out and landed late",
        "take another snapshot",
    ),
    "disorder-left": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "record of process {process}, which has left, has seq {seq}, after one with seq {a}: a late send, or a copy",
        "a late send, or a copy, of a process that has left",
        "nothing",
    ),
    "gap-explained": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "of process {process}, seq {a} to {b} are missing before this record; offsets are missing there too "
        "(compaction, or an aborted transaction)",
        "compaction, or an aborted transaction; of a changelog only where another app has still to read it",
        _SOONER,
    ),
    "gap-failed": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "of process {process}, seq {a} to {b} are missing before this record; some of them were not acknowledged",
        "sends that were refused, or have no result",
        "as for `send-failed`",
    ),
    "send-failed": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "process {process} reports that its sends with seq {a} to {b} were refused, or that their result is unknown, "
        "and no record that was read below this offset has them: they may be lost, or lie before what was read",
        "a record was too large, its topic invalid, or its result unknown; of a changelog, until its process ends",
        "read the producer's errors; restart that worker, or write the key again and restart it later",
    ),
    "gap-left": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "of process {process}, which left before the snapshot, seq {a} to {b} are missing before this record",
        "records of a process that has left were removed or lost",
        "take another snapshot",
    ),
    "left-late": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "process {process} was declared dead before the snapshot; its record (seq {seq}) lies past the end then ({a})",
        "a process that was taken for dead went on sending; or who triggered the snapshot may not describe the topic",
        "see why it paused for so long; grant DESCRIBE on the topic to who triggers",
    ),
    "duplicate": Kind(
        "V1",
        Weight.NOTE,
        "record of process {process} with seq {seq} is in the log a second time (a producer's retry, or a copy)",
        "a producer's retry",
        "nothing",
    ),
    "copy": Kind(
        "V1",
        Weight.NOTE,
        "copy of a record that process {process} had sent before (seq {seq}): queued again with its headers",
        "a retry tool wrote a record again with all its headers; it counts as external",
        "let the tool remove `_sk`",
    ),
    "landed": Kind(
        "V1",
        Weight.NOTE,
        "process {process} got no acknowledgement for this send (seq {seq}), and it is in the log: it counts as sent",
        "a send that timed out",
        "nothing",
    ),
    "red-header": Kind(
        "V2",
        Weight.FAILS,
        "{app} received this record of process {process} (seq {seq}) before the cut, but it was sent after it: "
        "its epoch is {a}, the snapshot's {b}",
        "a receiver took in a red record before it cut",
        _BUG,
    ),
    "red-birth": Kind(
        "V2",
        Weight.FAILS,
        "{app} received this record (seq {seq}), but its sender, process {process}, joined after the trigger ({b})",
        "a receiver took in a record of a process that joined after the trigger",
        _BUG,
    ),
    "red-late": Kind(
        "V2",
        Weight.FAILS,
        "{app} received this record (seq {seq}), but what process {process} sent before the cut ends at offset {a}",
        "a receiver took in a record from past the sender's end",
        _BUG,
    ),
    "received-unsettled": Kind(
        "V2",
        Weight.UNVERIFIABLE,
        "{app} received this record (seq {seq}), which counts as not sent: process {process} got no result for it, and "
        "only such sends below offset {a} count",
        "somebody received a send that timed out",
        "take another snapshot",
    ),
    "unread": Kind(
        "V2",
        Weight.UNVERIFIABLE,
        "offsets {offset} to {a} are no longer in the log: {app} received them, and any of them may be red",
        "retention deleted records that were received before the cut",
        _SOONER,
    ),
    "never-read": Kind(
        "V2",
        Weight.NOTE,
        "{text}",
        "the log was shortened before the reader came to these records, or its loop sought past them",
        "keep records for as long as readers may lag; process these from elsewhere",
    ),
    "never-read-unclear": Kind(
        "V2",
        Weight.UNVERIFIABLE,
        "{text}",
        "a reader went on elsewhere, and cannot tell which records it passed",
        "restart it once the cause is known",
    ),
    "state-last-missing": Kind(
        "V3",
        Weight.UNVERIFIABLE,
        "the last record of this changelog from before the cut (process {process}, seq {seq}) should be here, and none "
        "from before the cut supersedes it: it was compacted past the cut, or deleted",
        "compaction past the cut, or deletion; the table may lack a change",
        _SOONER,
    ),
    "state-seam": Kind(
        "V3",
        Weight.FAILS,
        "the state of the parent ends with this record, seq {b} of process {a}; another one is here now (process "
        "{process}, seq {seq}): the log lost its end, and rows of the parent have no record",
        "the log was cut short since the parent was assembled",
        "take a full snapshot",
    ),
    "state-overtaken": Kind(
        "V3",
        Weight.UNVERIFIABLE,
        "this record was written after the cut, and no earlier value of its key is left: either it had none, or "
        "compaction removed it ({a} offsets below the cut are missing)",
        "a key that is new since the cut, or whose old value compaction took",
        _SOONER,
    ),
    "state-unproven": Kind(
        "V3",
        Weight.UNVERIFIABLE,
        "{a} offsets below the cut ({offset}) are missing, and values of the cut may be among them",
        "assembly after `delete.retention.ms`; settings or a long log that were not read; a table of sets",
        _SOONER,
    ),
    "state-unordered": Kind(
        "V3",
        Weight.UNVERIFIABLE,
        "a key of a global table was written here and in partition {a} of its changelog (offset {b}): the log does not "
        "show which of the two values its workers have",
        "the changelog of a global table has several partitions",
        "use one partition",
    ),
    "state-gone": Kind(
        "V3",
        Weight.UNVERIFIABLE,
        "the log starts at {a}: keys that were not written since are not in the tables",
        "retention, or somebody, deleted the beginning of a changelog",
        "write those keys again",
    ),
    "state-expired": Kind(
        "V3",
        Weight.NOTE,
        "the log starts at {a}: older windows had expired before the cut, and are not in the tables",
        "retention of a windowed table",
        "nothing",
    ),
    "state-split": Kind(
        "V3",
        Weight.NOTE,
        "{text}; each row holds a part of the key's value: its events come from several partitions",
        "a producer places keys otherwise than Faust (murmur2), a topic was given more partitions, or a table is keyed "
        "by something other than its events",
        "let the producer use `murmur2_random`, or put `group_by` before the table; then write those keys again",
    ),
    "gone": Kind(
        "V4",
        Weight.FAILS,
        "this offset is no longer in the log (it starts at {b}); it is in the range that was in flight to {app}, which "
        "ends at {a}",
        "retention deleted a message in flight, or it was lost",
        _SOONER,
    ),
    "gone-left": Kind(
        "V4",
        Weight.UNVERIFIABLE,
        "this offset is no longer in the log (it starts at {b}); if a process that left had sent it, it was in flight "
        "to {app}",
        "retention, of messages of a process that has left",
        _SOONER,
    ),
    "last-missing": Kind(
        "V4",
        Weight.FAILS,
        "the last record of process {process} before the cut (seq {seq}) should be here, in flight to {app}; it is not",
        "a message in flight was deleted or lost",
        _LOSS,
    ),
    "last-recreated": Kind(
        "V4",
        Weight.UNVERIFIABLE,
        "the last record of process {process} before the cut (seq {seq}) should be here, in flight to {app}; the topic "
        "was recreated since that process joined, and it has not sent there since",
        "an output was recreated while its sender ran",
        "the next snapshot after its next send is good",
    ),
    "unstamped": Kind(
        "V4",
        Weight.FAILS,
        "the last record of process {process} before the cut (seq {seq}), in flight to {app}, is here without "
        "its header: whatever removes headers also removes this message from the snapshot",
        "a transform, proxy or mirror removes headers",
        "let it pass `_sk` on; `doctor` names the topic",
    ),
    "unstamped-received": Kind(
        "V4",
        Weight.UNVERIFIABLE,
        "the last record of process {process} before the cut (seq {seq}), which {app} received or wrote, is "
        "here without its header: without headers, {app} may have received records from after the cut",
        "the same, of a record that was received",
        "as for `unstamped`",
    ),
    "recorded-differs": Kind(
        "V4",
        Weight.FAILS,
        "record of process {process} (seq {seq}) is in only one of two ranges that should be equal: the one "
        "recorded by {app} (offsets {a} to {b}), and from its position to the end of what was sent before the cut",
        "two computations of one channel differ",
        _BUG,
    ),
    "effect-of-later": Kind(
        "V5",
        Weight.FAILS,
        "record of process {process} (seq {seq}) from before the cut, caused by offset {a} of an input of "
        "{app} that is read up to {b} only",
        "an event past the cut has an effect before it",
        _BUG,
    ),
    "effect-missing": Kind(
        "V5",
        Weight.FAILS,
        "record of process {process} (seq {seq}) from after the cut, caused by offset {a} of an input of {app} that is "
        "read up to {b}: that event counts as done, but this effect of it is not in the snapshot",
        "an event before the cut has an effect past it",
        _BUG,
    ),
    "effect-of-red": Kind(
        "V5",
        Weight.FAILS,
        "record of process {process} (seq {seq}) from before the cut, caused by offset {a} of an input of "
        "{app} that is read up to {b}: the cause was sent after the cut, so the sender had read a message from "
        "after it",
        "a process that was taken for dead went on and took in a red record",
        "see why it paused for so long",
    ),
    "replayed": Kind(
        "V5",
        Weight.NOTE,
        "record of process {process} (seq {seq}) from before the cut, caused by offset {a} of an input of {app}; its "
        "present reader is at {b}, so a restore runs that event again",
        "a crash or rebalance; a restore runs the event again",
        "expect its effects outside Kafka twice",
    ),
    "ran-twice": Kind(
        "V5",
        Weight.NOTE,
        "{a} events of topic {topic} ran twice in {app} before the cut, this one in processes {process} and {b}: the "
        "snapshot holds effects of both runs",
        "a crash or rebalance before the cut (Faust is at-least-once)",
        "nothing",
    ),
    "cause-unclear": Kind(
        "V5",
        Weight.NOTE,
        "topic {topic} has the same 16-bit check value ({a}) as another input of {app}: causes that name it were not "
        "checked",
        "two topic names share 16 bits, as one pair in 65,536 does",
        "rename one to have V5",
    ),
    **_of_each(
        "crowded",
        ("V1", "V2", "V4", "V5"),
        "more than {a} records of the partition may break a rule; only those up to this one were judged",
        "a sender, or a tool, has written very many records out of turn",
        "see the first witnesses of V1; take another snapshot",
    ),
    **_of_each(
        "recreated",
        ("V1", "V2", "V3", "V4"),
        "the topic was deleted and recreated since the snapshot",
        "a topic was deleted and created again after the snapshot",
        "take another snapshot",
    ),
    **_of_each(
        "renewed",
        ("V1", "V2", "V3", "V4"),
        "the topic was recreated since process {process} of {app} joined: restart it, and write the table again where "
        "this is a changelog",
        "a topic was recreated before the snapshot",
        "restart that process; write the table again",
    ),
}


#: Kinds that are about a whole topic. They are listed first: single records must not push them out.
OF_TOPICS: Final = frozenset({"ran-twice", "cause-unclear"})

#: Kinds that the rows of `state` show (`split_keys`), not the records of the log. They stand beside every verdict.
OF_STATE: Final = frozenset({"state-split"})
