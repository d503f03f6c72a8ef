"""`python -m tests.driver.faults BOOTSTRAP OUT PART/PARTS [KIND]`: find what a snapshot calls, and try a fault in each.

Many workers run in one process, some at a time; each has a namespace, a fault and a peer of its own. What became of
each is written to OUT as JSON. Instead of a part, a piece of a function's name chooses some. With a kind of app, only
what a snapshot of the plain one does not call is tried.
"""

from __future__ import annotations

from tests.driver.faults.instrument import RUN, WITHDRAWS, Fault, install_hook

install_hook()

import asyncio  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import uuid  # noqa: E402
from collections.abc import Callable  # noqa: E402
from contextvars import Context  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, Final  # noqa: E402

from aiokafka import AIOKafkaProducer  # noqa: E402
from confluent_kafka.admin import AdminClient  # noqa: E402

import snapkafka  # noqa: E402
from snapkafka.drivers.ledger import LedgerFollower  # noqa: E402
from snapkafka.drivers.process import Process  # noqa: E402
from snapkafka.kafka import Connection  # noqa: E402
from snapkafka.ops import doctor  # noqa: E402
from snapkafka.protocol import SnapshotView  # noqa: E402
from snapkafka.testing import create_topics  # noqa: E402
from tests.driver.faults.peer import Peer  # noqa: E402
from tests.driver.faults.wide_app import LATE_PARTITIONS, WideApp  # noqa: E402

WITHDRAWS.update(it.__code__ for it in (Process.stand_down, Process.withdraw, LedgerFollower._write))
#: Workers at a time.
AT_ONCE: Final = 7
#: Events before the snapshot, with each snapshot, and at last.
EVENTS: Final = 8
#: Between events that are sent while a snapshot is taken: a worker sees its trigger within 250 ms.
PACE_S: Final = 0.04
#: An event waits so long for a cut at most: a worker that can't cut goes on without.
CUT_S: Final = 2.0
#: Snapshots until a fault is met at the latest.
SNAPSHOTS: Final = 6
#: Of a run, where Faust does not get as far as the fault, or where no snapshot came at the moment that calls it.
TRIES: Final = 3
#: What the log may say of one fault.
LINE: Final = "snapkafka: failed"


