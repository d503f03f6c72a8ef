"""What the author of a trigger looks at first (R1, pre-flight; markers are poison for those who do not know them)."""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snapkafka import errors
from snapkafka.kafka import compose_trigger, preflight
from snapkafka.ports import Group
from snapkafka.protocol import Hello, InputTopic, LedgerState, Restore, Table, TopicPartition, Verdict
from snapkafka.protocol.offsets import RunsWithout
from snapkafka.protocol.records import INPUT_UNASSIGNED, Assigned, Bye, Dead, LedgerRecord, Retire, Trigger
from snapkafka.protocol.snapshots import Failure
from tests.worlds.fakes import FakeAdmin, fake_group

Records = tuple[LedgerRecord, ...]
ORDERS = (InputTopic(topic="orders", partitions=2),)
NO_RIGHT, AWAY = errors.LedgerUnusableError("no right"), errors.BrokerUnavailableError("away")


def state_of(*records: Any, assigned: bool = True) -> LedgerState:
    """The ledger with these records, in which every input of a running app has a reader."""
    state = LedgerState()
    for offset, record in enumerate(records):
        state.apply(offset, record)
    for view in [*state.participants()] if assigned else ():
        if tps := [tp for _, tp in state.unassigned([view.hello.app])]:
            inputs = (*state.inputs_read_by(view), *tps)
            state.apply(state.end, Assigned(process=view.process, n=10**9, generation=99, inputs=inputs))
    return state


def refused(reason: str) -> Any:
    return pytest.raises(errors.TriggerRefusedError, check=lambda error: error.facts["reason"] == reason)


SHOP = Hello(n=1, app="shop", inputs=ORDERS, session_ms=20_000)
LEFT = (replace(SHOP, app="till"), Bye(process=1, n=1))
RESTORED = Restore(n=9, plan="r", stage="begun", snapshot="s", apps=("shop",), who="ann@box")
HALF = Assigned(process=5, n=5, generation=2, inputs=(TopicPartition("orders", 1),))
HAS = Assigned(process=0, n=2, generation=1, inputs=tuple(TopicPartition("orders", p) for p in (0, 1)))


async def test_r9_it_waits_a_little_until_every_input_has_a_reader() -> None:
    state = state_of(SHOP, assigned=False)

    async def catch_up() -> None:
        state.apply(state.end, HAS)

    with refused(INPUT_UNASSIGNED):
        await compose_trigger(FakeAdmin(), state)
    assert (await compose_trigger(FakeAdmin(), state, catch_up=catch_up)).asked_at == state.end


#: It was declared dead, and runs on without, as it says; another process of its app has come and gone.
RUNS_ON = Dead(n=3, dead=0), Bye(process=0, n=4, goes_on=True), replace(SHOP, n=5), Bye(process=6, n=6)


@pytest.mark.parametrize(
    ("records", "members", "reason", "named"),
    [
        ((Dead(n=3, dead=0),), ("m0",), "process-lost", "process 0 .*:04Z; Kafka drops it by .*:24Z"),
        ((Dead(n=3, dead=0), replace(SHOP, n=4), HALF), ("m0",), INPUT_UNASSIGNED, "0 .*:04Z; .*:24Z"),
        ((Dead(n=3, dead=0),), ("m0", "m9"), "app-runs-without", "app shop"),
        (RUNS_ON, ("m0",), "app-runs-without", "app shop"),
        ((Dead(n=3, dead=0), replace(SHOP, n=4)), ("m0",), INPUT_UNASSIGNED, "process 5 .* since .*:05Z"),
        ((Dead(n=3, dead=0), RESTORED), ("holder",), "restoring", "plan r .* by ann@box"),
    ],
)
async def test_who_is_to_blame(records: Records, members: tuple[str, ...], reason: str, named: str) -> None:
    """A worker that was killed is a member until its session is over: that is no app without snapkafka."""
    admin = FakeAdmin(known_groups=[fake_group("shop", None, members)], member_counts=[len(members)])
    first = SHOP, replace(HAS, member="m0"), replace(SHOP, n=2, app="till"), replace(HAS, process=2)
    state = state_of(*first, *records, assigned=False)
    with refused(reason) as raised:
        await compose_trigger(admin, state, times_ms={4: 4_000, 5: 5_000})
    assert re.search(named, raised.value.problem)


