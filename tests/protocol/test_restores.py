"""What a restore and a fork mean to who reads the ledger (docs/explanation/protocol.md, docs/guide/fork.md)."""

from __future__ import annotations

from typing import Any

import pytest

from snapkafka.protocol.forking import fork_of, fork_problem, of_fork, prefixed
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.offsets import AgentPosition, InputTopic, TopicId, TopicPartition
from snapkafka.protocol.records import RESTORE, RESTORING, Fork, Hello, Pause, Restore
from snapkafka.protocol.restores import Base, RestoreView

from .test_checkpoints import behind
from .world import A, B, Process, World, log_ends, settle


def say(world: World, stage: Any, plan: str = "r", **fields: Any) -> int:
    """Append a record of a restore of app b."""
    fields.setdefault("apps", ("b",))
    return world.append(Restore(n=world.number(), plan=plan, stage=stage, snapshot="s", **fields))


def joins(world: World) -> int:
    """The process that re-appends joins; its id."""
    return world.append(Hello(n=world.number(), app="snapkafka-restore", mode=RESTORE))


def opened(world: World, plan: str = "r", **fields: Any) -> int:
    """A plan begins, and has an author; its id."""
    say(world, "begun", plan, **fields)
    author = joins(world)
    say(world, "begun", plan, author=author, **fields)
    return author


def done(
    world: World, author: int, *places: tuple[TopicPartition, int], plan: str = "r", **fields: Any
) -> int:
    return say(world, "done", plan, author=author, ends=log_ends(*places), **fields)


def at(offset: int, *above: int, agent: str = "agent", tp: TopicPartition = B) -> AgentPosition:
    return AgentPosition(
        app="b", agent=agent, topic=tp.topic, partition=tp.partition, offset=offset, started_above=above
    )


# -- snapshots and restores do not overlap ------------------------------------------------------------------------


def test_a_snapshot_that_is_open_when_a_restore_begins_fails_by_name(world: World) -> None:
    Process(world, "a", (A,))
    epoch = world.trigger()
    other = world.trigger("other", apps=("a",))
    say(world, "begun", apps=("c",))
    assert world.snapshot(epoch).open
    say(world, "aborted")
    say(world, "begun", "r2", apps=("a",))
    failure = world.snapshot(epoch).failure
    assert failure is not None and (failure.code, failure.culprit) == (RESTORING, "plan r2")
    assert world.snapshot(other).failure is not None


def test_a_trigger_between_begun_and_done_is_no_epoch_and_fails_by_name(world: World) -> None:
    b = Process(world, "b", (B,))
    opened(world)
    epoch = world.trigger()
    other = world.trigger("other", apps=("a",))
    failure = world.snapshot(epoch).failure
    assert failure is not None and failure.code == RESTORING and "plan r of snapshot s" in failure.reason
    assert not world.fold.is_epoch(epoch) and world.fold.highest_epoch == other
    b.catch_up()
    assert b.machine.colours.epoch == other


# -- the commit point -----------------------------------------------------------------------------------------------


def test_only_the_latest_author_commits(world: World) -> None:
    first = opened(world)
    say(world, "begun")  # a run takes over, and has no author yet
    done(world, first, (B, 0))
    second = joins(world)
    say(world, "begun", author=second)
    say(world, "begun", author=first)  # a copy, or late: a newer author is never replaced by an older one
    done(world, first, (B, 1))
    assert not world.fold.restores.bases and not world.fold.is_alive(first) and world.fold.is_alive(second)
    done(world, second, (B, 2))
    done(world, second, (B, 3))
    assert world.fold.restores.bases == {B: Base("r", second, 2, ("b",))}


def test_a_plan_in_parts_is_done_with_its_last_part(world: World) -> None:
    author = opened(world)
    done(world, author, (B, 2), part=1, parts=2)
    say(world, "begun", "other")  # one at a time
    assert world.fold.restores.open is world.fold.restores.views["r"] and not world.fold.restores.bases
    done(world, author, (A, 1), part=0, parts=2)
    assert {tp: base.end for tp, base in world.fold.restores.bases.items()} == {A: 1, B: 2}
    assert not world.fold.restores.holds("b")
    say(world, "aborted")  # too late
    assert [view.stage for view in world.fold.restores.views.values()] == ["done"]


