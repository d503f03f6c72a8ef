"""Every reason to refuse, by kind: it is in the plan by its code, and nothing is changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import BadInputError, ForkRefusedError, RestoreRefusedError
from snapkafka.manifest import ExternalEntry, TopicEntry
from snapkafka.ports import Topic
from snapkafka.protocol import Hello, InputTopic, Restore, Table
from snapkafka.protocol.offsets import Agent
from tests.unit.base.test_manifest import example
from tests.worlds.copies import NEW_ID, Fork, New
from tests.worlds.restore import AGENTS, HELLO, IN, LOG, RAW, System, World

Harm = Callable[[Any], object]


def code(**changes: Any) -> Harm:
    """A release of the app that ran since, which differs by these fields of its `Hello`."""
    return lambda world: world.cluster.the_ledger.put(dataclasses.replace(HELLO, n=2, **changes))


def table(**changes: Any) -> dict[str, Any]:
    return {"tables": (dataclasses.replace(HELLO.tables[0], **changes), HELLO.tables[1])}


def settings(topic: str, **changes: str) -> Harm:
    named = {name.replace("_", "."): value for name, value in changes.items()}
    return lambda world: world.admin.settings[topic].update(named)


def topic(name: str, found: Topic | None) -> Harm:
    return lambda it: it.admin.topics.pop(name) if found is None else it.admin.topics.update({name: found})


def changelog(number: int, **changes: Any) -> Harm:
    """A changelog of the snapshot that differs by these fields."""

    def change(world: World) -> None:
        cuts = list(world.manifest.captured.changelogs)
        cuts[number] = dataclasses.replace(cuts[number], **changes)
        world.change(changelogs=tuple(cuts))

    return change


def changelog_as_input(world: World) -> None:
    inputs = world.manifest.captured.inputs
    world.change(inputs=(*inputs, dataclasses.replace(inputs[1], topic=LOG.topic)))


def external_gone(world: World) -> None:
    world.change(external=(ExternalEntry(topic="raw", mixed=False),))
    world.admin.starts[RAW] = 3


def damaged(world: World) -> None:
    next(iter(Path(world.store.root).rglob("*.parquet"))).write_bytes(b"")


OPEN = Restore(n=1, plan="other", stage="begun", snapshot="monday", apps=("app",))
OLDER = Hello(n=2, app="app", inputs=(InputTopic(topic="in", partitions=1),))
IN_PLACE: list[tuple[str, Harm]] = [
    ("verdict", lambda world: world.change(verdict="INCONSISTENT")),
    ("files", damaged),
    ("no-apps", lambda world: world.change(inputs=(), changelogs=())),
    ("ledger-recreated", lambda world: setattr(world.cluster.the_ledger, "topic_id", "1" * 32)),
    ("topic-missing", topic("raw", None)),
    ("partitions-changed", topic("raw", Topic(2))),
    ("topic-recreated", changelog(0, topic_id="7" * 32)),
    ("offsets-gone", external_gone),
    ("topic-settings", settings("in", message_timestamp_before_max_ms="1000")),
    ("topic-settings", settings("in", cleanup_policy="delete", retention_ms="1000")),
    ("topic-settings", settings("in", max_message_bytes="100")),
    ("topic-settings", settings(LOG.topic, max_message_bytes="10")),
    ("app-unknown", lambda world: world.entries.clear()),
    ("table-missing", lambda world: world.cluster.the_ledger.put(OLDER)),
    ("input-missing", lambda world: world.cluster.the_ledger.put(OLDER)),
    ("agent-missing", code(agents=AGENTS[1:])),
    ("agent-changed", code(agents=(dataclasses.replace(AGENTS[0], value_type="Other"), *AGENTS[1:]))),
    *(
        ("table-changed", code(**table(**changes)))
        for changes in (
            {"value_type": "str"},
            {"kind": "GlobalTable"},
            {"key_codec": "raw"},
            {"value_codec": "pickle", "value_type": ""},
            {"windowed": True},
        )
    ),
    ("set-codec", changelog(1, value_codec="pickle")),
    ("changelog-is-input", changelog_as_input),
    ("remote-process", changelog(0, topic="_snapkafka-state.shop.till")),
    ("plan-open", lambda world: world.ledger.put(dataclasses.replace(OPEN, apps=("app", "other")))),
    ("plan-open", lambda world: world.ledger.put(dataclasses.replace(OPEN, origin="7" * 32))),
    ("log-shortened", lambda world: world.log.records[LOG].__delitem__(slice(1, None))),
    ("group-has-members", lambda world: world.admin.member_counts.extend([2] * 99)),
]


def in_ledger(new: New, *records: Any) -> object:
    new.ledger.exists = True
    return [new.ledger.put(record) for record in records]


SMALL = {"in": {"max.message.bytes": "10"}}
LONG = TopicEntry(name="x" * 240, topic_id="", partitions=1)
OURS = dataclasses.replace(example().ledger, topic_id=NEW_ID)
CLUSTER: list[tuple[str, Harm]] = [
    ("verdict", lambda new: new.old.change(verdict="UNVERIFIABLE")),
    ("files", lambda new: damaged(new.old)),
    ("topic-not-empty", lambda new: (new.admin.topics.update(raw=Topic(1)), new.log.put(RAW, b"", b""))),
    ("partitions-changed", topic("raw", Topic(3))),
    ("group-has-members", lambda new: new.admin.member_counts.extend([2] * 99)),
    ("plan-open", lambda new: in_ledger(new, OPEN)),
    ("same-cluster", lambda new: (in_ledger(new), new.old.change(ledger=OURS))),
    ("table-missing", lambda new: in_ledger(new, None, dataclasses.replace(HELLO, tables=HELLO.tables[:1]))),
    ("topic-settings", lambda new: (topic("in", Topic(1))(new), new.admin.settings.update(SMALL))),
]
FORK: list[tuple[str, Harm]] = [
    ("verdict", lambda fork: fork.production.change(verdict="INCONSISTENT")),
    ("files", lambda fork: damaged(fork.production)),
    ("fork-exists", topic("fork.staging.mine", Topic(1))),
    ("fork-exists", lambda fork: fork.admin.commits.update({"fork.staging.mine": {IN: 1}})),
    ("name-too-long", lambda fork: fork.production.change(topics=(LONG,))),
    ("group-has-members", lambda fork: fork.admin.member_counts.extend([2] * 99)),
]


async def refused(system: System, code: str, harm: Harm, **options: Any) -> None:
    harm(system)
    planned = await system.plan(**options)
    assert code in {refusal.code for refusal in planned.refusals}
    assert all(refusal.hint for refusal in planned.refusals)
    with pytest.raises((RestoreRefusedError, ForkRefusedError)):
        await system.do(planned)


@pytest.mark.parametrize(
    ("system", "code", "harm"),
    [(kind, *it) for kind, of in (("in-place", IN_PLACE), ("cluster", CLUSTER), ("fork", FORK)) for it in of],
    indirect=["system"],
)
async def test_each_reason(system: System, code: str, harm: Harm) -> None:
    await refused(system, code, harm)


@pytest.mark.parametrize(
    ("code", "harm"),
    [
        ("topic-missing", topic("raw", None)),
        ("partitions-changed", topic("raw", Topic(2, "0" * 32))),
        ("topic-recreated", topic("raw", Topic(1, "1" * 32))),
    ],
)
async def test_a_fork_with_inputs_needs_the_topics_of_production(fork: Fork, code: str, harm: Harm) -> None:
    inputs = fork.production.manifest.captured.inputs
    fork.production.change(inputs=tuple(dataclasses.replace(cut, topic_id="0" * 32) for cut in inputs))
    assert (await fork.plan(with_inputs=True)).refusals == ()
    await refused(fork, code, harm, with_inputs=True)
    assert (await fork.plan()).refusals == (), "without external records nothing of it is needed"


async def test_a_cluster_into_which_it_was_restored_is_refused(new: New) -> None:
    await new.restore()
    await refused(new, "restored-already", lambda new: None)


async def test_a_request_that_makes_no_sense_is_refused(new: New, fork: Fork) -> None:
    for system, wrong in ((new, {"storage": ""}), (fork, {"fork": "a.b"})):
        with pytest.raises(BadInputError):
            await system.plan(**wrong)


async def test_force_overrides_the_verdict_and_nothing_else(world: World) -> None:
    world.change(verdict="VERIFIED_WITH_REPLAYS")
    world.admin.member_counts = [1]
    assert [refusal.code for refusal in (await world.plan(force=True)).refusals] == ["group-has-members"]
    world.admin.member_counts = []
    await world.restore(force=True)
    world.holds_the_snapshot()


async def test_code_that_reads_all_of_it_is_no_reason(world: World) -> None:
    """It has more; or it announced no agents."""
    agents = (*AGENTS, Agent(name="new", topics=("in",)))
    tables = (*HELLO.tables, Table(name="n", changelog="app-n-changelog", partitions=1))
    for changes in ({"agents": agents, "tables": tables}, {"agents": ()}):
        code(**changes)(world)
        assert (await world.plan()).refusals == ()


async def test_waiting_for_the_groups_ends_when_their_last_member_leaves(world: World) -> None:
    world.admin.member_counts = [1, 1]
    await ops.await_workers(world.cluster, "shop", "friday", storage=str(world.store.root), wait_s=30)
    assert (world.admin.member_counts, (await world.plan()).refusals) == ([], ())
