"""The rules, each switched off: what a simulator is worth is what it notices.

A mutant breaks one rule in the machine, in the fold, in a driver's duty or in a check. `mutate` runs seeds until the
causal checker finds an inconsistent snapshot. A rule whose removal nobody notices would be not needed or not tested.

Two rules are not there for consistency, and no causal checker can miss them: see `LIVENESS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from snapkafka.checks import view
from snapkafka.protocol import captured, closing, completion, moves, owners, worker
from snapkafka.protocol.actions import Action
from snapkafka.protocol.colours import Colours
from snapkafka.protocol.records import Closed, CutReport, TopicPartition

from . import run
from .log import Stored
from .plan import Agent, Plan
from .process import Process
from .world import World

__all__ = ["LIVENESS", "MUTANTS", "Mutant"]

Patch = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule, what is broken of it, how, and the plan that brings it to light sooner (None: any)."""

    name: str
    what: str
    patch: Patch
    plan: Callable[[Plan], Plan] = lambda plan: plan
    whole: Callable[[Plan], Plan] = lambda plan: (
        plan
    )  # what makes the plan whole again, where it is the plan that breaks

    @property
    def seed(self) -> int:
        """A seed that is known to catch it."""
        return SEEDS.get(self.name, 0)

    @property
    def rule(self) -> str:
        return self.name.split(" ")[0]