async def test_it_tells_how_far_the_ledger_was_read_when_the_ends_were_asked_for() -> None:
    """R8: who leaves while the broker is asked may have sent behind the ends."""
    state = state_of(SHOP, Hello(n=2, app="till", inputs=ORDERS))

    class Asked(FakeAdmin):
        async def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
            state.apply(state.end, Bye(process=1, n=1))
            return await super().log_ends(partitions)

    before = state.end
    assert (await compose_trigger(Asked(), state)).asked_at == before < state.end


ENDS = {TopicPartition("orders", p): 5 + p for p in range(3)} | {TopicPartition("clicks", 0): 8}
MORE = replace(HAS, inputs=(*HAS.inputs, TopicPartition("orders", 2)))
GONE = Hello(n=2, app="gone", inputs=(InputTopic(topic="clicks", partitions=1),))
RETIRED = GONE, Bye(process=2, n=1), Retire(n=3, app="gone")


@pytest.mark.parametrize(
    ("records", "known"),
    [
        ((SHOP, MORE), (5, 6, 7)),  # R1, R11: a partition that was added since the app joined
        ((SHOP, MORE, replace(SHOP, app="till"), Bye(process=0, n=9)), (5, 6, 7)),  # and its app has stopped
        ((SHOP, HAS, *RETIRED), (5, 6)),
        ((SHOP, HAS, *RETIRED, replace(GONE, n=4)), (5, 6, 8)),  # it is back
    ],
)
async def test_each_input_has_its_end(records: Records, known: tuple[int, ...]) -> None:
    """Of each app that is not retired."""
    ends = (await compose_trigger(FakeAdmin(ends=ENDS), state_of(*records))).ends
    found = {(it.topic, it.partition): it.end for it in ends}
    assert found == {tp: at for tp, at in ENDS.items() if at in known}


