"""The comparison of what workers had with what changelogs say: which differences are findings."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from snapkafka.ops import AuditedPartition
from snapkafka.ops.audit_comparison import (
    Answer,
    AuditFinding,
    Comparison,
    StateRow,
    all_same,
    asked,
    audited_processes,
)
from snapkafka.protocol import (
    REMOTE_STATE,
    Agent,
    Captured,
    ChangelogCut,
    Hello,
    LedgerState,
    ProcessCut,
    TopicPartition,
    TornEvent,
)
from snapkafka.wire.audit import Audited, AuditedTable, Chunk, chunk, content, digest, last, pack, read, shown
from tests.unit.base.test_manifest import example

LOG = "app-t-changelog"


def captured(partitions: int = 1, end: int = 100) -> Captured:
    cuts = [
        ChangelogCut(app="app", table="t", topic=LOG, topic_id="", partition=n, end=end, process=7)
        for n in range(partitions)
    ]
    processes = (ProcessCut(process=7, app="app"),)
    return replace(example().captured, epoch=5, processes=processes, inputs=(), changelogs=tuple(cuts))


def answered(rows: dict[bytes, bytes], *, reason: str = "", chunks: int = 1, **table: Any) -> Answer:
    """An answer as it comes over the wire."""
    answer = Answer(7)
    described = AuditedTable(**{"name": "t", "changelog": LOG, "partitions": (0,)} | table)
    packed = [it for it in pack((0, key, content(value, True)) for key, value in rows.items()) if it]
    messages = [chunk(5, 7, number, piece) for number, piece in enumerate(packed)]
    messages.append(last(Audited(epoch=5, process=7, reason=reason, chunks=chunks, tables=(described,))))
    for message in messages:
        found = read(message, 5)
        assert found is not None
        answer.take(found)
    return answer


def row(key: bytes, value: bytes, *, partition: int = 0, offset: int = 1) -> StateRow:
    return StateRow(LOG, partition, offset, key, value)


def compared(
    answer: Answer | None, *rows: StateRow, written: tuple[bytes, ...] = (), partitions: int = 1
) -> tuple[list[AuditedPartition], list[AuditFinding], Comparison]:
    comparison = Comparison(captured(partitions), {} if answer is None else {7: answer})
    comparison.take(rows)
    parts, findings = comparison.finish({LOG: written})
    return parts, findings, comparison


A, B, WINDOW = b'"a"', b'"b"', b'["a",[1.0,2.0]]'
ONE = answered({A: b"1"})
#: What the worker had, the rows of the state, the findings, and how many keys were in progress and expired.
CASES: dict[str, tuple[Answer, list[StateRow], list[tuple[str, str, int]], tuple[int, int]]] = {
    "values are equal by their content": (
        answered({A: b'{"x":1,"y":[2]}'}), [row(A, b'{"y": [2], "x": 1}')], [], (0, 0),
    ),
    "written after the cut": (
        answered({A: b"1", B: b"1"}, judged_below={0: 50}),
        [row(A, b"2", offset=50), row(B, b"2", offset=49), row(b'"c"', b"3", offset=60)],
        [('"b"', "changed", 0)], (2, 0),
    ),
    "no events at the cut": (
        ONE, [row(B, b"2", offset=99)], [('"a"', "only-worker", -1), ('"b"', "only-changelog", 0)], (0, 0),
    ),
    "a window that the worker has removed": (
        answered({}, chunks=0, expires=True), [row(WINDOW, b"2")], [], (0, 1),
    ),
    "of a partition that the worker had before": (ONE, [row(A, b"2", partition=1)], [], (0, 0)),
    "another partition has the key as well": (
        ONE, [row(A, b"2", partition=1), row(A, b"2")], [('"a"', "changed", 0)], (0, 0),
    ),
    "equal to one of two partitions": (
        answered({A: b"2"}, partitions=(0, 1)), [row(A, b"1"), row(A, b"2", partition=1)], [], (0, 0),
    ),
    "a set has the same members, and another none": (
        answered({A: b'["x","y"]'}, sets=True),
        [row(b'[15,"a"]', b'[["y","x"],[]]'), row(b'[15,"b"]', b"[[],[]]")], [], (0, 0),
    ),
    "a set has other members": (
        answered({A: b'["x","y"]'}, sets=True), [row(b'[15,"a"]', b'[["y"],[]]')], [('"a"', "changed", 0)], (0, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_a_finding(case: str) -> None:
    answer, rows, expected, counts = CASES[case]
    for order in (rows, rows[::-1]):
        parts, findings, comparison = compared(answer, *order, partitions=2)
        assert [(it.key, it.kind, it.partition) for it in findings] == expected
        assert sum(part.differing for part in parts) == len(expected)
        assert (sum(it.in_progress for it in parts), sum(it.expired for it in parts)) == counts
        assert comparison.tails() == {} or answer.ended is None or answer.ended.tables[0].judged_below


def test_a_finding_names_key_and_values() -> None:
    _, (finding,), _ = compared(answered({b'"a7"': b"[1,2,3]"}), row(b'"a7"', b"[1,2]"))
    assert finding.cause == (
        'changed in place and never assigned: table t, key "a7": the worker has [1,2,3], the changelog [1,2]'
    )


def test_what_was_deleted_after_the_cut_is_not_judged() -> None:
    answer = answered({b'"a"': b"1", b'"b"': b"1"}, judged_below={0: 50})
    comparison = Comparison(captured(), {7: answer})
    assert comparison.tails() == {TopicPartition(LOG, 0): (50, 100)}
    _, findings = comparison.finish({LOG: [b'"a"']})
    assert [(finding.key, finding.kind) for finding in findings] == [('"b"', "only-worker")]


def test_what_a_torn_event_assigns_later_is_not_judged() -> None:
    """It had changed the value at the cut, and its assignment is red: no snapshot has it."""
    (process,) = captured().processes
    torn = TornEvent(agent="a", topic="in", partition=0, offset=3, was=4, met=5)
    whole = replace(captured(), processes=(replace(process, torn=(torn,)),))
    answer = answered({b'"a"': b"[1,2]", b'"b"': b"[1,2]"}, judged_below={0: 50})
    comparison = Comparison(whole, {7: answer})
    comparison.take([row(b'"a"', b"[1]"), row(b'"b"', b"[1]")])
    assert comparison.tails() == {TopicPartition(LOG, 0): (50, sys.maxsize)}
    parts, findings = comparison.finish({LOG: [b'"a"']})
    assert [finding.key for finding in findings] == ['"b"']
    assert (parts[0].in_progress, parts[0].differing) == (1, 1)


def test_a_partition_without_an_answer_is_not_audited_and_says_why() -> None:
    for answer, reason in (
        (None, "process 7 has not answered"),
        (answered({}, reason="it was not done after 300 s"), "process 7: it was not done"),
        (answered({b'"a"': b"1"}, chunks=2), "process 7: some of what it sent is lost"),
        (answered({}, chunks=0, reason=""), ""),
        (answered({}, chunks=0, partitions=(1,)), "no worker had it at its cut"),
    ):
        parts, findings, _ = compared(answer)
        assert not findings
        assert parts[0].reason.startswith(reason)
        assert bool(parts[0].reason) == bool(reason)


def test_who_has_left_and_who_is_not_of_faust_is_not_asked() -> None:
    whole = captured()
    foreign = replace(whole.changelogs[0], app="other", topic=f"{REMOTE_STATE}n.other")
    processes = (
        *whole.processes,
        ProcessCut(process=3, app="app", left=True),
        ProcessCut(process=8, app="other"),
        ProcessCut(process=9, app="without-tables"),
    )
    mixed = replace(whole, processes=processes, changelogs=(*whole.changelogs, foreign))
    assert audited_processes(mixed) == {7: "app"}
    parts, findings = Comparison(mixed, {7: answered({}, chunks=0)}).finish({})
    assert not findings
    assert [(part.app, part.reason) for part in parts] == [("app", "")]


def test_a_message_that_comes_twice_counts_once_and_others_not_at_all() -> None:
    piece = next(it for it in pack([(0, b"k", b"v")]) if it)
    found = read(chunk(5, 7, 0, piece), 5)
    assert isinstance(found, Chunk)
    answer = Answer(7)
    answer.take(found)
    answer.take(found)
    assert answer.rows == {0: {b"k": (digest(b"v"), b"v")}}
    assert read(chunk(5, 7, 0, piece), 6) is None
    assert read(b"garbage", 5) is None
    assert read(chunk(5, 7, 0, b"garbage"), 5) is None


def test_long_values_are_shown_by_both_ends() -> None:
    assert shown(b"x" * 120) == b"x" * 120
    assert shown(b"a" * 100 + b"z" * 100) == b"a" * 60 + b" ... " + b"z" * 60


def test_only_an_audit_of_all_that_there_is_says_that_all_is_the_same() -> None:
    parts, findings, _ = compared(answered({b'"a"': b"1"}), row(b'"a"', b"1"))
    assert all_same(parts, findings)
    assert not all_same([], []), "nothing was audited"
    assert not all_same([*parts, replace(parts[0], reason="it has not answered")], [])
    parts, findings, _ = compared(answered({b'"a"': b"1"}), row(b'"a"', b"2"))
    assert not all_same(parts, findings)


def test_a_loop_with_plain_clients_is_not_waited_for() -> None:
    """It answers nothing, and is named as not audited at once."""
    for agents, reason in (((), True), ((Agent(name="count", topics=("in",)),), False)):
        ledger = LedgerState()
        for offset in range(8):
            ledger.apply(offset, Hello(n=offset, app="app", agents=agents))
        answer = asked(captured(), ledger)[7]
        assert (answer.ended is not None and bool(answer.ended.reason)) is reason