def test_who_ran_before_the_commit_point_takes_another_identity(world: World) -> None:
    b, a = Process(world, "b", (B,)), Process(world, "a", (A,))
    settle(a, b)
    was, stays = b.id, a.id
    author = opened(world)
    late = Process(world, "b", join=False)
    done(world, author, (B, 0))
    b.catch_up()
    a.catch_up()
    assert b.machine.process is None
    assert a.id == stays
    assert not world.fold.is_alive(was)
    late.join()
    late.catch_up()
    assert late.machine.process is not None and late.machine.process > author


# -- no way back by forgetting ----------------------------------------------------------------------------------------


def appending(world: World, *places: tuple[TopicPartition, int], plan: str = "r", **fields: Any) -> int:
    """A plan that is about to append behind these ends; its author."""
    author = opened(world, plan, **fields)
    say(world, "appending", plan, author=author, ends=log_ends(*places))
    return author


def open_plan(world: World) -> RestoreView | None:
    return world.fold.restores.open


def test_a_plan_is_replaced_by_one_that_names_it_and_covers_what_it_appended(world: World) -> None:
    appending(world, (B, 2))
    first = world.fold.restores.views["r"]
    assert (first.stage, first.appended) == ("appending", {B: 2})
    say(world, "begun", "other")
    assert open_plan(world) is world.fold.restores.holds("b") is first, "one at a time"
    say(world, "begun", "other", replaces="r")
    other = open_plan(world)
    assert other is not None and (other.plan, other.leaves) == ("other", frozenset({B}))
    assert (first.stage, first.open) == ("aborted", False)
    say(world, "aborted", "other")
    assert world.fold.restores.open is other, "what the first one left is still there"
    author = joins(world)
    say(world, "begun", "other", author=author)
    done(world, author, (A, 1), plan="other")
    assert not world.fold.restores.bases
    again = joins(world)
    say(world, "begun", "other", author=again)
    done(world, again, (A, 1), (B, 5), plan="other")
    assert world.fold.restores.bases[B].end == 5


def test_an_open_plan_leaves_what_those_it_replaces_have_appended_too(world: World) -> None:
    appending(world, (B, 2))
    appending(world, (A, 3), plan="two", replaces="r")
    say(world, "begun", "three", replaces="two")
    view = open_plan(world)
    assert view is not None and view.leaves == {A, B}


# -- void records ---------------------------------------------------------------------------------------------------


def test_what_an_earlier_process_appends_behind_the_base_is_void(world: World) -> None:
    b, a = Process(world, "b", (B,)), Process(world, "a", (A,))
    settle(a, b)
    first = opened(world)
    say(world, "begun")  # a run takes over, and has no author yet
    done(world, first, (B, 0))
    second = joins(world)
    say(world, "begun", author=second)
    done(world, second, (B, 5))
    fold = world.fold
    assert [it for it in (b.id, a.id, first, second) if fold.is_void(it, B, 5)] == [b.id, first]
    assert not fold.is_void(b.id, B, 4)  # of the time before
    assert not fold.is_void(b.id, A, 9)  # the restore did not touch that


# -- positions per agent ----------------------------------------------------------------------------------------------


def restored(world: World, *positions: AgentPosition) -> None:
    author = opened(world)
    done(world, author, (B, 0), positions=positions)


def test_a_snapshot_right_after_a_restore_has_a_position_for_each_agent(world: World) -> None:
    """The group has one offset, the lowest of its agents; without the rules all of them would stand there."""
    restored(world, at(2, agent="x"), at(0, 1, agent="y"))
    b = Process(world, "b", (B,), assign=False)
    b.give(B, agents=("x", "y", "z"))
    epoch = world.take(b)
    (found,) = world.fold.captured(epoch).inputs
    agents = [(p.agent, p.offset, p.started_above) for p in sorted(found.agents, key=lambda it: it.agent)]
    assert agents == [("x", 2, ()), ("y", 0, (1,)), ("z", 0, ())]


# -- topics that were recreated since ---------------------------------------------------------------------------------

CHANGELOG = TopicPartition("b-t-changelog", 0)


