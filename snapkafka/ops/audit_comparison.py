"""The tables of the workers at the cut, compared with their changelogs, key by key.

A key that may have been written between a worker's cut and the end of the white records is not judged: an event that
ran at the cut has finished in white since. One that was torn has finished in red: of its process a key that was
assigned at any time since is not judged.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
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


#: Key -> the digest of its value, and the value as shown.
Rows = dict[bytes, tuple[bytes, bytes]]


@dataclass(slots=True)
class Answer:
    """The messages of a worker: its rows by table and key, and its last message once it has come."""

    process: int
    rows: defaultdict[int, Rows] = field(default_factory=lambda: defaultdict(dict))
    chunks: set[int] = field(default_factory=set)
    ended: Audited | None = None

    def take(self, message: Chunk | Audited) -> None:
        """Take in a message; one that was sent twice counts once."""
        if isinstance(message, Audited):
            self.ended = message
        elif message.number not in self.chunks:
            self.chunks.add(message.number)
            for table, key, value_digest, as_shown in message.rows:
                self.rows[table][key] = value_digest, as_shown


class StateRow(NamedTuple):
    """A key of the assembled state."""

    topic: str
    partition: int
    offset: int
    key_raw: bytes
    value_raw: bytes


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


@dataclass(slots=True, kw_only=True)
class _Held:
    """A table in a worker, compared with the rows of the state. `elsewhere`: keys in partitions that the worker does
    not have."""

    app: str
    process: int
    torn: bool
    table: AuditedTable
    rows: Rows
    parts: dict[int, AuditedPartition] = field(default_factory=dict)
    suspects: dict[bytes, AuditFinding] = field(default_factory=dict)
    seen: set[bytes] = field(default_factory=set)
    elsewhere: set[bytes] = field(default_factory=set)

    def take(self, row: StateRow) -> None:
        table = self.table
        if table.sets:
            key, value = content_of_set(row.key_raw, row.value_raw)
            if value == b"[]":
                return  # an empty set is as good as none
        else:
            key, value = content(row.key_raw, table.as_json[0]), content(row.value_raw, table.as_json[1])
        had = self.rows.get(key)
        if row.partition not in table.partitions:
            if had is not None:
                self.elsewhere.add(key)  # maybe kept from a partition that it had before
            return
        part, below = self.part(row.partition), table.judged_below.get(row.partition)
        if below is not None and row.offset >= below:
            part.in_progress += 1
        elif had is None and table.expires:
            part.expired += 1
        elif had is None:
            self.suspect(row.partition, key, "only-changelog", None, value)
        else:
            part.keys += 1
            if had[0] == digest(value):
                self.suspects.pop(key, None)  # of another partition with the same key
            elif key not in self.seen:
                self.suspect(row.partition, key, "changed", had[1], value)
        self.seen.add(key)

    def part(self, partition: int) -> AuditedPartition:
        new = AuditedPartition(app=self.app, table=self.table.name, partition=partition, process=self.process)
        return self.parts.setdefault(partition, new)

    def suspect(
        self, partition: int, key: bytes, kind: str, worker: bytes | None, changelog: bytes | None
    ) -> None:
        self.suspects[key] = AuditFinding(
            app=self.app,
            table=self.table.name,
            partition=partition,
            process=self.process,
            key=_text(key) or "",
            kind=kind,
            worker=_text(worker),
            changelog=_text(None if changelog is None else shown(changelog)),
        )

    def unsure(self) -> dict[bytes, int]:
        """Return the keys that an event may have changed at the cut, to assign them in red; with their partitions."""
        found = self.suspects.items() if self.torn else ()
        return {key: finding.partition for key, finding in found if finding.kind == "changed"}

    def unmatched(self) -> set[bytes]:
        """Return the keys that the worker has and the state lacks."""
        return set() if self.table.reason else self.rows.keys() - self.seen - self.elsewhere

    def finish(self, written: Iterable[bytes]) -> None:
        """Judge what the state does not have, by the keys of the records in the tails of the changelog."""
        late = {self._key_of(raw) for raw in written}
        for key, partition in self.unsure().items():
            if key in late:
                del self.suspects[key]
                self.part(partition).in_progress += 1
        for key in self.unmatched() - late:
            self.suspect(-1, key, "only-worker", self.rows[key][1], None)
        for finding in self.suspects.values():
            self.part(finding.partition).differing += 1

    def _key_of(self, raw: bytes) -> bytes:
        as_json = self.table.as_json[0]
        return content_of_set(raw, b"[[],[]]")[0] if self.table.sets else content(raw, as_json)


class Comparison:
    """The comparison of one snapshot.

    Args:
        captured: the snapshot.
        answers: by process; one that is missing, or has not ended, has not answered.
    """

    def __init__(self, captured: Captured, answers: Mapping[int, Answer]) -> None:
        self._cuts = {TopicPartition(cut.topic, cut.partition): cut for cut in audited_cuts(captured)}
        self._held: defaultdict[str, list[_Held]] = defaultdict(list)
        self._reasons: dict[str, str] = {}
        torn = {cut.process for cut in captured.processes if cut.torn}
        for process, app in sorted(audited_processes(captured).items()):
            answer = answers.get(process)
            ended = answer.ended if answer is not None else None
            if answer is None or ended is None:
                self._reasons.setdefault(app, f"process {process} has not answered")
            elif ended.reason:
                self._reasons[app] = f"process {process}: {ended.reason}"
            elif len(answer.chunks) < ended.chunks:
                self._reasons[app] = f"process {process}: some of what it sent is lost"
            else:
                for number, table in enumerate(ended.tables):
                    held = _Held(
                        app=app, process=process, torn=process in torn, table=table, rows=answer.rows[number]
                    )
                    self._held[table.changelog].append(held)

    def take(self, rows: Iterable[StateRow]) -> None:
        """Compare the rows of the assembled state."""
        for row in rows:
            for held in self._held.get(row.topic, ()):
                if not held.table.reason:
                    held.take(row)

    def tails(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return the ranges of changelogs in which keys may have been deleted after the cut, if any matter."""
        found: dict[TopicPartition, tuple[int, int]] = {}

        def read(tp: TopicPartition, start: int, end: int) -> None:
            found[tp] = min(start, found.get(tp, (start, 0))[0]), end

        for held in (held for holders in self._held.values() for held in holders):
            below = {
                TopicPartition(held.table.changelog, of): at for of, at in held.table.judged_below.items()
            }
            for tp, at in below.items() if held.unmatched() else ():
                if tp in self._cuts and at < self._cuts[tp].end:
                    read(tp, at, self._cuts[tp].end)
            for partition in held.unsure().values():
                tp = TopicPartition(held.table.changelog, partition)
                read(tp, below.get(tp, self._cuts[tp].end), sys.maxsize)
        return found

    def finish(
        self, written: Mapping[str, Iterable[bytes]]
    ) -> tuple[list[AuditedPartition], list[AuditFinding]]:
        """Return each partition and each finding.

        Args:
            written: changelog -> the keys of the records in its `tails`.
        """
        parts: list[AuditedPartition] = []
        for tp, cut in self._cuts.items():
            holders = [held for held in self._held[tp.topic] if tp.partition in held.table.partitions]
            for held in holders:
                held.part(tp.partition).reason = held.table.reason
            if not holders:
                reason = self._reasons.get(cut.app, "no worker had it at its cut")
                parts.append(
                    AuditedPartition(app=cut.app, table=cut.table, partition=cut.partition, reason=reason)
                )
        findings: list[AuditFinding] = []
        for held in (held for holders in self._held.values() for held in holders):
            held.finish(written.get(held.table.changelog, ()))
            parts += held.parts.values()
            findings += held.suspects.values()
        parts.sort(key=lambda it: (it.app, it.table, it.partition, it.process))
        return parts, sorted(findings, key=lambda it: (it.app, it.table, it.partition, it.key))


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "backslashreplace")
