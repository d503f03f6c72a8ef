"""The checks with a sentence each; kinds of findings: the check of each, its weight, its sentence, cause and remedy."""

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
    """A rule that a record can break: its check, weight, sentence of its witnesses, and its cause and remedy."""

    check: str
    weight: Weight
    says: str
    why: str


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

#: Every kind by check and weight, with its sentence, its cause and what to do.
_OF: Final[Mapping[tuple[str, Weight], Mapping[str, tuple[str, str]]]] = {
    ("V1", Weight.FAILS): {
        "white-after-end": (
            "white record of process {process} (seq {seq}), though its white records here end at offset {a}",
            "a record with a new number was sent white after the sender had reported; report it",
        ),
        "disorder": (
            "record of process {process} has seq {seq}, after a record of it with seq {a}",
            "numbers of one sender do not rise with the offsets; report it",
        ),
        "gap": (
            "of process {process}, seq {a} to {b} are missing before this record, and no missing offset explains it",
            "a record was lost or deleted while its offset was not: see why the broker lost it; take another snapshot",
        ),
    },
    ("V1", Weight.UNVERIFIABLE): {
        "white-unsettled": (
            "process {process} got no result for this send (seq {seq}); past the white end {a} it counts as not sent",
            "a send timed out and landed late: take another snapshot",
        ),
        "disorder-left": (
            "record of process {process}, which has left, has seq {seq}, after one with seq {a}",
            "a late send, or a copy, of a process that has left",
        ),
        "gap-explained": (
            "of process {process}, seq {a} to {b} are missing before this record, and so are offsets",
            "compaction, of a changelog that another app has to read, or an aborted transaction; assemble sooner",
        ),
        "gap-failed": (
            "of process {process}, seq {a} to {b} are missing before this record; some were not acknowledged",
            "as for `send-failed`",
        ),
        "send-failed": (
            "process {process} got no acknowledgement for seq {a} to {b}, and none of them was read below this offset",
            "a record was refused, or its result is unknown: read the producer's errors; write the key again, restart",
        ),
        "gap-left": (
            "of process {process}, which left before the snapshot, seq {a} to {b} are missing before this record",
            "records of a process that has left were removed or lost: take another snapshot",
        ),
        "left-late": (
            "record (seq {seq}) of process {process}, which was declared dead before, past the log's end then ({a})",
            "it paused for long and went on sending, or who triggered lacks DESCRIBE on the topic: grant it",
        ),
    },
    ("V1", Weight.NOTE): {
        "duplicate": (
            "record of process {process} with seq {seq} is in the log a second time",
            "a producer's retry, or a copy",
        ),
        "copy": (
            "copy of a record that process {process} had sent before (seq {seq}): queued again with its headers",
            "a retry tool wrote it again with all its headers; it counts as external: let the tool remove `_sk`",
        ),
        "landed": (
            "process {process} got no acknowledgement for this send (seq {seq}), which is here: it counts as sent",
            "a send that timed out",
        ),
    },
    ("V2", Weight.FAILS): {
        "red-header": (
            "{app} received this record of process {process} (seq {seq}) before the cut; its epoch is {a}, of {b}",
            "a receiver took in a red record before it cut; report it",
        ),
        "red-birth": (
            "{app} received this record (seq {seq}), but its sender, process {process}, joined after the trigger ({b})",
            "a receiver took in a record of a process that joined after the trigger; report it",
        ),
        "red-late": (
            "{app} received this record (seq {seq}), but what process {process} sent before the cut ends at offset {a}",
            "a receiver took in a record from past the sender's end; report it",
        ),
    },
    ("V2", Weight.UNVERIFIABLE): {
        "received-unsettled": (
            "{app} received this record (seq {seq}) of process {process}, which counts as not sent from offset {a} on",
            "somebody received a send that timed out: take another snapshot",
        ),
        "unread": (
            "offsets {offset} to {a} are no longer in the log: {app} received them, and any of them may be red",
            "retention deleted records that were received before the cut; assemble sooner",
        ),
        "never-read-unclear": (
            "{text}",
            "a reader went on elsewhere, and cannot tell which records it passed: restart it once the cause is known",
        ),
    },
    ("V2", Weight.NOTE): {
        "never-read": (
            "{text}",
            "the log was shortened before its reader came there, or its loop sought: process these from elsewhere",
        ),
    },
    ("V3", Weight.FAILS): {
        "state-seam": (
            "the parent's state ends here with seq {b} of process {a}; now process {process}, seq {seq}, is here",
            "the log lost its end since the parent was assembled: take a full snapshot",
        ),
    },
    ("V3", Weight.UNVERIFIABLE): {
        "state-last-missing": (
            "the last record from before the cut (process {process}, seq {seq}) is missing, and nothing supersedes it",
            "compaction past the cut, or deletion; the table may lack a change; assemble sooner",
        ),
        "state-overtaken": (
            "written after the cut, and no earlier value of its key is left; {a} offsets below the cut are missing",
            "a key that is new since the cut, or whose old value compaction took; assemble sooner",
        ),
        "state-unproven": (
            "{a} offsets below the cut ({offset}) are missing, and values of the cut may be among them",
            "assembly after `delete.retention.ms`, settings that were not read, or a table of sets; assemble sooner",
        ),
        "state-unordered": (
            "a key of a global table was written here and in partition {a} (offset {b}): which came last is unknown",
            "the changelog of a global table has several partitions: use one",
        ),
        "state-gone": (
            "the log starts at {a}: keys that were not written since are not in the tables",
            "retention, or somebody, deleted the beginning of a changelog: write those keys again",
        ),
    },
    ("V3", Weight.NOTE): {
        "state-expired": (
            "the log starts at {a}: older windows had expired before the cut, and are not in the tables",
            "retention of a windowed table",
        ),
        "state-split": (
            "{text}; each row holds a part of the key's value: its events come from several partitions",
            "a producer places keys otherwise than Faust, or partitions were added: use `murmur2_random` or `group_by`",
        ),
    },
    ("V4", Weight.FAILS): {
        "gone": (
            "this offset, in flight to {app} as all up to {a}, is no longer in the log (it starts at {b})",
            "retention deleted a message in flight, or it was lost; assemble sooner",
        ),
        "last-missing": (
            "the last record of process {process} before the cut (seq {seq}), in flight to {app}, should be here",
            "a message in flight was deleted or lost: see why the broker lost it; take another snapshot",
        ),
        "unstamped": (
            "the last record of process {process} before the cut (seq {seq}), in flight to {app}, lacks its header",
            "a transform, proxy or mirror removes headers: let it pass `_sk` on; `doctor` names the topic",
        ),
        "recorded-differs": (
            "record of process {process} (seq {seq}) is in flight or in {app}'s record of that ({a} to {b}), not both",
            "two computations of one channel differ; report it",
        ),
    },
    ("V4", Weight.UNVERIFIABLE): {
        "gone-left": (
            "this offset is no longer in the log (it starts at {b}); if a process that left sent it, {app} lacks it",
            "retention, of messages of a process that has left; assemble sooner",
        ),
        "last-recreated": (
            "the last record of process {process} before the cut (seq {seq}), in flight to {app}, should be here",
            "an output was recreated while its sender ran: the next snapshot after its next send is good",
        ),
        "unstamped-received": (
            "the last record of process {process} before the cut (seq {seq}), which {app} has, lacks its header",
            "headers are removed, so {app} may have received records from after the cut: as for `unstamped`",
        ),
    },
    ("V5", Weight.FAILS): {
        "effect-of-later": (
            "record of process {process} (seq {seq}) from before the cut, caused by offset {a}; {app} is at {b} only",
            "an event past the cut has an effect before it; report it",
        ),
        "effect-missing": (
            "record of process {process} (seq {seq}) from after the cut, caused by offset {a}; {app} is past it ({b})",
            "an event before the cut has an effect past it; report it",
        ),
        "effect-of-red": (
            "record of process {process} (seq {seq}) from before the cut, caused by offset {a}, sent after the cut",
            "a process that was taken for dead took in a red record: see why it paused for so long",
        ),
    },
    ("V5", Weight.NOTE): {
        "replayed": (
            "record of process {process} (seq {seq}) from before the cut, caused by offset {a}; {app} is at {b} only",
            "a crash or rebalance; a restore runs the event again: expect its effects outside Kafka twice",
        ),
        "ran-twice": (
            "{a} events of topic {topic} ran twice in {app} before the cut, this one in processes {process} and {b}",
            "a crash or rebalance before the cut (Faust is at-least-once): the snapshot holds effects of both runs",
        ),
        "cause-unclear": (
            "topic {topic} has the same 16-bit check value ({a}) as another input of {app}: its causes are not checked",
            "two topic names share 16 bits, as one pair in 65,536 does: rename one to have V5",
        ),
    },
}
#: Those that leave several checks open.
_OF_EACH: Final = (
    (
        "crowded",
        ("V1", "V2", "V4", "V5"),
        "more than {a} records of the partition may break a rule; only those up to this one were judged",
        "a sender, or a tool, wrote very many records out of turn: see the first witnesses of V1",
    ),
    (
        "recreated",
        ("V1", "V2", "V3", "V4"),
        "the topic was deleted and recreated since the snapshot",
        "take another snapshot",
    ),
)
#: Every kind of finding.
KINDS: Final[Mapping[str, Kind]] = {
    **{kind: Kind(*of, *texts) for of, kinds in _OF.items() for kind, texts in kinds.items()},
    **{f"{kind}-{it}": Kind(it, Weight.UNVERIFIABLE, *texts) for kind, of, *texts in _OF_EACH for it in of},
}

#: Kinds that are about a whole topic. They are listed first: single records must not push them out.
OF_TOPICS: Final = frozenset({"ran-twice", "cause-unclear"})

#: Kinds that the rows of `state` show (`split_keys`), not the records of the log. They stand beside every verdict.
OF_STATE: Final = frozenset({"state-split"})
