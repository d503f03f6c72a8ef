"""Two ledger keys in one namespace: who is refused by the others takes no part and knows it, and the snapshot names it
(design, 12). Each process signs with its first key and accepts all of its own."""

from __future__ import annotations

from itertools import permutations

import pytest

from snapkafka.protocol import Bye, Captured, Dead, Hello, LedgerRead, LedgerRecord, LedgerState, Refused
from snapkafka.protocol.cut import left_since
from snapkafka.protocol.refusals import KEEP_REFUSED

from .world import A, B, Process, World

OLD, NEW = "old", "new"
Keys = tuple[str, ...]
#: What a key is changed by: every process accepts the new one, then signs with it, then forgets the old one.
STAGES: tuple[Keys, ...] = ((OLD,), (OLD, NEW), (NEW, OLD), (NEW,))


class Signed(World):
    """A ledger of which each process sees what its keys accept."""

    def __init__(self) -> None:
        super().__init__()
        self.signer: Keys = (OLD,)
        self.signatures: list[str] = []

    def append(self, record: LedgerRecord) -> int:
        self.signatures.append(self.signer[0])
        return super().append(record)

    def seen_by(self, keys: Keys) -> LedgerState:
        """The fold of a tool with these keys."""
        state = LedgerState()
        for offset, record in enumerate(self.ledger):
            accepted = self.signatures[offset] in keys
            state.apply(offset, record if accepted else None, refused=None if accepted else record)
        return state


class Member(Process):
    """A process with keys."""

    world: Signed

    def __init__(self, world: Signed, app: str, inputs: tuple[object, ...], keys: Keys) -> None:
        self.keys = keys
        super().__init__(world, app, inputs)  # type: ignore[arg-type]

    def do(self, actions: object) -> None:
        self.world.signer = self.keys
        super().do(actions)

    def join_as(self, hello: Hello) -> None:
        self.world.signer = self.keys
        super().join_as(hello)

    def catch_up(self, upto: int | None = None) -> None:
        while self.read < (len(self.world.ledger) if upto is None else upto):
            self.read += 1
            record = self.world.ledger[self.read - 1]
            accepted = self.world.signatures[self.read - 1] in self.keys
            self.feed(
                LedgerRead(
                    offset=self.read - 1,
                    record=record if accepted else None,
                    refused=None if accepted else record,
                )
            )

    @property
    def takes_part(self) -> bool:
        return self.machine.process is not None


@pytest.fixture
def world() -> Signed:
    return Signed()


def settle(*members: Member) -> None:
    before = -1
    while before != len(members[0].world.ledger):
        before = len(members[0].world.ledger)
        for member in members:
            member.catch_up()


def stop(member: Member) -> None:
    from snapkafka.protocol import StopAsked

    member.feed(StopAsked())


def snapshot(world: Signed, name: str, keys: Keys, *members: Member) -> tuple[LedgerState, int]:
    """Somebody with these keys asks; what a tool with them sees then."""
    world.signer = keys
    epoch = world.trigger(name)
    settle(*members)
    return world.seen_by(keys), epoch


def captured(found: tuple[LedgerState, int]) -> Captured:
    state, epoch = found
    assert state.snapshots[epoch].captured_at is not None, state.snapshots[epoch].failure
    return state.captured(epoch)


def test_a_key_is_changed_process_by_process_in_every_order_and_nobody_is_refused(world: Signed) -> None:
    """Three stages, in each of them every order; after each restart a snapshot is taken, by whoever has the key of the
    process that was restarted."""
    taken = 0
    for order in permutations(range(3)):
        world = Signed()
        apps = [("p", (A,)), ("q", (B,)), ("r", (A,))]
        members = [Member(world, app, inputs, STAGES[0]) for app, inputs in apps]
        settle(*members)
        for keys in STAGES[1:]:
            for n in order:
                stop(members[n])
                app, inputs = apps[n]
                members[n] = Member(world, app, inputs, keys)
                settle(*members)
                taken += 1
                cut = captured(snapshot(world, f"s{taken}", members[n].keys, *members))
                assert {p.process for p in cut.processes if not p.left} == {m.id for m in members}
                assert all(member.takes_part for member in members), (order, keys, n)
                assert not any(outsider.refused for outsider in cut.outsiders)
    assert taken == 6 * 9


