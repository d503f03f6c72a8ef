"""The tables of the workers at the cut, compared with their changelogs, key by key.

A key that may have been written between a worker's cut and the end of the white records is not judged: an event that
ran at the cut has finished in white since. One that was torn has finished in red: of its process a key that was
assigned at any time since is not judged.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut
from snapkafka.protocol.ledger_view import LedgerView
from snapkafka.protocol.records import REMOTE_STATE, TopicPartition
from snapkafka.wire.audit import Audited, AuditedTable, Chunk, content, content_of_set, digest, shown

#: The reason of a process that has a table, and no agent of Faust's.
NO_AGENTS: Final = "it is a loop with plain clients, which keeps its table itself"
#: The kinds of findings, and what each means to a user of Faust.
CAUSES: Final = {
    "changed": "changed in place and never assigned",
    "only-worker": "in the worker only: its changelog has no such key, so a recovery loses it",
    "only-changelog": "in the changelog only: the worker has lost it, and a recovery brings it back",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """A key that differs. `kind`: of `CAUSES`. `partition`: -1 where no changelog has the key. `worker`, `changelog`:
    the values as text, long ones shortened; None: there is none."""

    app: str
    table: str
    partition: int
    process: int
    key: str
    kind: str
    worker: str | None
    changelog: str | None

    @property
    def cause(self) -> str:
        """What happened, in a sentence."""
        values = f"the worker has {self.worker}, the changelog {self.changelog}"
        return f"{CAUSES[self.kind]}: table {self.table}, key {self.key}: {values}"


@dataclass(slots=True, kw_only=True)
class AuditedPartition:
    """A partition of a table in a worker. `keys`: compared, of which `differing` differ. `in_progress`: written by
    events that ran at the cut, and not judged. `expired`: windows that the worker has removed, as it should. `reason`:
    why it was not audited; empty: it was. `process`: -1: none had it."""

    app: str
    table: str
    partition: int
    process: int = -1
    keys: int = 0
    differing: int = 0
    in_progress: int = 0
    expired: int = 0
    reason: str = ""


@dataclass(slots=True)
class Answer:
    """The messages of a worker: its rows by table and key, and its last message once it has come."""

    process: int
    rows: dict[tuple[int, bytes], tuple[bytes, bytes]] = field(default_factory=dict)
    chunks: set[int] = field(default_factory=set)
    ended: Audited | None = None

    def take(self, message: Chunk | Audited) -> None:
        """Take in a message; one that was sent twice counts once."""
        if isinstance(message, Audited):
            self.ended = message
        elif message.number not in self.chunks:
            self.chunks.add(message.number)
            for table, key, value_digest, as_shown in message.rows:
                self.rows[table, key] = value_digest, as_shown


class StateRow(NamedTuple):
    """A key of the assembled state."""

    topic: str
    partition: int
    offset: int
    key_raw: bytes
    value_raw: bytes


class _Held(NamedTuple):
    """A table in a worker, with the number under which its rows were sent."""

    answer: Answer
    number: int
    table: AuditedTable


def audited_cuts(captured: Captured) -> list[ChangelogCut]:
    """Return the table partitions that can be audited: a process that is not Faust's keeps no table."""
    return [cut for cut in captured.changelogs if not cut.topic.startswith(REMOTE_STATE)]


def audited_processes(captured: Captured) -> dict[int, str]:
    """Return the processes that are asked, with their apps: those that were there, of apps with tables."""
    apps = {cut.app for cut in audited_cuts(captured)}
    return {cut.process: cut.app for cut in captured.processes if not cut.left and cut.app in apps}


def asked(captured: Captured, ledger: LedgerView) -> dict[int, Answer]:
    """Return the answer of each process that is asked; that of a loop with plain clients is known: it audits
    nothing."""
    answers = {process: Answer(process) for process in audited_processes(captured)}
    for process, answer in answers.items():
        if not ledger.processes[process].hello.agents:
            answer.ended = Audited(epoch=captured.epoch, process=process, reason=NO_AGENTS)
    return answers


