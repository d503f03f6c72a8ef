"""A storm: faults one after the other, a snapshot asked for every second, and what became of each."""

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from snapkafka import ops
from snapkafka.errors import SnapshotFailedError, TriggerRefusedError
from snapkafka.protocol import SnapshotView
from snapkafka.testing import wait_until
from tests.e2e.parts import Live

from .faults import Faults, start

TTL_MS: Final = 5_000
#: From one fault to the next; every fifth is a heavy one.
GAP_S: Final = 5.5
HEAVY_EVERY: Final = 5
#: The slowest answer: four attempts that time out, with the pauses between them.
PATIENCE_S: Final = 60.0
CAPTURED: Final = "captured"
#: After a fault the next good snapshot comes within so many seconds (of when the fault is over).
RECOVERY_S: Final = 15.0
#: Python starts and imports Faust within so many seconds on a machine for which these times are meant, with the system
#: of the storm on it. One that takes longer is given longer for everything; what we cost is no part of it.
CALM_S: Final = 1.0
#: On a machine that is slower than that nothing is learnt.
SLOWEST: Final = 4.0
#: Changelogs are compacted as they grow. A worker that takes over reads them from their start before it goes on, and
#: without that Faust takes longer for it than a snapshot may be late after eight minutes of load. (A topic's own
#: lag goes before the broker's: the test sets it to 0, where the demo has a week.)
BROKER: Final = {
    "log.roll.ms": "10000",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that happened: when it began and was done (ledger clock and ours are one machine's), ms."""

    kind: str
    reported: str
    began_ms: int
    done_ms: int


@dataclass(slots=True)
class Storm:
    """What happened."""

    faults: list[Fault] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)  # of each that was asked for, after its retries
    views: dict[int, SnapshotView] = field(default_factory=dict)  # every attempt, by its epoch
    began_ms: dict[int, int] = field(default_factory=dict)  # epoch -> when it was triggered
    captured_ms: dict[int, int] = field(default_factory=dict)  # epoch -> when its last record was appended
    crashed: list[str] = field(default_factory=list)  # workers that ended, with their last words
    bugs: list[str] = field(default_factory=list)  # of ours, as logs of workers tell them
    slowness: float = 1.0  # of the machine: all times of a storm are so many times as long

    @property
    def share(self) -> float:
        """Of all that were asked for, how many were captured, by whichever attempt."""
        return self.outcomes.count(CAPTURED) / len(self.outcomes)

    def reported(self) -> list[str]:
        """All of it, line by line, in the order of time; seconds since the first fault."""
        lines = [(fault.began_ms, f"FAULT {fault.kind}: {fault.reported}") for fault in self.faults]
        for epoch, view in self.views.items():
            what = f"failed, {view.failure.code}: {view.failure.reason}" if view.failure else "captured"
            line = f"{view.trigger.id}, attempt {view.trigger.attempt} (epoch {epoch}) {what}"
            lines.append((self.began_ms[epoch], line))
        lines += [(at, f"epoch {epoch} is captured") for epoch, at in self.captured_ms.items()]
        start = min(at for at, _ in lines)
        return [f"{(at - start) / 1000:8.1f}  {line}" for at, line in sorted(lines)]

    def without_recovery(self) -> list[str]:
        """Faults after which no good snapshot came in time."""
        late = []
        for fault in self.faults:
            after = [epoch for epoch in self.captured_ms if self.began_ms[epoch] >= fault.began_ms]
            done = [self.captured_ms[epoch] - fault.done_ms for epoch in after]
            if not done or min(done) > RECOVERY_S * self.slowness * 1000:
                late.append(f"{fault.kind} ({fault.reported}): {min(done, default=-1)} ms")
        return late


#: What a broker that does not answer may cause.
OF_THE_WORLD: Final = ("to join", "to announce its inputs")


def storm(live: Live, *, seed: int, seconds: float) -> Storm:
    """Let it rage for so long, then wait until everything is decided and the last fault is over."""
    found, faults = Storm(slowness=_slowness()), Faults(live, random.Random(seed))
    over = threading.Event()
    asking = ThreadPoolExecutor(1).submit(asyncio.run, _ask(live, found, over))
    end = time.monotonic() + seconds * found.slowness
    try:
        while time.monotonic() < end:
            began = time.monotonic()
            _supervise(live, found)
            _do(faults, found)
            time.sleep(max(0.0, began + GAP_S * found.slowness - time.monotonic()))
        faults.rest()
        # For the last fault too there have to be snapshots that could be good.
        time.sleep(RECOVERY_S * found.slowness)
    finally:
        over.set()
        asking.result()
    _decided(live, found)
    found.bugs = bugs_in(live.system.folder)
    return found


def bugs_in(folder: Path) -> list[str]:
    """What went wrong in us that the world did not cause, with whose log says so."""
    return [
        f"{log.stem}: {line}"
        for log in sorted(folder.glob("*.txt"))
        for line in log.read_text(errors="replace").splitlines()
        if "snapkafka: failed to" in line and not any(f"failed {what} (" in line for what in OF_THE_WORLD)
    ]


def _slowness() -> float:
    """How much longer than a calm machine this one takes for what is none of ours."""
    took = []
    for _ in range(3):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "from faust import App, Stream"], check=True)
        took.append(time.monotonic() - began)
    slowness = max(1.0, sorted(took)[1] / CALM_S)
    assert slowness <= SLOWEST, f"{slowness:.1f} times as slow as a calm machine"
    return slowness


