"""The ways to break each rule, as patches of the machine, the fold, a driver's duty or a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from snapkafka.checks import view
from snapkafka.protocol import (
    Action,
    AppendToLedger,
    Colours,
    Hello,
    LedgerView,
    Position,
    Report,
    SendOutcome,
    TopicPartition,
    closing,
    gather,
    hot_path,
    ledger_state,
    worker,
)
from snapkafka.sim import Process, SimStored, World, runs
from snapkafka.sim.world.sending import Sender, SimSending

Patch = Callable[[], AbstractContextManager[None]]


@contextmanager
def _set(place: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(place).get(name, getattr(place, name)) if isinstance(place, type) else getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def patching(place: Any, name: str, make: Callable[[Any], Any]) -> Patch:
    """Replace `place.name` by the result of `make`."""
    return lambda: _set(place, name, make(getattr(place, name)))


def both(*patches: Patch) -> Patch:
    @contextmanager
    def patch() -> Iterator[None]:
        first, *others = patches
        with first(), both(*others)() if others else _nothing():
            yield

    return patch


@contextmanager
def _nothing() -> Iterator[None]:
    yield


# -- R2 --------------------------------------------------------------------------------------------------------------


def unmet(*ways: str) -> Patch:
    """Take in records from these sources, whatever their colour."""

    def make(meets: Callable[..., bool]) -> Callable[..., bool]:
        def blind(self: World, process: Process, record: SimStored, how: str) -> bool:
            return how not in ways and meets(self, process, record, how)

        return blind

    return patching(World, "meets", make)


def no_headers(meet: Callable[..., bool]) -> Callable[..., bool]:
    def deaf(self: Process, record: SimStored, *, may_wait: bool) -> bool:
        return record.marker and meet(self, record, may_wait=may_wait)

    return deaf


def believe(_: Callable[..., Any]) -> Callable[..., Any]:
    """Believe every epoch."""

    def met(self: worker.WorkerProtocol, epoch: int, heard: Any, *, may: bool) -> list[Action]:
        return self._cut(epoch, heard)

    return met


# -- R4, R5, R6, R7 --------------------------------------------------------------------------------------------------


def closes_early(*, running: bool = True, unacked: bool = True) -> Patch:
    """Close without waiting for one thing."""

    def make(_: Any) -> Any:
        def ready(cut: Any, colours: Colours) -> bool:
            return (
                cut.markers_asked
                and not cut.markers_due
                and not (running and colours.white_running(cut.epoch))
                and not (unacked and colours.white_unacked(cut.epoch))
            )

        return ready

    def asked(ask: Any) -> Any:
        def ask_markers(cut: Any, colours: Colours) -> Any:
            if running:
                return ask(cut, colours)
            with _set(Colours, "white_running", lambda self, epoch: False):
                return ask(cut, colours)

        return ask_markers

    return both(
        patching(closing, "ready", make),
        patching(closing, "ask_markers", asked),
    )


def counts_all_the_same(lose: Any) -> Any:
    """Acknowledge a failed send to its sender at the offset where it would have been."""

    def acked(self: Sender, sending: SimSending, why: str, *, undone: bool) -> None:
        self._settled(sending)
        assert sending.effect is not None
        offset = max(sending.offset, 0)
        self.do(
            self.machine.settled(
                sending.effect, sending.tp, sending.record.seq, SendOutcome.ACKED, offset=offset
            )
        )

    return acked


def takes_back_unnoticed(settled: Any) -> Any:
    """Take back a send with its transaction, and let a cut for which it is white close all the same."""

    def aborted(
        self: hot_path.Work, effect: Any, tp: Any, seq: Any, outcome: SendOutcome, **more: Any
    ) -> Any:
        if outcome is not SendOutcome.ABORTED:
            return settled(self, effect, tp, seq, outcome, **more)
        effect.tally.unacked -= 1
        Colours.unstamp(effect.sent[tp], seq)
        return self._advance()

    return aborted


def forgets_what_ran(take: Any) -> Any:
    """Take whatever ran before inputs were revoked for undone."""
    return lambda self, undone_from=None: take(self, ())


def colour_of_the_process(enter: Any) -> Any:
    def entered(self: Colours, event: Any) -> Any:
        effect = enter(self, event)
        tally = self.tallies[self.epoch]
        effect.tally.unappended -= 1
        effect.tally.unacked -= 1
        tally.unappended += 1
        tally.unacked += 1
        return effect._replace(epoch=self.epoch, tally=tally)

    return entered


def reports_at_once(cut_: Any) -> Any:
    """Report at the cut, whatever white is still under way."""

    def hasty(self: worker.WorkerProtocol, epoch: int, heard: Any, *, aligned: bool = False) -> list[Action]:
        actions: list[Action] = cut_(self, epoch, heard, aligned=aligned)
        if (cut := self.open.cuts.pop(epoch, None)) is not None:
            record = closing.report(cut, self.colours, process=self._me, n=self._next_n())
            actions = [*actions, AppendToLedger(record=record)]
        return actions

    return hasty


# -- R8 --------------------------------------------------------------------------------------------------------------


def shifted(ends: int = 0, positions: int = 0) -> Patch:
    """Shift ranges by one."""

    def make(gather: Any) -> Any:
        def shifted(state: Any, epoch: int) -> Any:
            found = gather(state, epoch)
            return replace(
                found,
                senders=tuple(replace(s, white_end=max(0, s.white_end + ends)) for s in found.senders),
                inputs=tuple(
                    replace(
                        i,
                        agents=tuple(replace(a, offset=max(0, a.offset + positions)) for a in i.agents),
                        position=max(0, i.position + positions),
                    )
                    for i in found.inputs
                ),
            )

        return shifted

    return patching(gather, "gather", make)


def forget_the_unacknowledged(gather: Any) -> Any:
    """Report no send of unknown outcome."""

    def forgetful(state: Any, epoch: int) -> Any:
        found = gather(state, epoch)
        known = (replace(s, unacknowledged=(), landed_end=0) for s in found.senders)
        return replace(found, senders=tuple(known))

    return forgetful


def forget_the_left(in_channel: Any) -> Any:
    def forgetful(self: view.CutView, record: Any, source: Any) -> bool:
        return not self.left(record.process) and bool(in_channel(self, record, source))

    return forgetful


# -- R9, R10, R11, R12 -------------------------------------------------------------------------------------------------


def stale_counts(report: Any) -> Any:
    """Count the report of a process whatever inputs it has."""

    def lax(self: ledger_state.LedgerState, offset: int, record: Report) -> None:
        view = self.processes[record.process]
        with _set(ledger_state.LedgerState, "inputs_read_by", lambda self, view: cut(record)):
            report(self, offset, replace(record, assigned=view.assigned))

    return lax


def cut(report: Report) -> set[TopicPartition]:
    return {TopicPartition(position.topic, position.partition) for position in report.positions}


def inputs_do_not_matter(complete: Any) -> Any:
    def lax(self: ledger_state.LedgerState, offset: int, snapshot: Any) -> None:
        expected = snapshot.expected
        snapshot.expected = {
            item for item in expected if any(item[1] in cut(p.report) for p in snapshot.parts())
        }
        complete(self, offset, snapshot)
        snapshot.expected = expected

    return lax


def counts_nothing_bare(settled: Any) -> Any:
    """Forget where records without a header lie."""

    def lax(self: Any, effect: Any, tp: Any, seq: Any, outcome: Any, *, offset: int = -1, **more: Any) -> Any:
        return settled(self, effect, tp, seq, outcome, offset=-1 if seq is None else offset, **more)

    return lax


def born_white(recognised: Any) -> Any:
    def white(self: worker.WorkerProtocol, offset: int) -> Any:
        highest, self.ledger.highest_epoch = self.ledger.highest_epoch, 0
        actions = recognised(self, offset)
        self.ledger.highest_epoch = highest
        return actions

    return white


def report_for_the_dead(leave: Any) -> Any:
    def kind(self: ledger_state.LedgerState, offset: int, process: int, *, dead: bool) -> None:
        for snapshot in list(self.open.values()):
            if process in snapshot.required - snapshot.reports.keys():
                view = self.processes[process]
                positions = tuple(
                    Position(agent="", topic=tp.topic, partition=tp.partition, offset=0) for tp in view.inputs
                )
                report = Report(
                    process=process,
                    n=-offset,
                    epoch=snapshot.epoch,
                    previous=0,
                    heard="ledger",
                    assigned=view.assigned,
                    positions=positions,
                )
                snapshot.reports[process] = (offset, report)
        leave(self, offset, process, dead=dead)
        for snapshot in list(self.open.values()):
            self._complete(offset, snapshot)

    return kind


def nobody_came_back(record: Any) -> Any:
    return lambda self, offset, process: None


# -- checks ------------------------------------------------------------------------------------------------------------


def whoever_joined(state: LedgerView) -> dict[int, Hello]:
    """Treat each process as if it had found the same as the last one of its app."""
    last = {view.hello.app: view.hello for _, view in sorted(state.processes.items())}
    return {process: last[view.hello.app] for process, view in sorted(state.processes.items())}


def sees_nothing(check: Any) -> Any:
    return lambda *given: []


def unseen(kind: str) -> Patch:
    """Leave a kind of finding out of every verdict."""
    return patching(
        runs, "find", lambda find: lambda check, log: [it for it in find(check, log) if it.kind != kind]
    )


def without(check: str) -> Callable[[Sequence[str]], Sequence[str]]:
    return lambda checks: tuple(name for name in checks if name != check)


def nothing_happens(_: Any) -> Any:
    async def nothing(*_: Any) -> str:
        return ""

    return nothing


def goes_on_unnoticed(right: Any) -> Any:
    """Treat a `Bye` of a process that runs on like any other."""
    return lambda self, offset, record: right(self, offset, replace(record, goes_on=False))
