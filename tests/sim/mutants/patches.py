"""The ways to break a rule: another text in a function of the machine, the fold, a driver's duty or a check; an answer
in place of a function; or another function."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from snapkafka.protocol import LedgerState, Report
from snapkafka.protocol.ledger_view import LedgerView
from snapkafka.protocol.offsets import Position
from snapkafka.sim import Process, SimStored, runs

Patch = Callable[[], AbstractContextManager[object]]


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


def always(place: Any, name: str, answer: Any = None) -> Patch:
    """Let a function give one answer, and do nothing."""
    return patching(place, name, lambda _: lambda *given, **more: answer)


def edit(place: Any, name: str, *texts: str) -> Patch:
    """Replace texts in the source of a function, each of which stands there once: the first by the second, and so
    on."""

    def make(function: Any) -> Any:
        source = textwrap.dedent(inspect.getsource(function))
        for old, new in zip(texts[::2], texts[1::2], strict=True):
            assert source.count(old) == 1, f"{name} has {old!r} {source.count(old)} times"
            source = source.replace(old, new)
        made: dict[str, Any] = {}
        exec(
            compile(f"from __future__ import annotations\n{source}", name, "exec"), function.__globals__, made
        )
        return made[name]

    return patching(place, name, make)


def both(*patches: Patch) -> Patch:
    @contextmanager
    def patch() -> Iterator[None]:
        with ExitStack() as stack:
            for each in patches:
                stack.enter_context(each())
            yield

    return patch


def unmet(*ways: str) -> Patch:
    """Take in records from these sources, whatever their colour."""

    def make(meets: Callable[..., bool]) -> Callable[..., bool]:
        def blind(self: Process, record: SimStored, how: str) -> bool:
            return how not in ways and meets(self, record, how)

        return blind

    return patching(Process, "meets", make)


def report_for_the_dead(leave: Any) -> Any:
    """Report for a process that is declared dead: no input of it has moved."""

    def kind(self: LedgerState, offset: int, process: int, *, dead: bool) -> None:
        for snapshot in list(self.open.values()):
            if process in snapshot.required - snapshot.reports.keys():
                view = self.processes[process]
                at = (
                    Position(agent="", topic=tp.topic, partition=tp.partition, offset=0) for tp in view.inputs
                )
                cut = Report(
                    process=process, n=-offset, epoch=snapshot.epoch, previous=0, heard="ledger",
                    assigned=view.assigned, positions=tuple(at),
                )  # fmt: skip
                snapshot.reports[process] = (offset, cut)
        leave(self, offset, process, dead=dead)
        for snapshot in list(self.open.values()):
            self._complete(offset, snapshot)

    return kind


def unseen(kind: str) -> Patch:
    """Leave a kind of finding out of every verdict."""
    return patching(
        runs, "find", lambda find: lambda check, log: [it for it in find(check, log) if it.kind != kind]
    )


def unasked(place: Any, name: str) -> Patch:
    """Let a question to the broker show nothing."""

    async def nothing(*_: Any) -> str:
        return ""

    return patching(place, name, lambda _: nothing)


def recorded_by_all(_: Any) -> Any:
    """Hold a range that one app has recorded against each that reads the partition."""
    return property(
        lambda view: {
            tp: [
                (it, source)
                for it in view.captured.recorded
                if tp == (it.topic, it.partition)
                for source in of
            ]
            for tp, of in view.inputs.items()
        }
    )


def whoever_joined(init: Any) -> Any:
    """Treat each process as if it had found the same as the last one of its app."""

    def init_by_last(stated: Any, state: LedgerView, snapshot: Any) -> None:
        init(stated, state, snapshot)
        last = {view.hello.app: view.hello for _, view in sorted(state.processes.items())}
        stated._hellos = {process: last[view.hello.app] for process, view in sorted(state.processes.items())}

    return init_by_last