class Lines(logging.Handler):
    """What the worker of one run logs as an error."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(logging.WARNING)
        self._fault = fault
        self.ours: list[str] = []
        self.theirs: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if RUN.get() is self._fault:
            line = record.getMessage()
            if line.startswith(LINE):
                self.ours.append(line)
            elif record.name == "aiokafka.conn":
                pass  # a connection of our own admin client, which reads answers by a function of ours
            elif record.exc_info and record.levelno >= logging.ERROR:  # else it may be that of a busy machine
                self.theirs.append(f"{line[:300]} {record.exc_info[1]!r}")


class Run:
    """One worker with one fault."""

    def __init__(self, bootstrap: str, folder: Path, fault: Fault, kind: str) -> None:
        self.fault = fault
        self.wrong: list[str] = []  # what should not be
        self.name = f"w{uuid.uuid4().hex[:10]}"
        self._bootstrap = bootstrap
        self._connection = Connection(bootstrap=bootstrap)
        self._wide = WideApp(self.name, bootstrap, folder / self.name, kind)
        self._driver: Any = snapkafka.install(self._wide.app, namespace=self.name)
        fault.over = lambda: bool(self._driver.absent)
        self._wide.pause = self._await_cut
        #: While a snapshot is asked for: the colour that its cut ends.
        self._cut_due: int | None = None
        self._waiting = asyncio.Event()  # an event waits for that cut
        self._peer = Peer(bootstrap, self.name, f"{self.name}-peer")
        self._sent = 0
        self._producer: Any = None
        self._context = Context()

    async def go(self) -> Run:
        """Only what the app does is done in the context of the fault."""
        self._context.run(RUN.set, self.fault)
        lines = Lines(self.fault)
        logging.getLogger().addHandler(lines)
        try:
            await self._go(lines)
        except Exception as error:
            self.wrong.append(
                f"{type(error).__name__}: {error} ({self._wide.amiss(self._sent)}, {self._waits()})"
            )
        finally:
            try:
                async with asyncio.timeout(20):
                    await self._in_context(self._wide.app.stop())
            except Exception as error:
                self.wrong.append(f"it did not stop: {error!r}")
            await self._peer.stop()
            if self._producer is not None:
                await self._producer.stop()
            logging.getLogger().removeHandler(lines)
            await asyncio.to_thread(self._delete_topics)
        self.wrong += lines.theirs
        if self.fault.where and len(lines.ours) != 1:
            self.wrong.append(f"{len(lines.ours)} lines in the log: {lines.ours}")
        return self

    async def _go(self, lines: Lines) -> None:
        names = [f"{self.name}-{of}" for of in ("in", "out", "soon", "asks", "ticks", "peer")]
        await asyncio.to_thread(create_topics, self._bootstrap, *names)
        late = f"{self.name}-late"
        await asyncio.to_thread(create_topics, self._bootstrap, late, partitions=LATE_PARTITIONS)
        self._producer = AIOKafkaProducer(bootstrap_servers=self._bootstrap, linger_ms=0)
        await self._producer.start()
        await self._peer.start()
        await self._in_context(self._wide.app.start())
        await self._peer.until("the worker to take part", lambda: self._driver.participating, 60.0)
        await self._produce()
        await self._done("before the snapshot")
        self.fault.armed = True
        for number in range(SNAPSHOTS):
            during = asyncio.create_task(self._produce(PACE_S))  # so that some event runs at the cut
            self._cut_due = self._driver.machine.colours.epoch
            self._waiting.clear()
            await self._peer.until("an event to wait for the cut", self._waiting.is_set)
            snapshot = await self._peer.trigger(f"s{number}")
            await during
            await self._produce()
            if not self.fault.where:
                await self._peer.until("the snapshot", lambda s=snapshot: not s.open)
                if snapshot.failure is not None:
                    self.wrong.append(f"it failed: {snapshot.failure}")
            else:
                await self._peer.until("the fault", lambda s=snapshot: self.fault.raised or not s.open)
            await self._done(f"with snapshot {number}")
            if self.fault.raised:
                break
        if not self.fault.where:
            await self._rehearse()
        elif self.fault.raised:
            await self._withdrawn(snapshot)
            await self._produce()
            await self._done("at last")

    async def _await_cut(self) -> None:
        """Let an event run until the cut that is due, so that it meets effects of the next colour."""
        self._waiting.set()
        deadline = time.monotonic() + CUT_S
        while self._driver.machine.colours.epoch == self._cut_due and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(PACE_S / 4)

    def _delete_topics(self) -> None:
        """Hundreds of runs share a broker, which slows down with its thousands of partitions."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        ours = [name for name in admin.list_topics(timeout=30).topics if self.name in name]
        for deleted in admin.delete_topics(ours).values():
            deleted.result(30)

    def _waits(self) -> str:
        state = self._peer.state
        return "; ".join(str(waits) for epoch in state.open for waits in state.waiting(epoch))

    def _in_context(self, work: Any) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(work, context=self._context)

    async def _produce(self, pace_s: float = 0.0) -> None:
        for number in range(self._sent, self._sent + EVENTS):
            await asyncio.sleep(pace_s)
            await self._producer.send(f"{self.name}-in", str(number).encode(), b"k%d" % (number % 5))
        self._sent += EVENTS
        await self._producer.flush()

    async def _done(self, when: str) -> None:
        await self._peer.until(f"all events to be processed {when}", lambda: not self._wide.amiss(self._sent))

    async def _rehearse(self) -> None:
        """Stand down without a fault: what is called for that is needed to withdraw."""
        self.fault.withdrawing = True
        self._context.run(self._driver.stand_down, "to rehearse", RuntimeError("none"))
        await self._peer.until("it to withdraw", self._view_gone)
        self.fault.armed = False

    def _view_gone(self) -> bool:
        return any(v.goes_on for v in self._peer.state.processes.values() if v.hello.app == self.name)

    async def _withdrawn(self, snapshot: SnapshotView) -> None:
        """The worker has withdrawn, everybody knows why, and the others go on."""
        wrong, where = self.wrong, self.fault.where
        await self._peer.until("the worker to stand down", lambda: self._driver.absent)
        await self._peer.until("its withdrawal to be in the ledger", self._view_gone)
        await self._peer.until("the open snapshot to be decided", lambda: not snapshot.open)
        failure = snapshot.failure
        if failure is not None and where not in failure.reason:
            wrong.append(f"the open snapshot failed for another reason: {failure}")
        if failure is None and where not in snapshot.contaminated:
            await self._peer.trigger("later")  # it was captured before the fault
        later = await self._peer.trigger("all")
        await self._peer.until("the next snapshot of all", lambda: not later.open)
        if later.failure is None or where not in later.failure.reason:
            wrong.append(f"the next snapshot of all: {later.failure}")
        others = await self._peer.trigger("others", self._peer.app)
        await self._peer.until("a snapshot of the others", lambda: not others.open)
        if others.failure is not None:
            wrong.append(f"a snapshot of the others failed: {others.failure}")
        found = await doctor(self._connection, self.name)
        if not any(where in advice.what and self.name in advice.what for advice in found.found):
            wrong.append(f"doctor does not name it: {[advice.code for advice in found.found]}")


