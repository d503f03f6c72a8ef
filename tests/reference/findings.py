"""`findings.md`: every finding of the checks, from the table of kinds; causes and remedies are described here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from snapkafka.checks.kinds import KINDS

from .markdown import code, table

__all__ = ["MEANINGS", "page"]

_LOSS: Final = "see why the broker lost them; take another snapshot"
_SOONER: Final = "assemble sooner; `doctor --fix`; take another snapshot"
_BUG: Final = "report it, unless headers were forged"
_SPLIT: Final = (
    "a producer places keys otherwise than Faust (murmur2), a topic was given more partitions, or a table is keyed by "
    "something else than its events; the log contradicts nothing, and each row has a part of the value"
)
_NOTHING: Final = "nothing"

#: Kind -> what causes it, and what to do. `page` fails where the code knows other kinds.
MEANINGS: Final[dict[str, tuple[str, str]]] = {
    "white-after-end": ("a record with a new number was sent white after the sender had closed", _BUG),
    "disorder": ("numbers of one sender do not rise with the offsets", _BUG),
    "gap": ("a record was lost or deleted while its offset was not", _LOSS),
    "white-unsettled": ("a send timed out and landed late", "take another snapshot"),
    "disorder-left": ("a late send, or a copy, of a process that has left", _NOTHING),
    "gap-explained": (
        "compaction, or an aborted transaction; of a changelog only where another app has still to read it",
        _SOONER,
    ),
    "gap-failed": ("sends that were refused, or have no result", "as for `send-failed`"),
    "send-failed": (
        "a record was too large, its topic invalid, or its result unknown; of a changelog, until its process ends",
        "read the producer's errors; restart that worker, or write the key again and restart it later",
    ),
    "gap-left": ("records of a process that has left were removed or lost", "take another snapshot"),
    "left-late": ("a process that was taken for dead went on sending", "see why it paused for so long"),
    "duplicate": ("a producer's retry", _NOTHING),
    "copy": (
        "a retry tool wrote a record again with all its headers; it counts as external",
        "let the tool remove `_sk`",
    ),
    "landed": ("a send that timed out", _NOTHING),
    "red-header": ("a receiver took in a red record before it cut", _BUG),
    "red-birth": ("a receiver took in a record of a process that joined after the trigger", _BUG),
    "red-late": ("a receiver took in a record from past the sender's end", _BUG),
    "received-unsettled": ("somebody received a send that timed out", "take another snapshot"),
    "unread": ("retention deleted records that were received before the cut", _SOONER),
    "state-last-missing": ("compaction past the cut, or deletion; the table may lack a change", _SOONER),
    "state-seam": ("the log was cut short since the parent was assembled", "take a full snapshot"),
    "state-overtaken": ("a key that is new since the cut, or whose old value compaction took", _SOONER),
    "state-unproven": (
        "assembly after `delete.retention.ms`; settings or a long log that were not read; a table of sets",
        _SOONER,
    ),
    "state-unordered": ("the changelog of a global table has several partitions", "use one partition"),
    "state-gone": ("retention, or somebody, deleted the beginning of a changelog", "write those keys again"),
    "state-expired": ("retention of a windowed table", _NOTHING),
    "state-split": (
        _SPLIT,
        "let the producer use `murmur2_random`, or put `group_by` before the table; then write those keys again",
    ),
    "gone": ("retention deleted a message in flight, or it was lost", _SOONER),
    "gone-left": ("retention, of messages of a process that has left", _SOONER),
    "last-missing": ("a message in flight was deleted or lost", _LOSS),
    "last-recreated": (
        "an output was recreated while its sender ran",
        "the next snapshot after its next send is good",
    ),
    "unstamped": (
        "a transform, proxy or mirror removes headers",
        "let it pass `_sk` on; `doctor` names the topic",
    ),
    "unstamped-received": ("the same, of a record that was received", "as for `unstamped`"),
    "incomplete": ("a message in flight was lost while its offset was not", _LOSS),
    "hole": ("compaction, or an aborted transaction", _SOONER),
    "recorded-differs": ("two computations of one channel differ", _BUG),
    "effect-of-later": ("an event past the cut has an effect before it", _BUG),
    "effect-missing": ("an event before the cut has an effect past it", _BUG),
    "effect-of-red": (
        "a process that was taken for dead went on and took in a red record",
        "see why it paused for so long",
    ),
    "replayed": (
        "a crash or rebalance; a restore runs the event again",
        "expect its effects outside Kafka twice",
    ),
    "ran-twice": ("a crash or rebalance before the cut (Faust is at-least-once)", _NOTHING),
    "cause-unclear": ("two topic names share 16 bits, as one pair in 65,536 does", "rename one to have V5"),
    "recreated": ("a topic was deleted and created again after the snapshot", "take another snapshot"),
    "renewed": ("a topic was recreated before the snapshot", "restart that process; write the table again"),
}
HEAD: Final = ("finding", "weight", "what it says", "cause", "what to do")
OTHERS: Final = """
## Other checks

| check | it fails | it is unverifiable |
|---|---|---|
| V6 | your SQL returned rows | the query failed, or needs `--set apps=...` |
| `tables` (`verify --tables`) | stored bytes differ from the log | only texts differ (other codecs, or an edit) |
"""


def page() -> str:
    """Return the page.

    Raises:
        ValueError: the code knows other kinds than are described.
    """
    names = {name: _family(name) for name in KINDS}
    if set(names.values()) != MEANINGS.keys():
        raise ValueError(
            f"kinds without a meaning, or unknown: {sorted(set(names.values()) ^ MEANINGS.keys())}"
        )
    parts = [
        """# Findings

What V1 to V5 print of a record, in the order of the checks. *fails* makes a snapshot `INCONSISTENT`, *unverifiable*
makes it `UNVERIFIABLE`, a *note* leaves the verdict as it is; `replayed` makes it `VERIFIED_WITH_REPLAYS`.
`tables` is also unverifiable where V3 or V4 did not pass.
[verification.md](../explanation/verification.md) explains the checks.
"""
    ]
    for check in sorted({kind.check for kind in KINDS.values()}):
        parts.append(
            f"\n## {check}\n\n"
            + table(("finding", "weight", "what it says", "cause", "what to do"), _rows(check))
        )
    return "".join(parts) + OTHERS


def _rows(check: str) -> Iterator[tuple[str, str, str, str, str]]:
    for name, kind in KINDS.items():
        if kind.check == check:
            yield code(name), str(kind.weight), _text(kind.says), *MEANINGS[_family(name)]


def _family(name: str) -> str:
    """Return the name of a kind without the check that it is of."""
    return re.sub(r"-V\d$", "", name)


def _text(says: str) -> str:
    """Return a sentence with letters in the place of its values."""
    letters = {"process": "P", "seq": "N", "topic": "T", "offset": "O", "app": "APP", "a": "A", "b": "B"}
    letters["text"] = "table TABLE of APP: N keys lie in several partitions: KEY (PARTITIONS), ..."
    return re.sub(r"\{(\w+)\}", lambda match: letters[match[1]], says)
