"""Facts about topics and tables are those of the process that cut them, not of whoever joined last (design, 12)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapkafka.protocol import (
    Assigned,
    Bye,
    Captured,
    ChangelogEnd,
    Hello,
    InputTopic,
    LedgerRecord,
    LedgerState,
    Position,
    Renewed,
    Report,
    StoppedApp,
    Table,
    TopicPartition,
    Trigger,
)

OLD = Hello(
    n=1,
    app="p",
    inputs=(InputTopic(topic="a", partitions=2, topic_id="a-old", key_codec="raw"),),
    tables=(Table(name="t", changelog="c", partitions=2, topic_id="c-old", sets=True, key_codec="raw"),),
)
#: A worker that joined after both topics had been recreated, with other codecs and another kind of table.
NEW = replace(
    OLD,
    n=2,
    inputs=(InputTopic(topic="a", partitions=2, topic_id="a-new", key_codec="json"),),
    tables=(Table(name="t", changelog="c", partitions=2, topic_id="c-new", key_codec="json"),),
)


def given(process: int, *partitions: int) -> Assigned:
    inputs = tuple(TopicPartition("a", partition) for partition in partitions)
    return Assigned(process=process, n=9, generation=1, inputs=inputs)


def cut(process: int, epoch: int, partition: int, assigned: int = 1) -> Report:
    return Report(
        process=process,
        n=1,
        epoch=epoch,
        previous=0,
        heard="ledger",
        assigned=assigned,
        positions=(Position(agent="*", topic="a", partition=partition, offset=3),),
        changelogs=(ChangelogEnd(table="t", topic="c", partition=partition, end=4),),
    )


def captured(*records: LedgerRecord) -> Captured:
    state = LedgerState()
    for record in records:
        state.apply(state.end, record)
    (epoch,) = state.snapshots
    assert state.snapshots[epoch].captured_at is not None, state.waiting(epoch)
    return state.captured(epoch)


def facts(whole: Captured) -> tuple[set[tuple[str, str]], set[tuple[str, bool, str]]]:
    return (
        {(source.topic_id, source.key_codec) for source in whole.inputs},
        {(table.topic_id, table.sets, table.key_codec) for table in whole.changelogs},
    )


ONE = (
    replace(OLD, inputs=(replace(OLD.inputs[0], partitions=1),)),
    given(0, 0),
    Trigger(n=3, id="s"),
    cut(0, 3, 0),
)


def test_r11_who_joins_after_the_trigger_changes_nothing_of_the_snapshot() -> None:
    for whole in (captured(*ONE), captured(*ONE, NEW), captured(*ONE[:3], NEW, *ONE[3:])):
        assert facts(whole) == ({("a-old", "raw")}, {("c-old", True, "raw")})
        assert whole.renewed == ()


def test_r11_a_process_that_has_another_topic_in_mind_than_one_that_joined_since_is_named() -> None:
    """Both take part, and each names the topic that it knows; which of the two the log is, only one can know."""
    whole = captured(
        OLD,
        NEW,
        given(0, 0),
        given(1, 1),
        Trigger(n=3, id="s"),
        cut(0, 5, 0, assigned=2),
        cut(1, 5, 1, assigned=3),
    )
    assert {(s.partition, s.topic_id, s.key_codec) for s in whole.inputs} == {
        (0, "a-old", "raw"),
        (1, "a-new", "json"),
    }
    assert {(t.partition, t.topic_id, t.sets) for t in whole.changelogs} == {
        (0, "c-old", True),
        (1, "c-new", False),
    }
    assert whole.renewed == (
        Renewed(topic="a", process=0, app="p", since=1),
        Renewed(topic="c", process=0, app="p", since=1),
    )


def test_what_a_process_did_not_find_when_it_joined_is_reported_by_another_of_its_app() -> None:
    """A topic that came later: it has the id that a later one names, if it joined before the trigger."""
    early = replace(OLD, inputs=(), tables=())
    late = replace(NEW, inputs=(replace(NEW.inputs[0], partitions=1),))
    whole = captured(
        early,
        late,
        given(0, 0),
        Trigger(n=3, id="s"),
        cut(0, 4, 0, assigned=2),
        replace(cut(1, 4, 1, assigned=-1), positions=(), changelogs=()),
        replace(OLD, n=7),
    )
    assert facts(whole) == ({("a-new", "json")}, {("c-new", False, "json")})


@pytest.mark.parametrize("comes_back", [False, True])
def test_r10_of_a_stopped_app_its_youngest_before_the_trigger_counts(comes_back: bool) -> None:
    """Not the one before that, nor who joins when the snapshot has been asked for."""
    app = StoppedApp(
        app="p",
        positions=(Position(agent="*", topic="a", partition=0, offset=3),),
        changelogs=(ChangelogEnd(table="t", topic="c", partition=0, end=4),),
    )
    later: list[LedgerRecord] = [replace(OLD, n=8)] if comes_back else []
    records: list[LedgerRecord] = [
        Hello(n=9, app="q"),  # 0
        OLD,
        Bye(process=1, n=1),
        replace(NEW, inputs=(replace(NEW.inputs[0], partitions=1),)),  # 3
        Bye(process=3, n=1),
        Trigger(n=3, id="s", stopped=(app,)),  # 5
        *later,
        replace(cut(0, 6, 0, assigned=-1), positions=(), changelogs=()),
    ]
    assert facts(captured(*records)) == ({("a-new", "json")}, {("c-new", False, "json")})