@contextmanager
def _set(place: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(place).get(name, getattr(place, name)) if isinstance(place, type) else getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def _patching(place: Any, name: str, make: Callable[[Any], Any]) -> Patch:
    """Replace `place.name` by what `make` makes of it."""
    return lambda: _set(place, name, make(getattr(place, name)))


def _both(*patches: Patch) -> Patch:
    @contextmanager
    def patch() -> Iterator[None]:
        first, *others = patches
        with first(), _both(*others)() if others else _nothing():
            yield

    return patch


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _faults(**chances: float) -> Callable[[Plan], Plan]:
    """Let these go wrong, and whatever else the plan has; with many snapshots, for it is them that are to suffer."""
    wanted = {name.replace("_", "-"): chance for name, chance in chances.items()}
    return lambda plan: replace(
        plan, snapshots=6, inputs=10, hops=2, faults={**plan.faults, "forge": 0, "recreate": 0, **wanted}
    )


def _deaf(**chances: float) -> Callable[[Plan], Plan]:
    """As `_faults`, and nobody is told of a snapshot by the ledger, which would often hide what is missing."""
    with_faults = _faults(**chances)
    return lambda plan: replace(
        with_faults(plan), hear=frozenset({"headers"}), classic=False, exactly_once=False
    )


def _alone(
    *, apps: int, workers: int, slow: dict[str, float] | None = None, **chances: float
) -> Callable[[Plan], Plan]:
    """Only the first apps of the plan, of one partition each, and nothing goes wrong but this.

    In a larger world something else mostly fails the snapshot, or tells the process that must not hear of it.
    """
    faults = {name.replace("_", "-"): chance for name, chance in chances.items()}
    return lambda plan: replace(
        plan,
        apps=tuple(replace(app, partitions=1, workers=workers) for app in plan.apps[:apps]),
        slow=plan.slow if slow is None else slow,
        faults=faults,
        retries=0,
        snapshots=6,
        inputs=10,
        hops=2,
    )


def _untold(plan: Plan) -> Plan:
    """Who is given an input has heard of no snapshot: not by the ledger, nor by the table that it recovers."""
    alone = _alone(apps=1, workers=2, rebalance=0.01)(plan)
    apps = tuple(replace(app, agents=tuple(map(_writing_nothing, app.agents))) for app in alone.apps)
    return replace(alone, apps=apps, hear=frozenset({"headers"}), classic=False, exactly_once=False)


def _writing_nothing(agent: Agent) -> Agent:
    programs = (
        tuple(("pause",) if op[0] in ("write", "gwrite") else op for op in program)
        for program in agent.programs
    )
    return replace(agent, programs=tuple(programs))


def _sober(plan: Plan) -> Plan:
    return replace(plan, faults={**plan.faults, "forge": 0})


# -- R2 --------------------------------------------------------------------------------------------------------------


def _unmet(*ways: str) -> Patch:
    """What comes in by these ways is taken in whatever its colour."""

    def make(meets: Callable[..., None]) -> Callable[..., None]:
        def blind(self: World, process: Process, record: Stored, how: str) -> None:
            if how not in ways:
                meets(self, process, record, how)

        return blind

    return _patching(World, "meets", make)


def _no_headers(meet: Callable[..., None]) -> Callable[..., None]:
    def deaf(self: Process, record: Stored) -> None:
        if record.marker:
            meet(self, record)

    return deaf


def _believe(_: Callable[..., Any]) -> Callable[..., Any]:
    """Every epoch is believed."""

    def met(self: worker.WorkerProtocol, epoch: int, heard: Any, *, may: bool) -> list[Action]:
        return self._cut(epoch, heard)

    return met


# -- R4, R5, R6, R7 --------------------------------------------------------------------------------------------------


def _ready(*, report: bool = True, running: bool = True, unacked: bool = True) -> Patch:
    """Closing without waiting for one thing."""

    def make(_: Any) -> Any:
        def ready(cut: Any, colours: Colours) -> bool:
            return (
                cut.markers_asked
                and not cut.markers_due
                and (cut.report is not None or not report)
                and cut.ends is not None
                and not (running and colours.white_running(cut.epoch))
                and not (unacked and colours.white_unacked(cut.epoch))
            )

        return ready

    def closed(make_closed: Any) -> Any:
        def any_closed(cut: Any, colours: Colours, *, process: int, n: int) -> Closed:
            cut.report = -1 if cut.report is None else cut.report
            record: Closed = make_closed(cut, colours, process=process, n=n)
            return record

        return any_closed

    def asked(ask: Any) -> Any:
        def ask_markers(cut: Any, colours: Colours) -> Any:
            if running:
                return ask(cut, colours)
            with _set(Colours, "white_running", lambda self, epoch: False):
                return ask(cut, colours)

        return ask_markers

    return _both(
        _patching(closing, "ready", make),
        _patching(closing, "closed", closed),
        _patching(closing, "ask_markers", asked),
    )


def _close_unreported(close: Any) -> Any:
    """A `Closed` counts though its report never landed."""

    def lax(self: completion.LedgerState, offset: int, record: Closed) -> None:
        if record.report < 0:
            for snapshot in self.open.values():
                if record.process in snapshot.required and record.process not in snapshot.reports:
                    empty = CutReport(
                        process=record.process,
                        n=-offset,
                        epoch=record.epoch,
                        previous=0,
                        heard="ledger",
                        assigned=-1,
                        positions=(),
                    )
                    snapshot.reports[record.process] = (-1, empty)
        close(self, offset, record)

    return lax


def _colour_of_the_process(enter: Any) -> Any:
    def entered(self: Colours, event: Any) -> Any:
        effect = enter(self, event)
        tally = self._tallies[self.epoch]
        effect.tally.unappended -= 1
        effect.tally.unacked -= 1
        tally.unappended += 1
        tally.unacked += 1
        return effect._replace(epoch=self.epoch, tally=tally)

    return entered


def _report_is_enough(report: Any) -> Any:
    """A report counts without its `Closed`."""

    def counted(self: completion.LedgerState, offset: int, record: CutReport) -> None:
        report(self, offset, record)
        for snapshot in list(self.open.values()):
            if snapshot.reports.get(record.process, (-1,))[0] == offset:
                closed = Closed(process=record.process, n=-offset, epoch=record.epoch, report=offset)
                snapshot.closed[record.process] = (offset, closed)
                self._complete(offset, snapshot)

    return counted


# -- R8 --------------------------------------------------------------------------------------------------------------


def _shifted(ends: int = 0, positions: int = 0) -> Patch:
    """Ranges that are off by one."""

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

    return _patching(captured, "gather", make)


def _forget_the_left(in_channel: Any) -> Any:
    def forgetful(self: view.CutView, record: Any, source: Any) -> bool:
        return not self.left(record.process) and bool(in_channel(self, record, source))

    return forgetful


# -- R9, R10, R11, R12 -------------------------------------------------------------------------------------------------


def _no_history(assigned: Any) -> Any:
    """Nobody asks who read an input before."""

    def forget(self: completion.LedgerState, offset: int, record: Any) -> None:
        assigned(self, offset, record)
        for item, owner in list(self.owners.items()):
            self.owners[item] = owner._replace(before=0, red=0)

    return forget


def _stale_counts(report: Any) -> Any:
    def lax(self: completion.LedgerState, offset: int, record: CutReport) -> None:
        report(self, offset, replace(record, assigned=offset))

    return lax


def _sees_none(_: Any) -> Any:
    return lambda owners, report, app: {}


def _inputs_do_not_matter(complete: Any) -> Any:
    def lax(self: completion.LedgerState, offset: int, snapshot: Any) -> None:
        snapshot.expected &= snapshot.claims.keys()
        complete(self, offset, snapshot)

    return lax


def _last_wins(report: Any) -> Any:
    def last(self: completion.LedgerState, offset: int, record: CutReport) -> None:
        for snapshot in self.open.values():
            for position in record.positions:
                app = record.app or self.app_of(record.process)
                snapshot.claims.pop((app, TopicPartition(position.topic, position.partition)), None)
        report(self, offset, record)

    return last


def _any_owner_may_cut(_: Any) -> Any:
    return lambda owner, process: 0


def _born_white(recognised: Any) -> Any:
    def white(self: worker.WorkerProtocol, offset: int) -> Any:
        highest, self.ledger.highest_epoch = self.ledger.highest_epoch, 0
        actions = recognised(self, offset)
        self.ledger.highest_epoch = highest
        return actions

    return white


def _close_for_the_dead(leave: Any) -> Any:
    def kind(self: completion.LedgerState, offset: int, process: int, *, dead: bool) -> None:
        for snapshot in list(self.open.values()):
            if process in snapshot.reports and process not in snapshot.closed:
                at, report = snapshot.reports[process]
                closed = Closed(process=process, n=-offset, epoch=report.epoch, report=at)
                snapshot.closed[process] = (offset, closed)
        leave(self, offset, process, dead=dead)
        for snapshot in list(self.open.values()):
            self._complete(offset, snapshot)

    return kind


def _nobody_came_back(record: Any) -> Any:
    return lambda self, offset, process: None


# -- checks ------------------------------------------------------------------------------------------------------------


def _sees_nothing(check: Any) -> Any:
    return lambda cut, records: []


#: Each is caught by the causal checker.
MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant("R2 agent", "an agent takes in red while its process is white", _unmet("fetch"), _deaf()),
    Mutant(
        "R2 global table",
        "a table takes in red while its process is white",
        _unmet("global", "recovery"),
        _deaf(rebalance=0.03),
    ),
    Mutant("R2 reply", "a reply is taken in red while its process is white", _unmet("reply"), _deaf()),
    Mutant(
        "R4 report",
        "closes before its report is acknowledged",
        _both(_ready(report=False), _patching(completion.LedgerState, "_close", _close_unreported)),
        _faults(lose_report=0.5, rebalance=0.02),
    ),
    Mutant(
        "R5 colour",
        "effects have the colour of the process",
        _patching(Colours, "enter", _colour_of_the_process),
        _sober,
    ),
    Mutant(
        "R6 torn",
        "a torn event is not noticed",
        _both(
            _patching(Colours, "touch", lambda _: lambda self, *a, **k: None),
            _patching(Colours, "tear", lambda _: lambda self, *a, **k: None),
        ),
        _sober,
    ),
    Mutant(
        "R6 overwritten",
        "what red has read is overwritten in white",
        _patching(
            Colours,
            "touch",
            lambda touch: (
                lambda self, event, table, key, *, write: (
                    touch(self, event, table, key, write=write)
                    if write
                    else self.tear(event, self._touched.get((table, key), (-1, -1))[0], table)
                )
            ),
        ),
        _sober,
    ),
    Mutant("R7 event", "closes before the last white event", _ready(running=False), _sober),
    Mutant("R7 ack", "closes before the last white acknowledgement", _ready(unacked=False), _sober),
    Mutant(
        "R7 report",
        "a report counts without its Closed",
        _patching(completion.LedgerState, "_report", _report_is_enough),
        _sober,
    ),
    Mutant("R8 end", "ranges end one too early", _shifted(ends=-1), _sober),
    Mutant("R8 start", "ranges start one too early", _shifted(positions=-1), _sober),
    Mutant("R8 late start", "ranges start one too late", _shifted(positions=1), _sober),
    Mutant(
        "R8 left",
        "senders that left are forgotten",
        _patching(view.CutView, "in_channel", _forget_the_left),
        _faults(stop=0.01, crash=0.01),
    ),
    Mutant(
        "R9 history",
        "a red input goes to a white process",
        _patching(completion.LedgerState, "_assigned", _no_history),
        _untold,
    ),
    Mutant(
        "R9 stale",
        "a report counts though its inputs have moved",
        _patching(completion.LedgerState, "_report", _stale_counts),
        _faults(rebalance=0.02),
    ),
    Mutant(
        "R9 passed",
        "an input came and went, in red, while a report was on its way",
        _patching(owners, "came_and_went", _sees_none),
        _untold,
    ),
    Mutant(
        "R10 uncut",
        "nobody cuts a white input given to a red process",
        _both(
            _patching(completion.LedgerState, "_complete", _inputs_do_not_matter),
            _patching(moves, "came_uncut", lambda _: lambda *a: {}),
        ),
        _faults(rebalance=0.02),
    ),
    Mutant(
        "R11 last",
        "the last report of an input wins",
        _both(
            _patching(completion.LedgerState, "_report", _last_wins),
            _patching(owners, "before", _any_owner_may_cut),
        ),
        _untold,
    ),
    Mutant(
        "R11 born",
        "a late joiner is born white",
        _patching(worker.WorkerProtocol, "_recognised", _born_white),
        _alone(apps=1, workers=2, slow={"ledger": 0.02}, stop=0.02, restart=0.2),
    ),
    Mutant(
        "R12 dead",
        "somebody closes for the dead",
        _patching(completion.LedgerState, "_leave", _close_for_the_dead),
        _faults(crash=0.01, expire=0.02),
    ),
    Mutant(
        "R12 back",
        "who was taken for dead comes back unnoticed",
        _patching(completion.LedgerState, "_came_back", _nobody_came_back),
        _alone(apps=2, workers=1, slow={"ledger": 0.05, "stamp": 0.02}, expire=0.1),
    ),
    Mutant(
        "V1 zombie",
        "the verdict is blind to a zombie's records",
        _patching(run, "left_late", _sees_nothing),
        _faults(pause=0.01, wake=0.05, expire=0.02),
    ),
    Mutant(
        "V5 replay",
        "the verdict is blind to replays",
        _patching(run, "v5", _sees_nothing),
        _faults(crash=0.01, rebalance=0.02),
    ),
    Mutant(
        "hear nothing", "markers and headers both off", _unmet("fetch", "global", "recovery", "reply"), _sober
    ),
    Mutant(
        "hear markers",
        "headers ignored without classic mode",
        _patching(Process, "meet", _no_headers),
        lambda plan: replace(_sober(plan), hear=frozenset({"markers"}), classic=False),
        lambda plan: replace(plan, hear=frozenset({"ledger", "markers", "headers"})),
    ),
)

#: Rules that keep snapshots coming, not consistent: what they hold off is caught by the liveness phase.
LIVENESS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R2 forged",
        "a forged epoch is believed",
        _patching(worker.WorkerProtocol, "_met", _believe),
        _faults(forge=0.01),
    ),
)

#: A seed that is known to catch each. `mutate` tries it first, then others.
SEEDS: Final = {
    "R2 agent": 5,
    "R2 global table": 64,
    "R2 reply": 32,
    "R4 report": 95,
    "R5 colour": 1,
    "R6 torn": 5,
    "R6 overwritten": 15,
    "R7 event": 5,
    "R7 ack": 1,
    "R7 report": 1,
    "R8 end": 1,
    "R8 start": 0,
    "R8 late start": 1,
    "R8 left": 5,
    "R9 history": 2,
    "R9 stale": 20,
    "R9 passed": 379,
    "R10 uncut": 7,
    "R11 last": 0,
    "R11 born": 6,
    "R12 dead": 6,
    "R12 back": 23,
    "V1 zombie": 514,
    "V5 replay": 513,
    "hear nothing": 64,
    "hear markers": 3,
}