async def called_by_a_snapshot(
    bootstrap: str, folder: Path, kind: str
) -> tuple[set[str], set[str], set[str]]:
    """Take snapshots of two such apps without a fault; the functions that both call, that any of them calls, and those
    that withdraw."""
    runs = await asyncio.gather(*(Run(bootstrap, folder, Fault(), kind).go() for _ in range(2)))
    wrong = [what for run in runs for what in run.wrong]
    assert not wrong, f"without a fault: {wrong}"
    one, two = (run.fault for run in runs)
    return one.called & two.called, one.called | two.called, one.called_to_withdraw | two.called_to_withdraw


async def all_of(
    bootstrap: str, folder: Path, chosen: Callable[[list[str]], list[str]], kind: str
) -> dict[str, Any]:
    """First what a snapshot calls, then a fault in each function that is chosen of these."""
    always, _, withdraws = await called_by_a_snapshot(bootstrap, folder, kind)
    plain = (await called_by_a_snapshot(bootstrap, folder, ""))[1] if kind else set[str]()
    called = sorted(always - plain)
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(where: str) -> dict[str, Any]:
        async with slots:
            for _ in range(TRIES):
                run = await Run(bootstrap, folder, Fault(where, withdraws=where in withdraws), kind).go()
                if run.fault.raised or (run.wrong and run.fault.armed):
                    break  # else Faust itself did not get through: it may skip what comes while it ends a recovery
        print(where, run.fault.raised, "; ".join(run.wrong)[:400] or "well", flush=True)
        return {"where": where, "raised": run.fault.raised, "wrong": run.wrong}

    return {"called": called, "tried": await asyncio.gather(*map(one, chosen(called)))}


def main() -> None:
    """See above."""
    bootstrap, out, wanted, kind = (*sys.argv[1:], "")[:4]
    logging.getLogger().addHandler(logging.NullHandler())
    logging.getLogger().setLevel(logging.WARNING)

    def chosen(called: list[str]) -> list[str]:
        part, _, parts = wanted.partition("/")
        return called[int(part) :: int(parts)] if parts else [where for where in called if wanted in where]

    with tempfile.TemporaryDirectory() as folder:
        # Not `asyncio.run`, which would wait for tasks of an app that did not stop.
        found = asyncio.new_event_loop().run_until_complete(all_of(bootstrap, Path(folder), chosen, kind))
    Path(out).write_text(json.dumps(found, indent=1))
    sys.stdout.flush()
    os._exit(0)  # a consumer of Faust's that did not stop has a thread, which would be waited for


if __name__ == "__main__":
    main()