def _supervise(live: Live, found: Storm) -> None:
    """Start another worker for each that has ended by itself, as any operator's supervisor does."""
    for worker in [worker for worker in live.system.workers if worker.status is not None]:
        found.crashed.append(f"{worker.name}:\n{worker.last_lines(60)}")
        live.system.kill(worker)
        start(live, worker.app)


def _do(faults: Faults, found: Storm) -> None:
    """Each kind comes as often as the others, in an order that the seed decides."""
    kinds = Faults.LIGHT if len(found.faults) % HEAVY_EVERY else Faults.HEAVY
    done = Counter(fault.kind for fault in found.faults)
    least = min(done[kind] for kind in kinds)
    kind = faults.rng.choice([kind for kind in kinds if done[kind] == least])
    began = time.time_ns() // 1_000_000
    reported = getattr(faults, kind)()
    found.faults.append(Fault(kind, reported, began, time.time_ns() // 1_000_000))


async def _ask(live: Live, found: Storm, over: threading.Event) -> None:
    """A snapshot every second (of a calm machine), each as `snapkafka trigger --wait` asks for it."""
    where, asks = live.system.connection, list[asyncio.Future[ops.SnapshotInfo]]()
    options: dict[str, Any] = {"wait": True, "ttl_ms": round(TTL_MS * found.slowness)}
    while not over.is_set():
        asked = ops.trigger(where, live.namespace, snapshot_id=f"storm-{len(asks)}", **options)
        asks.append(asyncio.ensure_future(asked))
        await asyncio.sleep(found.slowness)
    async with asyncio.timeout(PATIENCE_S * found.slowness):
        for ask in asks:
            try:
                await ask
                found.outcomes.append(CAPTURED)
            except (SnapshotFailedError, TriggerRefusedError) as error:
                found.outcomes.append(str(error))


def _decided(live: Live, found: Storm) -> None:
    observer, snapshots, times = live.observer, live.observer.state.snapshots, live.observer.times
    end = observer.call(observer.ledger.end())
    read = lambda: observer.state.end >= end and not observer.state.open  # noqa: E731
    wait_until("all snapshots of the storm to be decided", read, timeout_s=PATIENCE_S * found.slowness)
    found.views = dict(snapshots)
    found.began_ms = {epoch: times[epoch - 1] for epoch in found.views}
    found.captured_ms = {
        epoch: times[view.captured_at] for epoch, view in found.views.items() if view.captured_at is not None
    }
