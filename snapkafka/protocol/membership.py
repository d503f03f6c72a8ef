"""The membership of a process: it joins the ledger, announces its inputs, is declared dead and joins again, stands
down, and fails snapshots that it cannot vouch for (R9, R11, R12, R15).

    not joined ──own Hello read──> a process ──own Dead read, or its ledger lost──> not joined, with work in flight
                                       └──stood down──> no process: its app runs on, and its work is in no snapshot

Its id is the ledger offset of its `Hello`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from .actions import Action, AppendHello, AppendToLedger, StartTimer
from .closing import waits_for
from .colours import Colours
from .events import AssignedInput, InputsAssigned, Joined, LedgerRecreated, StopAsked
from .hot_path import Work
from .ledger_state import LedgerState, SnapshotView
from .ledger_view import LedgerView
from .offsets import SOMEBODY
from .records import (
    APP_RUNS_WITHOUT,
    NOBODY,
    Abort,
    Assigned,
    Bye,
    ChangelogEnd,
    Dead,
    TopicPartition,
)

#: Whoever has not reported by a part of the time to live after its end, this one, is dead: had it been slow, it would
#: have aborted the snapshot itself.
GRACE: Final = 4


class Inputs:
    """The assigned inputs, and those of them that are our own, as far as the ledger was read up to the `Assigned`
    (R9)."""

    def __init__(self) -> None:
        self.assigned = -1  # ledger offset of our latest Assigned
        self.tables: tuple[ChangelogEnd, ...] = ()  # as recovered with them
        self.latest: InputsAssigned | None = None
        self.taken = False  # all were, and what came instead is not told yet
        self.given_n = -1  # of our latest Assigned
        self._ours: InputsAssigned | None = None  # the assignment that is ours, once its Assigned is read

    @property
    def ready(self) -> bool:
        """Whether the latest inputs are announced and the ledger is read up to that record."""
        return not self.taken and (self.latest is None or self._ours is self.latest)

    def assign(self, latest: InputsAssigned) -> None:
        self.latest, self.tables, self.taken = latest, (), False

    def take(self) -> None:
        self.tables, self.taken = (), True

    def lose(self) -> None:
        """Lose all inputs: they were assigned to an id that is void."""
        self.assigned, self.tables = -1, ()

    def announce(self, process: int, n: int) -> Assigned:
        """Return the record that announces our inputs in the ledger."""
        assert self.latest is not None
        self.given_n = n
        return Assigned(
            process=process,
            n=n,
            generation=self.latest.generation,
            inputs=tuple(sorted(item.tp for item in self.latest.inputs)),
            changelogs=tuple(
                sorted(TopicPartition(end.topic, end.partition) for end in self.latest.changelogs)
            ),
            member=self.latest.member,
        )

    def announced(self, offset: int) -> bool:
        """Note that our `Assigned` was read; return whether it is the first one that reports these inputs."""
        self.assigned = offset
        first = self._ours is not self.latest
        self._ours = self.latest
        return first

    def ours(self, ledger: LedgerView, process: int) -> list[AssignedInput]:
        """Return the assigned inputs that are our own, and keep the tables that are."""
        assert self.latest is not None
        app = ledger.app_of(process)
        self.tables = tuple(
            end
            for end in self.latest.changelogs
            if ledger.owner((app, TopicPartition(end.topic, end.partition))) == process
        )
        return [item for item in self.latest.inputs if ledger.owner((app, item.tp)) == process]


class Member(Work):
    """One process as a member of its ledger."""

    def __init__(self) -> None:
        super().__init__()
        self.process: int | None = None
        self.absent = False
        self.inputs = Inputs()
        self.stood_down: int | None = None  # the id that it had
        self._stood_down_why: str | None = None  # why it has stood down
        self._hello_n: int | None = None
        #: Ends of what earlier identities wrote since our inputs were recovered.
        self._written: dict[TopicPartition, int] = {}
        self._waited: set[int] = set()  # snapshots whose time to live is over here
        self._took_from: set[int] = set()  # see `takes_from`
        self._n = 0

    def _of_membership(self, event: Joined | StopAsked | LedgerRecreated) -> list[Action]:
        """Take in an event about the ledger as a whole, or about the start and the end of this process."""
        match event:
            case Joined():
                self._hello_n = event.hello.n
                return []
            case StopAsked():
                me = self.stood_down if self.process is None else self.process
                if me is None:
                    return []
                return [AppendToLedger(record=Bye(process=me, n=self._next_n(), reason=event.reason))]
            case LedgerRecreated():
                self._other_ledger()
                return self._new_life(recreated=True)
            case _:
                assert_never(event)

    # -- joining, and joining again (R11, R12) ----------------------------------------------------------------

    def _recognised(self, offset: int) -> list[Action]:
        """Take our id, the offset of our `Hello`, and our epoch, the highest trigger below it (R11). The process that
        triggered a snapshot, or was waited for, may have left: the open snapshots are ours to watch, too (R12)."""
        self._hello_n = None
        self.process = offset
        if self._stood_down_why is not None:
            return self.stand_down(self._stood_down_why)
        if self.ledger.highest_epoch > self.colours.epoch:
            self.colours.turn(self.ledger.highest_epoch)
        actions = [*(self._contaminated() if self.absent else []), *map(timer, self.ledger.open.values())]
        announceable = self.inputs.latest is not None and not self.inputs.taken  # not what is revoked
        return [*actions, *self._announce()] if announceable else actions

    def _announce(self) -> list[Action]:
        return [AppendToLedger(record=self.inputs.announce(self._me, self._next_n()))]

    def _new_life(self, *, recreated: bool = False) -> list[Action]:
        """Join again before anything is sent: our id is void, because we read our own `Dead` (R12) or the ledger was
        recreated. Work in flight under the old identity has no colour: see `_cut`."""
        if self.process is None and self._hello_n is None:
            return []  # it has not said anything yet
        void, self.process = NOBODY if self.process is None else self.process, None
        self.open.cuts.clear()
        self.inputs.lose()
        self.positions.forget_cuts()
        self.earlier.append(self.colours)
        self._settle_earlier()
        self._batches.clear()
        earlier, self.colours = self.colours, Colours(self.ledger.highest_epoch)
        self.colours.keep_unstamped(earlier)
        was = void if not recreated else SOMEBODY if self.earlier else NOBODY
        return [*self.aligner.clear(), AppendHello(void=void, was=was)]

    def _settle_earlier(self) -> None:
        """Reduce earlier identities with nothing in flight to the ends of what they wrote."""
        for earlier in self.earlier:
            for tp, sent in earlier.sent.items() if not earlier.busy else ():
                self._written[tp] = max(sent.end, self._written.get(tp, 0))
        self.earlier = [earlier for earlier in self.earlier if earlier.busy]

    def _other_ledger(self) -> None:
        """Forget the ledger read so far: it was recreated, or we missed a part of it."""
        self.ledger = LedgerState(history=False)
        self.open.aborted.clear()
        self._waited.clear()
        self._took_from.clear()

    # -- who this process is ----------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return f"process {self.process}"

    @property
    def _me(self) -> int:
        assert self.process is not None, "a process that has not joined writes nothing but Hello"
        return self.process

    @property
    def author(self) -> int:
        """The author of what this process writes, whether it has joined or not."""
        return NOBODY if self.process is None else self.process

    def _next_n(self) -> int:
        self._n += 1
        return self._n

    def stand_down(self, why: str = "") -> list[Action]:
        """Stand down after a fault of ours (R15), for that reason: the app runs on, and its work is in no snapshot from
        here on."""
        self._stood_down_why = why
        process = self.process
        if process is None:
            return []  # if a Hello is on its way, then when that is read
        self.stood_down, self.process, self._hello_n = process, None, None
        self.open.cuts.clear()
        bye = Bye(process=process, n=self._next_n(), goes_on=True, since=self.ledger.end, reason=why)
        return [AppendToLedger(record=bye), *self.aligner.clear()]

    # -- failing snapshots by name (R12, R15) -----------------------------------------------------------------

    def _timer_expired(self, epoch: int) -> list[Action]:
        """Abort a snapshot that is not captured in time (R12): this process, if its own report is missing, names what
        that waits for. Nobody else lives whose report is missing a while after that."""
        if self.process is None or epoch not in self.ledger.open or epoch in self.open.aborted:
            return []
        ttl_ms = self.ledger.open[epoch].trigger.ttl_ms
        silent = [wait.process for wait in self.ledger.waiting(epoch)]
        late = f"not captured within {ttl_ms} ms: "
        if self.process in silent:
            what = f"{self._name} of app {self.ledger.app_of(self.process)}: {self._unreported(epoch)}"
            return self._abort_open(epoch - 1, epoch, "ttl", late + what, what)
        if epoch not in self._waited:
            self._waited.add(epoch)
            return [StartTimer(epoch=epoch, ttl_ms=ttl_ms // GRACE)]
        first = str(next(iter(self.ledger.waiting(epoch)), "nothing that the ledger shows"))
        return [
            *self._abort_open(epoch - 1, epoch, "ttl", f"{late}waited for {first}", first),
            *(AppendToLedger(record=Dead(process=self._me, n=self._next_n(), dead=p)) for p in silent),
        ]

    def _unreported(self, epoch: int) -> str:
        """Return what the report of this process waits for."""
        if self.aligner.is_white(epoch):
            return f"waited for {self.aligner.waits_for(self.ledger, epoch, self._me, self.positions)}"
        cut = next((cut for cut in self.open.cuts.values() if cut.serves(epoch)), None)
        if cut is not None:
            return waits_for(cut, self.colours)
        return "has not cut" if self.colours.epoch < epoch else "its report is not in the ledger"

    def _ran_without(self, since: int) -> list[Action]:
        """Fail the snapshots that are open, or were captured since (R10): the app may have mixed their colours before
        it joined."""
        if self.process is None:
            return []
        what = f"{self._name} of app {self.ledger.app_of(self._me)} ran before its Hello was in the ledger"
        mixed = [
            epoch
            for epoch, view in sorted(self.ledger.snapshots.items())
            if view.open or (view.captured_at is not None and view.captured_at >= since)
        ]
        return self._abort(mixed, APP_RUNS_WITHOUT, what, self._name)

    def _contaminated(self) -> list[Action]:
        """Fail every open snapshot (R15): work without the machine may have mixed its colours."""
        highest = self.ledger.highest_epoch
        what = f"{self._name} was absent meanwhile"
        actions = self._abort_open(0, highest, "contaminated", what, self._name)
        if highest > self.colours.epoch:
            self.colours.turn(highest)
        self._rest()
        return actions

    def _abort_open(
        self, above: int, upto: int, code: str, reason: str, culprit: str, *, captured: bool = False
    ) -> list[Action]:
        if self.process is None:
            return []  # who is nobody writes nothing; it is missed as it is
        among = self.ledger.snapshots if captured else self.ledger.open
        epochs = [e for e, view in sorted(among.items()) if above < e <= upto and view.failure is None]
        actions = self._abort(epochs, code, reason, culprit)
        self._drop_decided()
        return actions

    def _abort(self, epochs: Iterable[int], code: str, reason: str, culprit: str) -> list[Action]:
        """Abort these snapshots, where this process has not done so before."""
        due = [epoch for epoch in epochs if epoch not in self.open.aborted]
        self.open.aborted.update(due)
        return [
            AppendToLedger(
                record=Abort(
                    process=self._me, n=self._next_n(), epoch=e, code=code, reason=reason, culprit=culprit
                )
            )
            for e in due
        ]

    def _drop_decided(self) -> None:
        """Drop decided snapshots: an aborted one leaves no memory behind; the process simply stays red (R4)."""
        self.open.drop_decided(self.ledger.open.keys())
        self._waited &= self.ledger.open.keys()
        self._rest()

    def _rest(self) -> None:
        """Merge the colours before the lowest open cut, or before the present one if none is open: no cut asks for
        them any more."""
        if self.open.cuts:
            self.colours.forget_below(min(self.open.cuts))
        else:
            self.colours.forget()


def timer(snapshot: SnapshotView) -> StartTimer:
    """Return the timer after which an open snapshot is aborted (R12)."""
    return StartTimer(epoch=snapshot.epoch, ttl_ms=snapshot.trigger.ttl_ms)
