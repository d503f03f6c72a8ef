"""Records of inputs that were deleted since a snapshot: refused, unless its own processes wrote all that is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from snapkafka.errors import ForkRefusedError, RestoreFailedError, RestoreRefusedError
from snapkafka.manifest_entries import ExternalEntry
from snapkafka.protocol import SenderEnd
from snapkafka.wire import headers as wire
from tests.worlds.forks import Fork
from tests.worlds.new_cluster import New
from tests.worlds.recovery import EPOCH, IN, LEDGER, RAW, SENDER, World, delete, save


def rewritten(world: World, senders: Iterable[int]) -> None:
    """Let these processes (-1: somebody outside) have written `in`; the snapshot was taken after 0 to 3."""
    world.log.records[IN].clear()
    numbers: dict[int, int] = {}
    for offset, by in enumerate(senders):
        world.log.put(IN, b"k", b"%d" % offset)
        if by >= 0:
            seq = numbers[by] = numbers.get(by, -1) + 1
            stamp = wire.stamp(LEDGER, wire.tp_check(*IN), EPOCH if offset > 3 else 0, by, seq)
            world.log.records[IN][-1] = world.log.records[IN][-1]._replace(headers=((wire.HEADER, stamp),))
        if offset == 3:
            captured, last = world.manifest.captured, numbers.get(SENDER)
            ends = (
                ()
                if last is None
                else (SenderEnd(process=SENDER, topic="in", partition=0, white_end=4, last_seq=last),)
            )
            agents = tuple(dataclasses.replace(at, offset=3) for at in captured.inputs[0].agents)
            inputs = (dataclasses.replace(captured.inputs[0], position=3, agents=agents), captured.inputs[1])
            captured = dataclasses.replace(captured, senders=(*captured.senders, *ends), inputs=inputs)
            world.manifest = dataclasses.replace(world.manifest, captured=captured)
    save(world, world.manifest)


def codes(plan: Any) -> list[tuple[str, bool]]:
    return [(item.code, item.forceable) for item in plan.refusals]


@pytest.mark.parametrize("known", [(), (ExternalEntry(topic="raw", mixed=False),)])
async def test_external_records_that_are_gone_are_a_reason_to_refuse(
    world: World, known: tuple[ExternalEntry, ...]
) -> None:
    """Whether or not the assembly met one in the window of the snapshot."""
    save(world, dataclasses.replace(world.manifest, external=known))
    delete(world, RAW, 5)
    before = world.fingerprint()
    assert codes(await world.plan()) == [("offsets-gone", False)]
    with pytest.raises(RestoreRefusedError, match="offsets-gone"):
        await world.restore(force=True)
    assert world.fingerprint() == before


#: A process of the snapshot, one that joined since, and nobody of them.
A, B, OUT = SENDER, 99, -1


@pytest.mark.parametrize(
    ("senders", "below", "expected"),
    [
        ((A, A, A, A, A, A), 4, []),  # what is gone is in flight
        ((A, A, A, A, OUT, A), 4, []),
        ((A, A, A, A, OUT, A), 5, [("offsets-gone", True)]),
        ((A, A, A, A, A, A, A, A), 6, []),  # 4 and 5 by the process of the snapshot
        ((A, A, A, A, A, B, A, B), 6, []),  # and by one that joined since
        ((A, A, A, A, OUT, B, A, B), 6, [("offsets-gone", True)]),
        ((A, A, A, A, A, B, B, B), 6, [("offsets-gone", True)]),  # nothing of the first one is left to tell
        ((A, A, A, A, A, A), 6, [("offsets-gone", True)]),  # nothing at all
        ((OUT, OUT, OUT, OUT, A, A, A), 6, []),
        ((OUT, OUT, OUT, OUT, OUT, A, A), 6, [("offsets-gone", False)]),
    ],
)
async def test_what_processes_of_the_snapshot_wrote_is_not_missed(
    world: World, senders: tuple[int, ...], below: int, expected: list[tuple[str, bool]]
) -> None:
    rewritten(world, senders)
    delete(world, IN, below)
    assert [it for it in codes(await world.plan()) if it[0] == "offsets-gone"] == expected


async def test_readers_do_not_go_back_to_where_the_log_has_begun_since(world: World) -> None:
    """Only external records are left, so nothing would be appended; the group would be set to a deleted offset."""
    rewritten(world, (A, A, A, A, OUT, OUT))
    save(world, dataclasses.replace(world.manifest, external=(ExternalEntry(topic="in", mixed=True),)))
    delete(world, IN, 4)
    await world.restore()
    assert world.taken("a") == world.taken("b") == [b"three", b"4", b"5"]
    assert world.admin.commits["app"][IN] >= 6


async def test_a_forced_doubt_appends_what_is_left(world: World) -> None:
    rewritten(world, (A, A, A, A, A, B, B, B))
    delete(world, IN, 6)
    await world.restore(force=True)
    assert world.taken("a") == [b"three"]


async def test_events_that_run_again_are_counted_in_the_log(world: World) -> None:
    """It is compacted: of 2 to 8, two are left."""
    world.log.removed = {(RAW, offset) for offset in (2, 4, 5, 6, 7)}
    again = {move.topic: move.again for move in (await world.plan()).moves}
    assert again["raw"] == 2


@pytest.mark.parametrize("step", ["channels", "compare"])
async def test_what_is_deleted_while_a_restore_runs_is_not_committed(world: World, step: str) -> None:
    def crash(at: str) -> None:
        if at == step:
            delete(world, RAW, 5)

    with pytest.raises(RestoreFailedError, match="offsets-gone"):
        await world.restore(crash=crash)
    assert not world.state().restores.bases
    assert world.admin.commits["app"] == {IN: 7, RAW: 9}


async def test_a_fork_with_inputs_misses_nothing_either(fork: Fork) -> None:
    delete(fork.production, RAW, 5)
    assert codes(await fork.plan(with_inputs=True)) == [("offsets-gone", False)]
    with pytest.raises(ForkRefusedError, match="offsets-gone"):
        await fork.create(with_inputs=True)
    assert codes(await fork.plan()) == []


async def test_a_fork_copies_nothing_incomplete_where_records_are_deleted_meanwhile(fork: Fork) -> None:
    def crash(at: str) -> None:
        if at == "channels":
            delete(fork.production, RAW, 5)

    with pytest.raises(RestoreFailedError, match="offsets-gone"):
        await fork.create(with_inputs=True, crash=crash)


async def test_another_cluster_that_has_lost_what_came_in_is_refused(new: New) -> None:
    with pytest.raises(Exception, match="killed"):
        await new.restore(crash=killed_at("author"))
    for number in range(3):
        new.log.put(RAW, b"r", b"%d" % number)
    assert codes(await new.plan()) == []
    new.admin.starts = new.log.starts = {RAW: 2}
    assert codes(await new.plan()) == [("offsets-gone", False)]


def killed_at(step: str) -> Callable[[str], None]:
    def crash(at: str) -> None:
        if at == step:
            raise RuntimeError("killed")

    return crash
