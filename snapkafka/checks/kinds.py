"""The checks with a sentence each; kinds of findings: the check of each, its weight, and its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Weight(StrEnum):
    """The effect of a finding on its check."""

    FAILS = "fails"
    UNVERIFIABLE = "unverifiable"
    NOTE = "note"


class Kind(NamedTuple):
    """A rule that a record can break: its check, its weight, and the sentence of its witnesses."""

    check: str
    weight: Weight
    says: str


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

#: Every kind of finding of V1 to V5. docs/reference/findings.md explains each.
KINDS: Final[Mapping[str, Kind]] = {
    "white-after-end": Kind(
        "V1",
        Weight.FAILS,
        "white record of process {process} (seq {seq}), though its white records here end at offset {a}",
    ),
    "disorder": Kind(
        "V1", Weight.FAILS, "record of process {process} has seq {seq}, after a record of it with seq {a}"
    ),
    "gap": Kind(
        "V1",
        Weight.FAILS,
        "of process {process}, seq {a} to {b} are missing before this record, and no missing offset explains it",
    ),
    "white-unsettled": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "process {process} got no result for this send (seq {seq}), and it landed past offset {a}, where its white "
        "records here end: it counts as not sent",
    ),
    "disorder-left": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "record of process {process}, which left before the snapshot, has seq {seq}, after a record of it with seq "
        "{a}: a send that timed out, or a copy",
    ),
    "gap-explained": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "of process {process}, seq {a} to {b} are missing before this record; offsets are missing there too "
        "(compaction, or an aborted transaction)",
    ),
    "gap-failed": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "of process {process}, seq {a} to {b} are missing before this record; it reports sends among them that were "
        "not acknowledged",
    ),
    "send-failed": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "process {process} reports that its sends with seq {a} to {b} were refused, or that their result is unknown, "
        "and no record that was read below this offset has them: they may be lost, or lie before what was read",
    ),
    "gap-left": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "of process {process}, which left before the snapshot, seq {a} to {b} are missing before this record",
    ),
    "left-late": Kind(
        "V1",
        Weight.UNVERIFIABLE,
        "record of process {process} (seq {seq}), declared dead before the snapshot, that came after the end "
        "that was seen here (offset {a})",
    ),
    "duplicate": Kind(
        "V1",
        Weight.NOTE,
        "record of process {process} with seq {seq} is in the log a second time (a producer's retry, or a copy)",
    ),
    "copy": Kind(
        "V1",
        Weight.NOTE,
        "copy of a record that process {process} had sent before (seq {seq}): queued again with its headers",
    ),
    "landed": Kind(
        "V1",
        Weight.NOTE,
        "process {process} got no acknowledgement for this send (seq {seq}), and it is in the log: it counts as sent",
    ),
    "red-header": Kind(
        "V2",
        Weight.FAILS,
        "{app} has received this record of process {process} (seq {seq}), and it is red: its epoch is {a}, the "
        "snapshot's {b}",
    ),
    "red-birth": Kind(
        "V2",
        Weight.FAILS,
        "{app} has received this record of process {process} (seq {seq}), and it is red: its sender joined after "
        "the snapshot was triggered (epoch {b})",
    ),
    "red-late": Kind(
        "V2",
        Weight.FAILS,
        "{app} has received this record of process {process} (seq {seq}), and it counts as red: what that process "
        "sent in white ends at offset {a}",
    ),
    "received-unsettled": Kind(
        "V2",
        Weight.UNVERIFIABLE,
        "{app} has received this record (seq {seq}), which counts as not sent: process {process} got no result for it, "
        "and what counts of such sends ends at offset {a}",
    ),
    "unread": Kind(
        "V2",
        Weight.UNVERIFIABLE,
        "offsets {offset} to {a}, which {app} has received, are no longer in the log: it is unknown whether "
        "one of them was red",
    ),
    "state-last-missing": Kind(
        "V3",
        Weight.UNVERIFIABLE,
        "the last white record of this changelog (process {process}, seq {seq}) should be here, and nothing white "
        "supersedes it: it was compacted past the cut, or deleted",
    ),
    "state-seam": Kind(
        "V3",
        Weight.FAILS,
        "the state of the parent ends with this record, seq {b} of process {a}; another one stands here now (process "
        "{process}, seq {seq}): the log was cut short and written on since, and rows of the parent are of no record",
    ),
    "state-overtaken": Kind(
        "V3",
        Weight.UNVERIFIABLE,
        "this record was written after the cut, and no white value of its key is left: either it had none, or "
        "compaction has taken it ({a} offsets below the cut are missing)",
    ),
    "state-unproven": Kind(
        "V3",
        Weight.UNVERIFIABLE,
        "{a} offsets below the cut ({offset}) are missing, and nothing shows that what took them stopped short of it",
    ),
    "state-unordered": Kind(
        "V3",
        Weight.UNVERIFIABLE,
        "a key of a global table was written here and in partition {a} of its changelog (offset {b}): the log has no "
        "order of the two, so which value its workers have it does not show",
    ),
    "state-gone": Kind(
        "V3",
        Weight.UNVERIFIABLE,
        "the log starts at {a}: of keys that were not written since, the tables hold nothing",
    ),
    "state-expired": Kind(
        "V3",
        Weight.NOTE,
        "the log starts at {a}: older windows had expired before the cut, and are not in the tables",
    ),
    "state-split": Kind(
        "V3",
        Weight.NOTE,
        "{text}; each row holds a part of the key's value: its events come from several partitions",
    ),
    "gone": Kind(
        "V4",
        Weight.FAILS,
        "this offset is no longer in the log (it starts at {b}); it lies in the range that was in flight to {app}, "
        "which ends at {a}",
    ),
    "gone-left": Kind(
        "V4",
        Weight.UNVERIFIABLE,
        "this offset is no longer in the log (it starts at {b}); if a process that left had sent it, it was in flight "
        "to {app}",
    ),
    "last-missing": Kind(
        "V4",
        Weight.FAILS,
        "the last white record of process {process} (seq {seq}) should be here, in flight to {app}; it is not",
    ),
    "last-recreated": Kind(
        "V4",
        Weight.UNVERIFIABLE,
        "the last white record of process {process} (seq {seq}) should be here, in flight to {app}; the topic was "
        "recreated since that process joined, and it has not sent there since",
    ),
    "unstamped": Kind(
        "V4",
        Weight.FAILS,
        "the last white record of process {process} (seq {seq}), in flight to {app}, is here without its header: what "
        "removes headers on the way takes the message from the snapshot",
    ),
    "unstamped-received": Kind(
        "V4",
        Weight.UNVERIFIABLE,
        "the last white record of process {process} (seq {seq}), which {app} has received or written, is here without "
        "its header: something removes headers on the way, and nothing shows whether {app} has received red records",
    ),
    "incomplete": Kind(
        "V4",
        Weight.FAILS,
        "in flight to {app}, seq {a} to {b} of process {process} are missing before this record",
    ),
    "hole": Kind(
        "V4",
        Weight.UNVERIFIABLE,
        "in flight to {app}, seq {a} to {b} of process {process} are missing from this offset on; offsets are missing "
        "there too (compaction, or an aborted transaction)",
    ),
    "recorded-differs": Kind(
        "V4",
        Weight.FAILS,
        "white record of process {process} (seq {seq}) lies in only one of two ranges that should hold the same: the "
        "one recorded by {app} (offsets {a} to {b}) and the one from its position to the sender's white end",
    ),
    "effect-of-later": Kind(
        "V5",
        Weight.FAILS,
        "white record of process {process} (seq {seq}), caused by offset {a} of an input of {app} that stands at {b}",
    ),
    "effect-missing": Kind(
        "V5",
        Weight.FAILS,
        "red record of process {process} (seq {seq}), caused by offset {a} of an input of {app} that stands at {b}: "
        "that event counts as done, and this effect of it is not in the snapshot",
    ),
    "effect-of-red": Kind(
        "V5",
        Weight.FAILS,
        "white record of process {process} (seq {seq}), caused by offset {a} of an input of {app} that stands at {b}: "
        "that record is red, so its sender had taken in a message from behind the cut",
    ),
    "replayed": Kind(
        "V5",
        Weight.NOTE,
        "white record of process {process} (seq {seq}), caused by offset {a} of an input of {app}; its present reader "
        "stands at {b}, so a restore runs that event again",
    ),
    "ran-twice": Kind(
        "V5",
        Weight.NOTE,
        "{a} events of topic {topic} ran twice in {app} before the cut, this one in processes {process} and {b}: the "
        "snapshot holds effects of both runs",
    ),
    "cause-unclear": Kind(
        "V5",
        Weight.NOTE,
        "topic {topic} has the same 16-bit check value ({a}) as another input of {app}: causes that name it were not "
        "looked at",
    ),
    **{
        f"recreated-{check}": Kind(
            check, Weight.UNVERIFIABLE, "the topic is not the one of the snapshot: deleted and recreated"
        )
        for check in ("V1", "V2", "V3", "V4")
    },
    **{
        f"renewed-{check}": Kind(
            check,
            Weight.UNVERIFIABLE,
            "the topic was recreated since process {process} of {app} joined: restart it, and write the table again "
            "where this is a changelog",
        )
        for check in ("V1", "V2", "V3", "V4")
    },
}


#: Kinds that are about a whole topic. They are listed first: single records must not push them out.
OF_TOPICS: Final = frozenset({"ran-twice", "cause-unclear"})

#: Kinds that the rows of `state` show (`split_keys`), not the records of the log. They stand beside every verdict.
OF_STATE: Final = frozenset({"state-split"})
