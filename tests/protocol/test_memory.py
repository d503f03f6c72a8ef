"""What is decided leaves no memory behind, measured: all that the machine and the fold hold, in bytes."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable

import pytest

from snapkafka.protocol import Cause, Hello, InputsRevoked, InputTopic, LedgerState, TopicPartition
from snapkafka.protocol.records import Abort, Assigned, Bye, Dead, Pause, Trigger

from .world import A, B, Process, World

HELD, STUCK = TopicPartition("held", 0), TopicPartition("stuck", 0)
SNAPSHOTS = 1000
#: Numbers get longer; an element that stays for each snapshot takes some bytes each time.
TOLERANCE = SNAPSHOTS
WARM = 200  # until then memory may grow: what is remembered of the latest is bounded, not nothing


@pytest.fixture(autouse=True)
def bounds_that_are_reached_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, bound in {"KEEP_NAMES": 50, "KEEP_DECIDED": 10, "KEEP_LEFT": 20}.items():
        monkeypatch.setattr(f"snapkafka.protocol.ledger_fold.{name}", bound)


def size(*things: object) -> int:
    """How much can be reached, in bytes: an element more in any container makes it longer."""
    return len(pickle.dumps(things))


def bystander() -> Process:
    """A process on a ledger that nobody keeps."""
    return Process(World(fold=LedgerState(history=False)), "p", (A,))


def forget(p: Process) -> None:
    """The test keeps nothing either of what the process asks for."""
    p.world.ledger[:-1] = [None] * (len(p.world.ledger) - 1)  # type: ignore[list-item]
    for log in p.world.logs.values():
        log[:] = [None] * len(log)  # type: ignore[list-item]
    p.asked.clear()


def quiet(p: Process, k: int) -> None:
    """Nothing is under way, but its own work."""
    p.end(p.start(A, k))


def sending(p: Process, k: int) -> None:
    """It sends in every colour, and a white send is under way at each cut: it never reports."""
    event = p.start(A, k)
    p.send(B, event, ack=False)
    p.end(event)


def absent_minded(p: Process, k: int) -> None:
    """Its own triggers have names that are taken, so that they are no epochs."""
    if k > 1:
        p.world.append(Trigger(process=p.id, n=10**7 + k, id=f"{k // 2 - 1:06}"))


def stuck(p: Process, k: int) -> None:
    """One event never ends; others go on, and touch one key after the other."""
    if k == 0:
        p.start(STUCK, 0)
    event = Cause("agent", A, k)
    p.machine.event_started(event)
    if p.machine.colours.tearing:
        p.do(p.machine.torn(p.machine.colours.touch(event, "t", k, write=True)))
    p.end(event)


def slow(p: Process, k: int) -> None:
    """An event takes as long as three snapshots, and touches a key of its own."""
    under_way: deque[Cause] = p.__dict__.setdefault("under_way", deque())
    under_way.append(event := p.start(A, k))
    if p.machine.colours.tearing:
        p.do(p.machine.torn(p.machine.colours.touch(event, "t", k, write=True)))
    if len(under_way) > 6:
        p.end(under_way.popleft())


def moving(p: Process, k: int) -> None:
    """Its input goes and comes."""
    p.feed(InputsRevoked())
    p.give(A, positions={A: k}, generation=k + 2)


def take(p: Process, work: Callable[[Process, int], None], snapshots: range, *, overlap: bool) -> None:
    """Snapshots that are aborted before the process has reported, with work before and after the cut; or (`overlap`)
    when the next one is cut, so that there is always one open."""
    white: deque[Cause] = p.__dict__.setdefault("white", deque())  # each keeps a cut open
    for k in snapshots:
        work(p, 2 * k)
        white.append(p.start(HELD, k))
        epoch = p.world.trigger(f"{k:06}")
        p.catch_up()
        work(p, 2 * k + 1)
        for done in sorted({*p.world.fold.open} - ({epoch} if overlap else set())):
            p.world.append(Abort(n=10**8 + k, epoch=done, code="x", reason="y"))
        p.catch_up()
        while len(white) > overlap:
            p.end(white.popleft())
        p.ack()
        forget(p)


@pytest.mark.parametrize(
    ("work", "overlap"),
    [
        *((work, False) for work in (quiet, sending, absent_minded, stuck, moving)),
        *((work, True) for work in (quiet, sending, slow)),
    ],
)
def test_snapshots_leave_no_memory_behind(work: Callable[[Process, int], None], *, overlap: bool) -> None:
    """R4: one that is aborted needs no undo, the process simply stays red; and of an app whose events or transactions
    take longer than from one snapshot to the next some cut is always open. Nothing of the machine or of a fold
    without history grows."""
    p = bystander()
    take(p, work, range(WARM), overlap=overlap)
    before = size(p.machine, p.world.fold)
    take(p, work, range(WARM, SNAPSHOTS), overlap=overlap)
    assert bool(p.machine.open.cuts) is overlap, "else nothing is shown"
    assert size(p.machine, p.world.fold) < before + TOLERANCE
    assert p.world.fold.highest_epoch > SNAPSHOTS


def test_a_fold_without_history_is_bounded_whatever_the_ledger_holds() -> None:
    """Processes that come and go, strangers that write, repeats, names, pauses: nothing of it is kept for ever."""
    fold = LedgerState(history=False)

    def life(k: int) -> None:
        hello = fold.end
        fold.apply(hello, Hello(n=k, app="p", inputs=(InputTopic(topic="a", partitions=1),)))
        fold.apply(fold.end, Assigned(process=hello, n=2, generation=k, inputs=(A,)))
        fold.apply(fold.end, Trigger(process=hello, n=3 + k % 7, id=str(k)))
        fold.apply(fold.end, Pause(n=2 * 10**6 + k, paused=k % 3 == 0))
        fold.apply(fold.end, Trigger(n=10**6 + k, id=f"refused {k}"))
        fold.apply(fold.end, Dead(n=3 * 10**6 + k, dead=hello) if k % 2 else Bye(process=hello, n=20))
        fold.apply(fold.end, Assigned(process=hello, n=4, generation=k, inputs=(A,)))  # a zombie
        fold.apply(fold.end, Abort(process=10**9 + k, n=1, epoch=1, code="x", reason="a stranger"))

    for k in range(WARM):
        life(k)
    before = size(fold)
    for k in range(WARM, SNAPSHOTS):
        life(k)
    assert size(fold) < before + TOLERANCE