def all_same(partitions: Collection[AuditedPartition], findings: Collection[AuditFinding]) -> bool:
    """Return whether there was something to audit, all of it was audited, and nothing differs."""
    return bool(partitions) and not findings and not any(part.reason for part in partitions)


class Comparison:
    """The comparison of one snapshot.

    Args:
        captured: the snapshot.
        answers: by process; one that is missing, or has not ended, has not answered.
    """

    def __init__(self, captured: Captured, answers: Mapping[int, Answer]) -> None:
        self._cuts = {TopicPartition(cut.topic, cut.partition): cut for cut in audited_cuts(captured)}
        self._holders: dict[str, list[_Held]] = {}
        self._reasons: dict[str, str] = {}
        self._apps = audited_processes(captured)
        self._torn = {cut.process for cut in captured.processes if cut.torn}
        for process, app in sorted(self._apps.items()):
            self._hold(process, app, answers.get(process))
        self._parts: dict[tuple[int, TopicPartition], AuditedPartition] = {}
        self._suspects: dict[tuple[int, int, bytes], AuditFinding] = {}
        self._seen: set[tuple[int, int, bytes]] = set()
        self._elsewhere: set[tuple[int, int, bytes]] = set()  # in partitions that the worker does not have

    def _hold(self, process: int, app: str, answer: Answer | None) -> None:
        ended = answer.ended if answer is not None else None
        if answer is None or ended is None:
            self._reasons.setdefault(app, f"process {process} has not answered")
        elif ended.reason:
            self._reasons[app] = f"process {process}: {ended.reason}"
        elif len(answer.chunks) < ended.chunks:
            self._reasons[app] = f"process {process}: some of what it sent is lost"
        else:
            for number, table in enumerate(ended.tables):
                self._holders.setdefault(table.changelog, []).append(_Held(answer, number, table))

    # -- the rows of the state ----------------------------------------------------------------------------------------

    def take(self, rows: Iterable[StateRow]) -> None:
        """Compare the rows of the assembled state."""
        for row in rows:
            for held in self._holders.get(row.topic, ()):
                if not held.table.reason:
                    self._compare(held, row)

    def _compare(self, held: _Held, row: StateRow) -> None:
        table = held.table
        if table.sets:
            key, value = content_of_set(row.key_raw, row.value_raw)
            if value == b"[]":
                return  # an empty set is as good as none
        else:
            key = content(row.key_raw, table.as_json[0])
            value = content(row.value_raw, table.as_json[1])
        place = held.answer.process, held.number, key
        had = held.answer.rows.get((held.number, key))
        if row.partition not in table.partitions:
            if had is not None:
                self._elsewhere.add(place)  # maybe kept from a partition that it had before
            return
        part = self._part(held, row.partition)
        below = table.judged_below.get(row.partition)
        if below is not None and row.offset >= below:
            part.in_progress += 1
        elif had is None:
            if table.expires:
                part.expired += 1
            else:
                self._suspect(place, part, "only-changelog", None, value)
        elif had[0] == digest(value):
            part.keys += 1
            self._suspects.pop(place, None)  # of another partition with the same key
        else:
            part.keys += 1
            if place not in self._seen:
                self._suspect(place, part, "changed", had[1], value)
        self._seen.add(place)

    def _suspect(
        self,
        place: tuple[int, int, bytes],
        part: AuditedPartition,
        kind: str,
        worker: bytes | None,
        changelog: bytes | None,
    ) -> None:
        self._suspects[place] = AuditFinding(
            app=part.app,
            table=part.table,
            partition=part.partition,
            process=part.process,
            key=_text(place[2]) or "",
            kind=kind,
            worker=_text(worker),
            changelog=_text(None if changelog is None else shown(changelog)),
        )

    def _part(self, held: _Held, partition: int) -> AuditedPartition:
        process, tp = held.answer.process, TopicPartition(held.table.changelog, partition)
        if (process, tp) not in self._parts:
            self._parts[process, tp] = AuditedPartition(
                app=self._apps[process], table=held.table.name, partition=partition, process=process
            )
        return self._parts[process, tp]

    # -- what the state does not have ---------------------------------------------------------------------------------

    def tails(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return the ranges of changelogs in which keys may have been deleted after the cut, if any matter."""
        found: dict[TopicPartition, tuple[int, int]] = {}
        for held, _ in self._unmatched():
            for partition, below in held.table.judged_below.items():
                tp = TopicPartition(held.table.changelog, partition)
                if tp in self._cuts and below < self._cuts[tp].end:
                    found[tp] = min(below, found.get(tp, (below, 0))[0]), self._cuts[tp].end
        for held, _, finding in self._unsure():
            tp = TopicPartition(held.table.changelog, finding.partition)
            below = held.table.judged_below.get(finding.partition, self._cuts[tp].end)
            found[tp] = min(below, found.get(tp, (below, 0))[0]), sys.maxsize
        return found

    def finish(
        self, written: Mapping[str, Iterable[bytes]]
    ) -> tuple[list[AuditedPartition], list[AuditFinding]]:
        """Return each partition and each finding.

        Args:
            written: changelog -> the keys of the records in its `tails`.
        """
        late = {
            held.table.changelog: {_key_of(raw, held.table) for raw in written.get(held.table.changelog, ())}
            for holders in self._holders.values()
            for held in holders
        }
        for held, place, finding in list(self._unsure()):
            if place[2] in late[held.table.changelog]:
                del self._suspects[place]
                self._part(held, finding.partition).in_progress += 1
        for held, key in list(self._unmatched()):
            table = held.table
            if key not in late[table.changelog]:
                place = held.answer.process, held.number, key
                part = AuditedPartition(
                    app=self._apps[held.answer.process],
                    table=table.name,
                    partition=-1,
                    process=held.answer.process,
                )
                self._suspect(place, part, "only-worker", held.answer.rows[held.number, key][1], None)
        findings = sorted(self._suspects.values(), key=lambda it: (it.app, it.table, it.partition, it.key))
        parts = {(it.process, it.table, it.partition): it for it in self._all_parts()}
        for finding in findings:
            where = finding.process, finding.table, finding.partition
            if where not in parts:
                parts[where] = AuditedPartition(
                    app=finding.app, table=finding.table, partition=-1, process=finding.process
                )
            parts[where].differing += 1
        return sorted(parts.values(), key=lambda it: (it.app, it.table, it.partition, it.process)), findings

    def _unsure(self) -> Iterator[tuple[_Held, tuple[int, int, bytes], AuditFinding]]:
        """Yield the keys that an event may have changed at the cut, to assign them in red."""
        for holders in self._holders.values():
            for held in holders:
                for place, finding in self._suspects.items():
                    ours = place[:2] == (held.answer.process, held.number)
                    if ours and finding.kind == "changed" and finding.process in self._torn:
                        yield held, place, finding

    def _unmatched(self) -> Iterator[tuple[_Held, bytes]]:
        """Yield the keys that workers have and the state lacks."""
        for holders in self._holders.values():
            for held in holders:
                for number, key in held.answer.rows:
                    place = held.answer.process, number, key
                    known = place in self._seen or place in self._elsewhere
                    if number == held.number and not held.table.reason and not known:
                        yield held, key

    def _all_parts(self) -> Iterator[AuditedPartition]:
        for tp, cut in self._cuts.items():
            holders = [h for h in self._holders.get(tp.topic, ()) if tp.partition in h.table.partitions]
            for held in holders:
                part = self._part(held, tp.partition)
                part.reason = held.table.reason
                yield part
            if not holders:
                yield self._without(cut)

    def _without(self, cut: ChangelogCut) -> AuditedPartition:
        reason = self._reasons.get(cut.app, "no worker had it at its cut")
        return AuditedPartition(app=cut.app, table=cut.table, partition=cut.partition, reason=reason)


def _key_of(raw: bytes, table: AuditedTable) -> bytes:
    return content_of_set(raw, b"[[],[]]")[0] if table.sets else content(raw, table.as_json[0])


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "backslashreplace")
