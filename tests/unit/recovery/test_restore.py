"""`restore` on a log in memory: what it refuses, what it appends, where the agents start, and a crash at every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import RestoreFailedError, RestoreRefusedError
from snapkafka.kafka import KafkaRecord
from snapkafka.manifest_entries import ExternalEntry
from snapkafka.protocol import Agent, Hello, InputTopic, Position, Table
from snapkafka.recovery import NewRecord
from snapkafka.recovery.appending import Author
from snapkafka.recovery.positions import Appended, moved
from snapkafka.wire import headers as wire
from tests.worlds.fakes import FakeTopic
from tests.worlds.recovery import (
    AGENTS,
    EPOCH,
    HELLO,
    IN,
    LEDGER,
    LOG,
    RAW,
    SETS,
    STEPS,
    CrashError,
    World,
    crash_at,
    holds_the_snapshot,
    manifest_with,
    save,
)

# --- Positions ------------------------------------------------------------------------------------------------------


def position(offset: int, *above: int) -> Position:
    return Position(agent="a", topic="in", partition=0, offset=offset, started_above=above)


@pytest.mark.parametrize(
    ("old", "appended", "new"),
    [
        (position(5), [], (100, ())),
        (position(1), [(1, 100), (3, 101)], (100, ())),
        (position(3), [(1, 100), (3, 101)], (101, ())),
        (position(4), [(1, 100), (3, 101)], (102, ())),
        (position(1, 3), [(1, 100), (3, 101), (4, 102)], (100, (101,))),
        (position(3), [(1, 101), (3, 102)], (100, (101,))),  # somebody else appended at 100 meanwhile
        (position(4), [(1, 100), (3, 102)], (101, (102,))),
    ],
)
def test_a_position_is_translated_and_skips_nothing_of_others(
    old: Position, appended: list[tuple[int, int]], new: tuple[int, tuple[int, ...]]
) -> None:
    assert moved(old, 100, [Appended(*item) for item in appended]) == new


# --- The whole ------------------------------------------------------------------------------------------------------


async def test_an_app_is_restored(world: World) -> None:
    before = {tp: len(found) for tp, found in world.log.records.items()}
    done = await world.restore()
    holds_the_snapshot(world)
    assert (done.messages, done.inputs, done.state, done.resumed) == (2, 2, 5, False)
    assert [(item.topic, item.start, item.end) for item in done.irrevocable] == [("out", 1, 3)]
    state = world.state()
    assert state.restores.open is None
    assert not list(state.living()), "neither those of before nor the restore"
    assert state.restores.bases[IN].end == before[IN]
    assert {*state.restores.views[done.plan].topic_ids} == {tp.topic for tp in (IN, RAW, LOG, SETS)}
    assert len(world.log.records[RAW]) == before[RAW]
    assert world.admin.noted == {f"snapkafka:{done.plan}"}
    changes = [(record.key, record.value) for record in world.log.records[SETS][before[SETS] :]]
    assert changes == [(b'[1,"k"]', b"2"), (b'[2,"k"]', b"3")], (
        "Faust reads no update where values have a type"
    )
    new = world.log.records[IN][before[IN] :]
    assert [record.timestamp_ms for record in new] == [1_001, 1_002, 1_003, 1_005], "their own times"
    assert [record.headers[:2] for record in new] == [
        (("trace", b"7"), ("trace", None)),
        (("trace", b"1"), ("trace", None)),
    ] * 2
    stamps = [wire.read(record.headers[-1][1] or b"", LEDGER, wire.tp_check(*IN)) for record in new]
    assert [(stamp.process, stamp.seq, stamp.cause) for stamp in stamps if stamp] == [
        (done.author, seq, None) for seq in range(4)
    ]


async def test_what_was_in_flight_is_taken_from_the_tables_where_the_log_has_lost_it(world: World) -> None:
    world.admin.starts.update({IN: 2, LOG: 3, SETS: 3})
    world.log.starts = world.admin.starts
    await world.restore()
    assert world.taken("a") == [b"one", b"two, external", b"three", b"five, external"]
    assert world.taken("b") == [b"three", b"five, external"]


async def test_every_row_is_written_where_a_changelog_has_lost_its_beginning(world: World) -> None:
    """`y` was never written again, and its only record is deleted: no record behind the cut names it."""
    untouched = world.log.records[LOG]
    untouched[3] = untouched[3]._replace(key=b'"w"')
    world.admin.starts = world.log.starts = {LOG: 2}
    await world.restore()
    there = {record.key: record.value for record in world.log.records[LOG][2:]}
    assert {key: value for key, value in there.items() if value is not None} == {b'"x"': b"1", b'"y"': b"2"}


async def test_every_row_is_written_where_a_changelog_was_compacted_since(world: World) -> None:
    """The tombstone of `y` was removed: its offset is missing, and nothing else shows it."""
    read = world.log.read

    def compacted(ranges: Sequence[tuple[str, int, int, int]]) -> Iterator[KafkaRecord]:
        return (it for it in read(ranges) if (it.tp, it.offset) not in {(LOG, 1), (LOG, 3)})

    world.log.read = compacted  # type: ignore[method-assign]
    await world.restore()
    there = {record.key: record.value for record in compacted([(*LOG, 0, len(world.log.records[LOG]))])}
    assert {key: value for key, value in there.items() if value is not None} == {b'"x"': b"1", b'"y"': b"2"}


async def test_it_is_restored_twice(world: World) -> None:
    """The stamps of the first restore tell its copies from external records: the second one does not double them."""
    await world.restore()
    world.log.put(IN, b"e", b"six, external")
    await world.restore()
    assert world.taken("a") == [b"one", b"two, external", b"three", b"five, external", b"six, external"]
    assert world.folded() == {b'"x"': b"1", b'"y"': b"2"}


async def test_without_stamps_nothing_is_committed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Author, "stamped", lambda self, record: record)
    with pytest.raises(RestoreFailedError, match=r"in\[0\] was not appended"):
        await world.restore()
    assert not world.state().restores.bases, "nothing is committed"


@pytest.mark.parametrize("step", STEPS)
async def test_a_rerun_finishes_after_a_crash_at_any_step(world: World, step: str) -> None:
    def crash(at: str) -> None:
        if at == step:
            raise CrashError

    with pytest.raises(CrashError):
        await world.restore(crash=crash)
    assert world.state().restores.open is not None, "workers that start now hold their inputs"
    planned = await world.plan()
    assert (planned.resumes != "", planned.refusals) == (True, ())
    again = await world.restore()
    assert again.resumed
    holds_the_snapshot(world)
    committed = step in ("groups", "done")
    assert (again.messages == -1) == committed, "past the commit point nothing is appended"


async def test_a_rerun_finishes_after_a_crash_between_any_two_appends(world: World) -> None:
    """Each run is killed one append later than the one before; the last one gets through."""
    crashes = 0
    for most in range(20):
        count = 0

        def one_more(record: NewRecord, most: int = most) -> None:
            nonlocal count
            count += 1
            if count > most:
                raise CrashError

        world.log.appended = one_more
        try:
            await world.restore()
            break
        except CrashError:
            crashes += 1
    assert crashes == 7, "what an earlier run has written to changelogs is no difference"
    holds_the_snapshot(world)


async def test_what_is_not_in_the_log_voids_the_attempt(world: World) -> None:
    """A record that another value has in the log than was appended: nothing is committed, and a rerun gets through."""

    def alter(step: str) -> None:
        if step == "compare":
            last = world.log.records[LOG][-1]
            world.log.records[LOG][-1] = last._replace(value=b"other")

    with pytest.raises(
        RestoreFailedError, match=r"table t of app app is not that of the snapshot: key .* is unexpected"
    ):
        await world.restore(crash=alter)
    assert not world.state().restores.open.committed
    await world.restore()
    assert world.folded() == {b'"x"': b"1", b'"y"': b"2"}


@pytest.mark.parametrize("step", STEPS)
async def test_a_restore_is_given_up_only_before_it_has_appended_anything(world: World, step: str) -> None:
    """From then on records lie above the positions, which a worker would take in: it is finished, or replaced."""
    before = {tp: list(found) for tp, found in world.log.records.items() if found}
    positions = {group: dict(found) for group, found in world.admin.commits.items()}
    with pytest.raises(CrashError):
        await world.restore(crash=crash_at(step))
    if STEPS.index(step) <= STEPS.index("quiet"):
        await ops.abort_restore(world.cluster, "shop", reason="a test")
        assert world.state().restores.open is None
        assert {tp: found for tp, found in world.log.records.items() if found} == before
        assert world.admin.commits == positions
    else:
        what = "passed its commit point" if step in ("groups", "done") else "has appended records to app-"
        with pytest.raises(RestoreRefusedError, match=what) as refused:
            await ops.abort_restore(world.cluster, "shop", reason="a test")
        assert "finish it: snapkafka restore friday" in refused.value.advice
        assert world.state().restores.open is not None, "workers hold their inputs until it is finished"
    await world.restore()
    holds_the_snapshot(world)


# --- Refusals -------------------------------------------------------------------------------------------------------


def _damage(world: World) -> None:
    (file,) = (world.store.root / "friday" / "state").glob("*.parquet")
    file.write_bytes(file.read_bytes() + b"x")


def _newer_app(world: World) -> None:
    world.cluster.the_ledger.put(Hello(n=2, app="app", inputs=(InputTopic(topic="in", partitions=1),)))


def _code(**changes: Any) -> Callable[[World], None]:
    """A release of the app that ran since, which differs by these fields of its `Hello`."""

    def run(world: World) -> None:
        world.cluster.the_ledger.put(dataclasses.replace(HELLO, n=2, **changes))

    return run


def _table(**changes: Any) -> dict[str, Any]:
    return {"tables": (dataclasses.replace(HELLO.tables[0], **changes), HELLO.tables[1])}


def _set(topic: str, **settings: str) -> Callable[[World], None]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return lambda world: world.admin.settings.__setitem__(topic, world.admin.settings[topic] | named)


def _topic(name: str, found: FakeTopic | None) -> Callable[[World], None]:
    def change(world: World) -> None:
        del world.admin.topics[name]
        if found is not None:
            world.admin.topics[name] = found

    return change


def _sets_by_pickle(world: World) -> None:
    cuts = world.manifest.captured.changelogs
    pickled = dataclasses.replace(cuts[1], value_codec="pickle")
    save(
        world,
        dataclasses.replace(
            world.manifest,
            captured=dataclasses.replace(world.manifest.captured, changelogs=(cuts[0], pickled)),
        ),
    )


def _changelog_as_input(world: World) -> None:
    cut = dataclasses.replace(world.manifest.captured.inputs[1], topic=LOG.topic)
    both = dataclasses.replace(world.manifest.captured, inputs=(*world.manifest.captured.inputs, cut))
    save(world, dataclasses.replace(world.manifest, captured=both))


def _foreign_state(world: World) -> None:
    cut = dataclasses.replace(
        world.manifest.captured.changelogs[0], app="till", table="foreign", topic="_snapkafka-state.shop.till"
    )
    more = (*world.manifest.captured.changelogs, cut)
    captured = dataclasses.replace(world.manifest.captured, changelogs=more)
    save(world, dataclasses.replace(world.manifest, captured=captured))


def _external_gone(world: World) -> None:

    save(world, dataclasses.replace(world.manifest, external=(ExternalEntry(topic="raw", mixed=False),)))
    world.admin.starts[RAW] = 3


REFUSALS: dict[str, Callable[[World], None]] = {
    "verdict": manifest_with(verdict="INCONSISTENT"),
    "files": _damage,
    "ledger-recreated": lambda world: setattr(world.cluster.the_ledger, "topic_id", "1" * 32),
    "topic-missing": _topic("raw", None),
    "partitions-changed": _topic("raw", FakeTopic(2)),
    "offsets-gone": _external_gone,
    "timestamps": _set("in", message_timestamp_before_max_ms="1000"),
    "retention": _set("in", cleanup_policy="delete", retention_ms="1000"),
    "record-too-large": _set("in", max_message_bytes="100"),
    "app-unknown": lambda world: world.cluster.the_ledger.entries.clear(),
    "table-missing": _newer_app,
    "input-missing": _newer_app,
    "agent-missing": _code(agents=AGENTS[1:]),
    "agent-changed": _code(
        agents=(dataclasses.replace(AGENTS[0], value_type="Order(key: str)"), *AGENTS[1:])
    ),
    "table-changed": _code(**_table(value_type="str")),
    "set-codec": _sets_by_pickle,
    "changelog-is-input": _changelog_as_input,
    "foreign-process": _foreign_state,
    "log-shortened": lambda world: world.log.records[LOG].__delitem__(slice(1, None)),
    "group-has-members": lambda world: world.admin.member_counts.extend([2] * 99),
}


@pytest.mark.parametrize("code", REFUSALS)
async def test_a_refusal_names_its_reason_and_changes_nothing(world: World, code: str) -> None:
    REFUSALS[code](world)
    before = world.fingerprint()
    planned = await world.plan()
    assert code in {refusal.code for refusal in planned.refusals}
    assert all(refusal.hint for refusal in planned.refusals)
    with pytest.raises(RestoreRefusedError, match=f"nothing was changed: .*\\({code}\\)"):
        await world.restore()
    assert world.fingerprint() == before


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (_table(value_type="str"), "table t of app app .* its value type was int and is str"),
        (_table(kind="GlobalTable"), "its kind of table was Table and is GlobalTable"),
        (_table(key_codec="raw"), "its key codec was json and is raw"),
        (
            _table(value_codec="pickle", value_type=""),
            "value codec was json and is pickle, its value type was int and is not declared",
        ),
        (_table(windowed=True), "its windows was false and is true"),
        (
            {"agents": (*AGENTS[:2], dataclasses.replace(AGENTS[2], value_codec="raw"))},
            "agent c of app app .* json and is raw",
        ),
        ({"agents": AGENTS[1:]}, "agent a of app app is no longer in the code"),
    ],
)
async def test_code_that_reads_otherwise_is_named(world: World, changes: dict[str, Any], what: str) -> None:
    _code(**changes)(world)
    with pytest.raises(RestoreRefusedError, match=what):
        await world.restore()


async def test_code_that_only_has_more_is_no_reason(world: World) -> None:
    more = Agent(name="new", topics=("in",))
    _code(
        agents=(*AGENTS, more),
        tables=(*HELLO.tables, Table(name="n", changelog="app-n-changelog", partitions=1)),
    )(world)
    await world.restore()
    holds_the_snapshot(world)


async def test_a_release_that_announced_no_agents_is_compared_by_tables_and_inputs(world: World) -> None:
    _code(agents=())(world)
    await world.restore()
    holds_the_snapshot(world)


async def test_a_committed_plan_of_another_snapshot_is_a_reason_to_refuse(world: World) -> None:
    with pytest.raises(CrashError):
        await world.restore(crash=crash_at("groups"))
    save(world, dataclasses.replace(world.manifest, id="friday", epoch=EPOCH + 1))
    planned = await world.plan(name=str(EPOCH + 1))
    assert {refusal.code for refusal in planned.refusals} == {"plan-open"}


async def test_force_overrides_the_verdict_and_nothing_else(world: World) -> None:
    manifest_with(verdict="VERIFIED_WITH_REPLAYS")(world)
    world.admin.member_counts = [1]
    planned = await world.plan(force=True)
    assert [refusal.code for refusal in planned.refusals] == ["group-has-members"]
    world.admin.member_counts = []
    await world.restore(force=True)
    holds_the_snapshot(world)


async def test_waiting_for_the_groups_ends_when_their_last_member_leaves(world: World) -> None:
    world.admin.member_counts = [1, 1]
    await ops.await_workers(world.cluster, "shop", "friday", storage=str(world.store.root), wait_s=30)
    assert world.admin.member_counts == []
    await world.restore()
    holds_the_snapshot(world)
