"""`fork create --with-inputs` where production's log has lost external records, or is another one by now."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import ForkRefusedError
from snapkafka.manifest_entries import ExternalEntry
from tests.worlds.fakes import FakeTopic
from tests.worlds.forks import Fork, takes
from tests.worlds.recovery import IN, RAW, delete, save, with_inputs

STORED = (("in", 1, 7), ("raw", 2, 9))


async def plan(fork: Fork, **options: Any) -> ops.RecoveryPlan:
    return await fork.plan(**options)


async def test_external_records_that_production_has_deleted_come_from_the_snapshot(fork: Fork) -> None:
    with_inputs(fork.production, *STORED)
    delete(fork.production, RAW, 5)
    planned = await plan(fork, with_inputs=True)
    assert (planned.messages, planned.stored, planned.refusals) == (2, 3, ())
    done = await fork.create(with_inputs=True)
    assert (done.messages, done.inputs) == (2, 2 + 7)
    assert fork.values(IN) == [b"one", b"two, external", b"three", b"five, external"]
    assert fork.values(RAW) == [b"%d" % number for number in range(2, 9)], "each once, in their order"
    assert takes(fork, "c", RAW) == [b"2", *(b"%d" % number for number in range(4, 9))]


async def test_stored_ones_stay_out_of_a_fork_without_inputs(fork: Fork) -> None:
    with_inputs(fork.production, *STORED)
    delete(fork.production, RAW, 5)
    assert (await plan(fork)).stored == 0
    done = await fork.create()
    assert (done.messages, done.inputs) == (2, 0)
    assert fork.values(RAW) == []


async def test_the_topic_of_stored_ones_may_be_deleted(fork: Fork) -> None:
    with_inputs(fork.production, *STORED)
    del fork.production.admin.topics["raw"]
    assert (await plan(fork, with_inputs=True)).stored == 7
    await fork.create(with_inputs=True)
    assert fork.values(RAW) == [b"%d" % number for number in range(2, 9)]


async def test_stored_ones_are_kept_by_the_topics_of_the_fork(fork: Fork) -> None:
    """Their times are old: retention as production has it would delete them at once."""
    with_inputs(fork.production, *STORED)
    delete(fork.production, RAW, 5)
    settings = {"cleanup.policy": "delete", "retention.ms": "1000"}
    fork.production.admin.settings["raw"] = settings
    changed = {it.of: it.changed for it in (await plan(fork, with_inputs=True)).topics}
    assert changed["raw"] == {"retention.ms": "-1"}


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (lambda it: delete(it, RAW, 5), "offsets-gone"),
        (lambda it: it.admin.topics.pop("raw"), "topic-missing"),
        (lambda it: it.admin.topics.update(raw=FakeTopic(2, "0" * 32)), "partitions-changed"),
        (lambda it: it.admin.topics.update(raw=FakeTopic(1, "1" * 32)), "topic-recreated"),
    ],
)
async def test_records_that_are_lost_are_not_left_out_silently(
    fork: Fork, harm: Callable[[Any], None], code: str
) -> None:
    world = fork.production
    old = world.manifest
    inputs = tuple(dataclasses.replace(cut, topic_id="0" * 32) for cut in old.captured.inputs)
    found = dataclasses.replace(
        old,
        captured=dataclasses.replace(old.captured, inputs=inputs),
        external=(ExternalEntry(topic="raw", mixed=False),),
    )
    save(world, found)
    assert (await plan(fork, with_inputs=True)).refusals == ()
    harm(world)
    before = fork.fingerprint()
    (refusal,) = (await plan(fork, with_inputs=True)).refusals
    assert (refusal.code, "leave out --with-inputs" in refusal.hint) == (code, True)
    with pytest.raises(ForkRefusedError, match=code):
        await fork.create(with_inputs=True)
    assert fork.fingerprint() == before
    assert not fork.ledgers
    assert (await plan(fork)).refusals == (), "without external records nothing of it is needed"
