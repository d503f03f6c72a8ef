"""Watch the machines of the protocol in the simulator: which state follows on which, and at what."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from snapkafka.protocol.cut import OpenCut
from snapkafka.protocol.events import LedgerRead
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.worker import WorkerProtocol

#: (machine, state before, what happened, state after) -> how often.
Transitions = Counter[tuple[str, str, str, str]]
BEGIN, END = "[*]", "[*]"


@contextlib.contextmanager
def watching() -> Iterator[Transitions]:
    """Count the transitions of every machine that runs in the block, in this process."""
    seen: Transitions = Counter()
    with contextlib.ExitStack() as patches:
        for name in ("handle", "event_started", "batch_started", "worked_off", "event_ended"):
            patches.enter_context(_around(WorkerProtocol, name, seen, _of_worker))
        for name in (
            "reply_taken",
            "table_touched",
            "table_read",
            "value_held",
            "table_iterated",
            "key_received",
        ):
            patches.enter_context(_around(WorkerProtocol, name, seen, _of_worker))
        for name in (
            "send_acked",
            "send_failed",
            "send_appended",
            "unstamped_settled",
            "unstamped_failed",
            "send_withdrawn",
        ):
            patches.enter_context(_around(WorkerProtocol, name, seen, _of_worker))
        patches.enter_context(_around(LedgerState, "apply", seen, _of_ledger))
        yield seen


def _around(
    kind: type, name: str, seen: Transitions, states: Callable[[Any], dict[tuple[str, object], str]]
) -> Any:
    method = getattr(kind, name)

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = states(self)
        result = method(self, *args, **kwargs)
        after = states(self)
        what = _cause(name, args)
        for item in before.keys() | after.keys():
            old, new = before.get(item, BEGIN), after.get(item, END)
            if old != new:
                seen[item[0], old, what, new] += 1
        return result

    return mock.patch.object(kind, name, watched)


def _cause(name: str, args: tuple[Any, ...]) -> str:
    """Return the kind of record that was read, the kind of event, or the method."""
    if name == "apply":
        return type(args[1]).__name__
    if name != "handle":
        return name
    event = args[0]
    return type(event.record).__name__ if isinstance(event, LedgerRead) else type(event).__name__


def _of_worker(machine: WorkerProtocol) -> dict[tuple[str, object], str]:
    states: dict[tuple[str, object], str] = {("process", id(machine)): _of_process(machine)}
    for epoch, cut in machine.open.cuts.items():
        states["cut", epoch] = _of_cut(cut)
    for event, epoch in machine.colours.running.items():
        states["event", event] = "runs in an earlier colour" if epoch < machine.colours.epoch else "runs"
    return states


def _of_process(machine: WorkerProtocol) -> str:
    if machine.absent:
        return "absent"
    if machine.process is None:
        return "not joined" if machine.stood_down is None else "stood down"
    return "closing" if machine.open.cuts else "joined"


def _of_cut(cut: OpenCut) -> str:
    return "answers awaited" if cut.markers_asked else "white events run"


def _of_ledger(ledger: LedgerState) -> dict[tuple[str, object], str]:
    return {("snapshot", epoch): str(view.status) for epoch, view in ledger.snapshots.items()}