@pytest.mark.parametrize("away", [{"failure": NO_RIGHT}, {"failure": AWAY}, {"delay_s": 5}])
async def test_what_cannot_be_seen_in_time(away: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A trigger has neither ends nor markers then."""
    monkeypatch.setattr(preflight, "LOOK_S", 0.02)
    trigger = await compose_trigger(FakeAdmin(**away), state_of(SHOP))
    assert (trigger.ends, trigger.marker_topics) == ((), ())


def reads(name: str, *members: str) -> Group:
    return fake_group(name, frozenset({"orders"}), members)


OURS, BI, SHARE = reads("shop", "m"), reads("bi", "m"), fake_group("share", None)
CHANGELOG = Table(name="stock", changelog="stock-changelog", partitions=2)
READER = InputTopic(topic="stock-changelog", partitions=2)
TWO = SHOP, replace(SHOP, n=2)


@pytest.mark.parametrize(
    ("records", "groups", "knowing", "marked"),
    [
        ((SHOP,), [], (), True),
        ((SHOP,), [OURS], (), True),  # it said Hello
        ((SHOP,), [OURS, BI], (), False),
        ((SHOP,), [OURS, BI], ("bi",), True),
        ((SHOP,), [fake_group("bi", frozenset({"clicks"}))], (), True),
        ((SHOP,), [SHARE], (), False),  # what it reads cannot be told
        ((SHOP,), [SHARE], ("share",), True),
        ((SHOP,), [reads("snapkafka.ns.shop")], (), True),  # of an earlier one
        # In a roll-out one worker has snapkafka and the next does not yet.
        ((SHOP,), [reads("shop", "one", "two")], (), False),
        (TWO, [reads("shop", "one", "two")], (), True),
        ((*TWO, Bye(process=0, n=1)), [reads("shop", "one", "two")], (), False),
        ((SHOP, Bye(process=0, n=1), replace(SHOP, app="till")), [reads("shop")], (), True),
        ((SHOP,), [reads("bi")], (), False),
        # Not into a changelog that somebody reads: its app would wait for a record at the offset of the marker.
        ((replace(SHOP, tables=(CHANGELOG,)), Hello(n=2, app="bi", inputs=(*ORDERS, READER))), [], (), True),
    ],
)
async def test_markers(records: Records, groups: list[Group], knowing: tuple[str, ...], marked: bool) -> None:
    """They go only where every group knows them."""
    trigger = await compose_trigger(FakeAdmin(known_groups=groups), state_of(*records), knowing=knowing)
    assert trigger.marker_topics == (("orders",) if marked else ())


@pytest.mark.parametrize("more", [(), LEFT, (*LEFT, Retire(n=99, app="till"))])
async def test_groups_are_asked_for_where_they_make_a_difference(more: Records) -> None:
    """Without markers they do so only where an app does not run."""

    class Blind(FakeAdmin):
        groups: Any = None  # it fails who asks

    with pytest.raises(TypeError) if more else contextlib.nullcontext():
        assert not (await compose_trigger(Blind(), state_of(SHOP, *more), markers=False)).marker_topics
    with pytest.raises(TypeError):
        await compose_trigger(Blind(), state_of(SHOP))


STOCK = Table(name="stock", changelog="shop-stock-changelog", partitions=6, copartitioned=True)
GROWN = (InputTopic(topic="orders", partitions=4), InputTopic(topic="refunds", partitions=8))
STAMPS = Hello(n=2, app="tills", inputs=ORDERS, mode="stamp")
LACKING = Hello(n=2, app="payments", missing=("to-pay",))
BEFORE = Hello(n=1, app="shop", inputs=ORDERS, tables=(STOCK,))
FIXED = Hello(n=2, app="shop", inputs=ORDERS, tables=(replace(STOCK, partitions=2),))
DOWN = Bye(process=0, n=2, goes_on=True, reason="failed to stamp a record (RuntimeError())")


@pytest.mark.parametrize(
    ("reason", "records", "apps"),
    [
        ("nobody-runs", (), ()),
        ("nobody-runs", (SHOP, Bye(process=0, n=1)), ()),
        ("unknown-app", (SHOP,), ("tills", "shop")),
        ("no-inputs", (Hello(n=1, app="idle"),), ()),
        ("stamping", (SHOP, STAMPS), ()),
        ("", (SHOP, STAMPS), ("shop",)),
        ("too-many", (SHOP, HAS, *(Trigger(n=10 + i, id=f"s{i}") for i in range(preflight.RUNNING_MAX))), ()),
        ("missing-topic", (LACKING,), ()),
        ("missing-topic", (LACKING, SHOP), ("payments",)),
        ("", (LACKING, SHOP), ()),
        ("", (LACKING, Assigned(process=0, n=1, generation=1, inputs=(TopicPartition("to-pay", 0),))), ()),
        ("partition-counts", (Hello(n=1, app="shop", inputs=GROWN, tables=(STOCK,)), STAMPS), ("shop",)),
        ("partition-counts", (FIXED, BEFORE), ()),
        ("", (BEFORE, FIXED), ()),
        ("", (SHOP, replace(BEFORE, app="stopped"), Bye(process=1, n=1)), ()),
        *(
            ("", (SHOP, Hello(n=2, app="other", inputs=inputs, tables=(table,))), ())
            for inputs, table in (
                (GROWN, replace(STOCK, partitions=8)),  # as many as one of the inputs
                (GROWN, replace(STOCK, copartitioned=False)),  # global, or by a partitioner
                (GROWN, replace(STOCK, partitions=0)),  # not known
                ((), STOCK),  # written by nobody
            )
        ),
        ("withdrawn", (SHOP, DOWN), ()),
    ],
)
async def test_which_triggers_are_refused(reason: str, records: Records, apps: tuple[str, ...]) -> None:
    """robinhood/faust#137, #325: with other partition counts Faust fails at the first write. The ledger has both."""
    with refused(reason) if reason else contextlib.nullcontext():
        assert (await compose_trigger(FakeAdmin(), state_of(*records), apps=apps)).apps == apps


@pytest.mark.parametrize(
    "options",
    [
        {"type": "partial"},
        {"parent": "s"},
        *({"ttl_ms": ms} for ms in (99, 86_400_001)),
        *(
            {"snapshot_id": it}
            for it in ("x" * 201, "a\nb", 7, " s", "--json", "12", "\u0661", "Latest", "main")
        ),
    ],
)
async def test_arguments_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(errors.BadInputError):
        await compose_trigger(FakeAdmin(), state_of(SHOP), **options)


GOOD = "VERIFIED"


@pytest.mark.parametrize(
    ("became", "parent", "found"),
    [
        # The latest verified one, unless asked otherwise.
        ({"old": GOOD, "newer": "VERIFIED_WITH_REPLAYS", "bad": "INCONSISTENT", "last": ""}, "", "newer"),
        ({"old": GOOD, "last": ""}, "last", "last"),  # it may be assembled later
        ({"lost": "failed", "bad": "UNVERIFIABLE"}, "", errors.TriggerRefusedError),
        ({"lost": "failed"}, "lost", errors.TriggerRefusedError),
        ({"old": GOOD}, "x", errors.UnknownSnapshotError),
    ],
)
async def test_what_is_the_parent(became: dict[str, str], parent: str, found: str | type[Exception]) -> None:
    """`became`: snapshots by their ids, each with its verdict; empty: it is captured."""
    state = state_of(SHOP, *(Trigger(n=10 + n, id=name) for n, name in enumerate(became)))
    for view, what in zip(state.snapshots.values(), became.values(), strict=True):
        if what == "failed":
            view.failure = Failure(code="ttl", reason="nobody came")
        else:
            view.captured_at = 99
            view.verdict = Verdict(n=view.epoch, epoch=view.epoch, verdict=what) if what else None
    state.open.clear()
    with pytest.raises(found) if isinstance(found, type) else contextlib.nullcontext():
        composed = await compose_trigger(FakeAdmin(), state, type="incremental", parent=parent)
        assert (composed.type, composed.parent) == ("incremental", found)


async def test_a_storage_is_a_path_from_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for given, expected in (("snaps", f"{tmp_path}/snaps"), ("s3a://bucket/snaps", "s3a://bucket/snaps")):
        assert (await compose_trigger(FakeAdmin(), state_of(SHOP), storage=given)).storage == expected


async def test_apps_out_of_scope_that_run_without_taking_part_are_noted() -> None:
    """A relay that is switched off, one of whose workers is, that is retired and runs; not one that takes part, is
    stopped, in scope, or never joined."""
    joined = (Hello(n=10 + n, app=it) for n, it in enumerate(("off", "half", "retired", "on", "stopped")))
    left = (Bye(process=process, n=1) for process in (1, 3, 5))
    state = state_of(SHOP, *joined, *left, Retire(n=99, app="retired"))
    reads = frozenset({"orders", "more"})
    groups = [
        *(fake_group(name, reads) for name in ("retired", "off", "on", "never")),
        fake_group("shop", reads, ("a", "b")),
        fake_group("half", None, ("a", "b")),
        fake_group("stopped", reads, ()),
    ]
    off, retired = (RunsWithout(app=name, topics=("more", "orders")) for name in ("off", "retired"))
    admin = FakeAdmin(known_groups=groups)
    scoped = await compose_trigger(admin, state, apps=["shop"])
    assert scoped.run_without == (RunsWithout(app="half"), off, retired)
    whole = await compose_trigger(admin, state)
    assert whole.run_without == (retired,), "the others are asked as stopped apps of its scope (R10)"
    unseen = await compose_trigger(FakeAdmin(failure=NO_RIGHT), state, apps=["shop"])
    assert unseen.run_without == ()