def names(world: World, app: str, topic: str, topic_id: str) -> int:
    """A process of an app joins, which reads this topic; its id."""
    source = InputTopic(topic=topic, partitions=1, topic_id=topic_id)
    return world.append(Hello(n=world.number(), app=app, inputs=(source,)))


def restored_b(world: World) -> int:
    """App b is restored: its agent skips what lies below 4 of topic b, and its base there is 9; the author."""
    author = opened(world)
    ids = tuple(TopicId(topic=tp.topic, topic_id=f"{tp.topic}-1") for tp in (B, CHANGELOG))
    done(world, author, (B, 9), (CHANGELOG, 3), positions=(at(4),), topics=ids)
    return author


def test_rules_of_a_restore_are_over_when_their_topic_was_recreated(world: World) -> None:
    """Else agents skip records that nobody has processed, and a group without offsets starts in the midst of them."""
    before = names(world, "b", "b", "b-1")
    author = restored_b(world)
    early = world.trigger("early")
    names(world, "b", "b", "b-2")
    fold = world.fold
    assert fold.restores.rules("b", B) == {}
    assert fold.restores.starts("b") == {}
    assert fold.restores.bases[B] == Base("r", author, 0, ("b",)), "all of it is of the time since"
    assert fold.is_void(before, B, 0), "that one still does not know of the restore"
    assert fold.restores.bases[CHANGELOG] == Base("r", author, 3, ("b",)), "that one is the same topic"
    late = world.trigger("late")
    names(world, "b", "b", "b-3")
    assert [fold.restores.bases_below(epoch)[B].end for epoch in (early, late)] == [9, 0]
    assert fold.restores.restored("b") == {"r"}


def test_where_they_start_is_known_behind_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many restores of others came later, and whoever reads: a worker that starts a year after it, too."""
    monkeypatch.setattr("snapkafka.protocol.ledger_state.KEEP_LEFT", 0)
    world = World(fold=LedgerState(history=False))
    restored(world, at(4, 6, agent="x"), at(2, agent="y"))
    for number in range(3):
        author = opened(world, f"of c {number}", apps=("c",))
        done(world, author, (A, number), plan=f"of c {number}", apps=("c",))
    late = behind(world.ledger, history=False, chunk=3, snapshots=1)
    assert late.restores.starts("b") == {B: 2} == world.fold.restores.starts("b")
    assert late.restores.rules("b", B) == world.fold.restores.rules("b", B) != {}


def test_a_snapshot_knows_the_bases_of_the_restores_before_it(world: World) -> None:
    b = Process(world, "b", (B,))
    before = world.take(b, name="before")
    say(world, "begun", "in vain")
    say(world, "aborted", "in vain")
    restored(world, at(0))
    b = Process(world, "b", (B,))
    after = world.take(b, name="after")
    assert world.fold.captured(before).bases == ()
    (base,) = world.fold.captured(after).bases
    assert (base.topic, base.partition, base.end, base.plan, base.apps) == (*B, 0, "r", ("b",))


# -- forks: what belongs to one, and what its ledger states of it --------------------------------------------------


P = "fork.staging."


@pytest.mark.parametrize("name", ["orders", f"{P}orders", f"by-{P}orders-key-repartition"])
def test_a_name_is_translated_once(name: str) -> None:
    found = prefixed("staging", name)
    assert found.startswith(P)
    assert found.count(P) == 1
    assert prefixed("staging", found) == found


def test_no_fork_has_the_names_of_another() -> None:
    assert not of_fork("a", prefixed("a-b", "orders"))
    assert of_fork("a", "_snapkafka.fork.a.shop")
    assert not of_fork("a", "_snapkafka.shop")
    names = ["_snapkafka.fork.a-b.shop", "fork.a.x", "orders", "fork.", "a.b"]
    assert [fork_of(name) for name in names] == ["a-b", "a", "", "", ""]
    assert [bool(fork_problem(name)) for name in ("a-1", "", "a.b", "a_b", "x" * 41)] == [False, *[True] * 4]


def test_a_checkpoint_keeps_whose_fork_a_ledger_is_of() -> None:
    begun = Fork(n=1, plan="p", fork="a")
    assert behind([begun, Fork(n=2, plan="q", fork="b"), Pause(n=5, paused=True)]).fork == begun