@pytest.mark.parametrize("keys", [(NEW,), (NEW, OLD)], ids=["accepts-its-own", "accepts-both"])
def test_a_process_with_a_key_that_the_others_do_not_know_takes_no_part_and_says_so(
    world: Signed, keys: Keys
) -> None:
    """A rotation half-way, or an old deployment that comes back: the snapshot names it, and the next one, too, by what
    it sends."""
    p, q = (Member(world, app, inputs, (OLD,)) for app, inputs in (("p", (A,)), ("q", (B,))))
    z = Member(world, "z", (A,), keys)
    who = z.id
    cut = captured(snapshot(world, "first", (OLD,), p, q, z))
    assert [(o.process, o.app, o.refused) for o in cut.outsiders] == [(who, "z", True)]
    assert not z.takes_part
    assert z.machine.withdrawn, "and the driver logs it"
    assert p.takes_part and q.takes_part
    goodbye = [r for r in world.ledger if isinstance(r, Bye) and r.process == who]
    assert [record.goes_on for record in goodbye] == [True], "whoever accepts its key knows of it"
    again = captured(snapshot(world, "second", (OLD,), p, q, z))
    assert [(o.process, o.app, o.refused) for o in again.outsiders] == [(who, "z", False)]


def test_who_is_refused_is_informed_once_by_each_who_refuses_it(world: Signed) -> None:
    """Whether the others accept it nobody knows; and anybody who may write to the ledger can be refused often."""
    p, q = Member(world, "p", (A,), (OLD, NEW)), Member(world, "q", (B,), (OLD,))
    z = Member(world, "z", (A,), (NEW, OLD))
    who = z.id
    settle(p, q, z)
    assert not z.takes_part
    informed = [record for record in world.ledger if isinstance(record, Refused)]
    assert [(record.process, record.hello) for record in informed] == [(q.id, who)], "and p accepts it"
    world.signer = ("a stranger's",)
    for n in range(3 * KEEP_REFUSED):
        world.append(Hello(n=1000 + n, app="noise"))
    settle(p, q)
    for process in (p.id, q.id):
        by = [r for r in world.ledger if isinstance(r, Refused) and r.process == process]
        assert len(by) == len({record.hello for record in by}) <= KEEP_REFUSED


def test_whoever_joins_without_the_key_of_one_that_runs_reports_it(world: Signed) -> None:
    """All others are restarted with the old key only, while it runs with the new one."""
    p = Member(world, "p", (A,), (OLD, NEW))
    z = Member(world, "z", (B,), (NEW, OLD))
    settle(p, z)
    stop(p)
    p = Member(world, "p", (A,), (OLD,))
    settle(p, z)
    assert not z.takes_part
    assert f"process {p.id}" in z.machine.withdrawn


def test_one_that_has_left_gets_no_answer_and_opens_nothing(world: Signed) -> None:
    """Also what the ledger still holds of the time before a key was changed."""
    gone = Member(world, "z", (A,), (OLD,))
    stop(gone)
    p = Member(world, "p", (A,), (NEW,))
    cut = captured(snapshot(world, "first", (NEW,), p))
    assert p.takes_part
    assert [r for r in world.ledger if isinstance(r, Refused)] == []
    assert not any(outsider.refused for outsider in cut.outsiders)


def test_one_that_others_have_taken_for_dead_opens_nothing(world: Signed) -> None:
    """By a record that counts, or by one that is refused as well."""
    p = Member(world, "p", (A,), (OLD,))
    for n, key in enumerate((OLD, NEW)):
        world.signer = (NEW,)
        gone = world.append(Hello(n=100 + n, app="z"))
        world.signer = (key,)
        world.append(Dead(n=200 + n, dead=gone))
    found = snapshot(world, "first", (OLD,), p)
    assert [(o.app, o.harmless, o.refused) for o in captured(found).outsiders] == [("z", False, False)] * 2, (
        "it opens nothing by its name; what it sent does, for a stranger may have stated that it is dead"
    )
    world.signer = (NEW,)
    world.append(Hello(n=300, app="later"))
    assert world.seen_by((OLD,)).captured(found[1]) == captured(found), "of now nothing is used for then"


def test_what_external_processes_write_with_the_ids_of_others_makes_nobody_leave(world: Signed) -> None:
    """Copies of what accepted processes wrote, whose signature is stale, and records of before it joined."""
    p = Member(world, "p", (A,), (OLD,))
    q = Member(world, "q", (B,), (OLD,))
    captured(snapshot(world, "first", (OLD,), p, q))
    for record in list(world.ledger):
        world.signer = ("stale",)
        world.append(record)
    settle(p, q)
    stop(q)
    settle(p)
    late = Member(world, "q", (B,), (OLD,))
    captured(snapshot(world, "second", (OLD,), p, late))
    assert p.takes_part and late.takes_part


def test_r8_who_left_counts_though_its_signature_is_refused() -> None:
    """Its last records may lie behind log ends that were asked for before; an assembly with both keys knows it."""
    state = LedgerState()
    state.apply(0, None, refused=Hello(n=1, app="p"))
    state.apply(1, None, refused=Bye(process=0, n=2))
    assert left_since(state, 1)
    assert not left_since(state, 2)
