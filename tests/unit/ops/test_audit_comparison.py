"""The comparison of what workers had with what changelogs say: which differences are findings."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

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

LOG = "app-t-changelog"


def captured(partitions: int = 1, end: int = 100) -> Captured:
    cuts = [
        ChangelogCut(app="app", table="t", topic=LOG, topic_id="", partition=n, end=end, process=7)
        for n in range(partitions)
    ]
    return Captured(
        id="s",
        attempt=1,
        epoch=5,
        type="full",
        parent="",
        storage="",
        processes=(ProcessCut(process=7, app="app"),),
        inputs=(),
        senders=(),
        changelogs=tuple(cuts),
    )


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


def test_a_value_is_compared_by_its_content() -> None:
    parts, findings, _ = compared(answered({b'"a"': b'{"x":1,"y":[2]}'}), row(b'"a"', b'{"y": [2], "x": 1}'))
    assert not findings
    assert [(part.keys, part.differing, part.reason) for part in parts] == [(1, 0, "")]


def test_a_finding_names_key_and_values() -> None:
    parts, (finding,), _ = compared(answered({b'"a7"': b"[1,2,3]"}), row(b'"a7"', b"[1,2]"))
    assert finding.cause == (
        'changed in place and never assigned: table t, key "a7": the worker has [1,2,3], the changelog [1,2]'
    )
    assert parts[0].differing == 1


def test_what_was_written_after_the_cut_is_not_judged() -> None:
    answer = answered({b'"a"': b"1", b'"b"': b"1"}, judged_below={0: 50})
    parts, findings, _ = compared(
        answer, row(b'"a"', b"2", offset=50), row(b'"b"', b"2", offset=49), row(b'"c"', b"3", offset=60)
    )
    assert [finding.key for finding in findings] == ['"b"']
    assert parts[0].in_progress == 2


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


def test_without_events_at_the_cut_every_key_is_judged() -> None:
    parts, findings, comparison = compared(answered({b'"a"': b"1"}), row(b'"b"', b"2", offset=99))
    assert not comparison.tails()
    assert [(finding.key, finding.kind, finding.partition) for finding in findings] == [
        ('"a"', "only-worker", -1),
        ('"b"', "only-changelog", 0),
    ]
    assert [(part.partition, part.differing) for part in parts] == [(-1, 1), (0, 1)]


def test_windows_that_the_worker_has_removed_are_no_findings() -> None:
    parts, findings, _ = compared(answered({}, chunks=0, expires=True), row(b'["a",[1.0,2.0]]', b"2"))
    assert not findings
    assert parts[0].expired == 1


def test_keys_of_partitions_that_the_worker_had_before_are_no_findings() -> None:
    _, findings, _ = compared(answered({b'"a"': b"1"}), row(b'"a"', b"2", partition=1), partitions=2)
    assert not findings


def test_a_key_that_another_partition_has_as_well_still_counts_in_ours() -> None:
    rows = row(b'"a"', b"2", partition=1), row(b'"a"', b"2")
    for order in (rows, rows[::-1]):
        parts, findings, _ = compared(answered({b'"a"': b"1"}), *order, partitions=2)
        assert [(finding.kind, finding.partition) for finding in findings] == [("changed", 0)]
        assert parts[0].differing == 1


def test_a_key_in_two_partitions_is_right_where_it_equals_one_of_them() -> None:
    for rows in ((row(b'"a"', b"1"), row(b'"a"', b"2", partition=1)),) * 2:
        for order in (rows, rows[::-1]):
            _, findings, _ = compared(answered({b'"a"': b"2"}, partitions=(0, 1)), *order, partitions=2)
            assert not findings


def test_sets_are_compared_by_their_members() -> None:
    answer = answered({b'"a"': b'["x","y"]'}, sets=True)
    same = row(b'[15,"a"]', b'[["y","x"],[]]')
    empty = row(b'[15,"b"]', b"[[],[]]")
    assert not compared(answer, same, empty)[1]
    (finding,) = compared(answer, row(b'[15,"a"]', b'[["y"],[]]'))[1]
    assert (finding.key, finding.changelog) == ('"a"', '["y"]')


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
    assert answer.rows == {(0, b"k"): (digest(b"v"), b"v")}
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
