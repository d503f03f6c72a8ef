"""The story of `make demo`: from an empty broker to verified snapshots, as data and with progress."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self

from snapkafka import manifest as manifests
from snapkafka.assembly.spark.entry import CHILD
from snapkafka.assembly.spec import JobSpec, as_file
from snapkafka.demo.load import RATE, Load
from snapkafka.demo.money import Money, count_money
from snapkafka.demo.naive import Naive, read_naively
from snapkafka.demo.observer import Observer, observing
from snapkafka.demo.settings import ACCOUNTS, TOTAL
from snapkafka.demo.system import System, running_system, wait_until
from snapkafka.errors import EXIT_NOT_GOOD, SnapshotFailedError, TimedOutError
from snapkafka.manifest import Manifest
from snapkafka.ops.assembling import JOB
from snapkafka.runtime.child import Child
from snapkafka.testing import kafka

INVARIANTS: Final = Path(__file__).parent / "invariants"
#: Long enough for money to be under way everywhere.
WARM_UP_S: Final = 2.0
DECIDED_TIMEOUT_S: Final = 30.0
#: Spark's start, and each snapshot; here 10 s each where nothing else runs. A loaded machine of a CI gets far more.
ASSEMBLY_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.1
FAUST: Final = "Faust services: accounts and clearing"
#: The plain loop that `clearing` may be.
LOOP: Final = "snapkafka.demo.clearing_loop"
#: The engines, as people read them.
ENGINES: Final = {"embedded": "the embedded engine", "spark": "Spark"}
ASSEMBLY_TIMEOUT_EACH_S: Final = 60.0


class Reporter(Protocol):
    """The receiver of progress: a phase, and its duration once it is over."""

    def begin(self, what: str) -> None: ...

    def tick(self, note: str) -> None: ...

    def done(self, note: str = "") -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSnapshot:
    """One snapshot of the demo: its initiator, its duration, its result, and that of a naive reading."""

    id: str
    asked_by: str
    capture_ms: int
    cut_us: tuple[int, ...]
    heard: Mapping[str, int]
    running_white: int
    naive: Naive
    money: Money
    manifest: Manifest
    manifest_path: str
    tables_path: str

    @property
    def adds_up(self) -> bool:
        return self.money.total == TOTAL


def run_story(
    reporter: Reporter,
    storage: Path,
    *,
    engine: str = "both",
    mixed: bool = False,
    then: Callable[[System], None] | None = None,
    keep: Callable[[System], None] | None = None,
) -> list[DemoSnapshot]:
    """Start everything, take three snapshots under load, assemble and verify them, stop everything.

    Args:
        reporter: called with every phase.
        storage: for tables and manifests.
        engine: "embedded" or "spark" assembles; "both": the embedded one assembles, and Spark verifies one snapshot.
        mixed: `clearing` is a loop with plain clients.
        then: called at the end, while the system still runs.
        keep: called after that, under load again.
    """
    with ExitStack() as stack:
        reporter.begin("Kafka broker")
        broker = stack.enter_context(kafka())
        reporter.done(broker.bootstrap)
        loops = {"clearing": LOOP} if mixed else {}
        what = "Services: accounts with Faust, clearing with confluent-kafka" if mixed else FAUST
        reporter.begin(f"{what}, two workers each")
        system = stack.enter_context(running_system(broker.bootstrap, "demo", loops=loops))
        observer = stack.enter_context(observing(broker.bootstrap, "demo"))
        observer.wait_for_workers(system)
        reporter.done(
            f"4 processes, {sum(len(view.inputs) for view in observer.state.living())} input partitions"
        )
        # Nothing computes while the load runs: Spark starts beside it.
        spark = stack.enter_context(WaitingSpark(storage)) if engine == "both" else None
        load = Load(broker.bootstrap)
        reporter.begin(f"Load: {ACCOUNTS} accounts, {RATE} transfers a second, round and round")
        observer.open_accounts(load, system)
        observer.start_load(load)
        time.sleep(WARM_UP_S)  # not a wait for anything: the load has to run for a while
        system.check_alive()
        reporter.done(f"{load.asked} transfers asked for")
        naive = take_three(reporter, observer, system, storage)
        observer.stop_load()  # the snapshots are taken: the cores are those of assembly now
        names, alone = list(naive), "embedded" if engine == "both" else engine
        reporter.begin(f"Assembly and verification by {ENGINES[alone]}")
        if then is None and keep is None:
            system.interrupt_all()  # nothing needs the services any more, and leaving takes them a while
        if spark is not None:  # verifies the first one beside the assembly of the others
            assemble(broker.bootstrap, "demo", names[:1], storage, engine=alone, tick=reporter.tick)
            spark.verify(broker.bootstrap, names[0])
        others = names[1:] if spark is not None else names
        assemble(broker.bootstrap, "demo", others, storage, engine=alone, tick=reporter.tick)
        reporter.done()
        if spark is not None:
            reporter.begin("Verification of one by Spark as well: two engines, one verdict")
            spark.await_verdict(tick=reporter.tick)
            reporter.done("good, and the same rows")
        taken = [_taken(observer, name, reading, storage) for name, reading in naive.items()]
        if then is not None:
            then(system)
        if keep is not None:
            observer.start_load(load)
            keep(system)
        return taken


def take_three(reporter: Reporter, observer: Observer, system: System, storage: Path) -> dict[str, Naive]:
    """Take one snapshot by the command, and two at the same moment by two workers; with a naive reading beside each."""
    reporter.begin("Snapshot 1: `snapkafka trigger --wait`")
    command(observer, "trigger", "--wait", "--id", "by-command", "--storage", str(storage))
    naive = {"by-command": observer.call(read_naively(observer.connection))}
    reporter.done()
    reporter.begin("Snapshots 2 and 3: two workers trigger at the same moment")
    before = set(observer.state.snapshots)
    for app in ("accounts", "clearing"):
        os.kill(system.workers_of(app)[0].pid, signal.SIGUSR1)

    def both() -> list[Any]:
        return [view for epoch, view in observer.state.snapshots.items() if epoch not in before]

    wait_until(
        "both snapshots to be decided",
        lambda: len(both()) == 2 and not any(view.open for view in both()),
        timeout_s=DECIDED_TIMEOUT_S,
        system=system,
    )
    for view in both():
        if view.failure is not None:
            raise SnapshotFailedError(f"snapshot {view.trigger.id} failed: {view.failure.reason}")
        naive[view.trigger.id] = observer.call(read_naively(observer.connection))
    reporter.done()
    return naive


def command(observer: Observer, *arguments: str) -> Any:
    """Run the `snapkafka` command as a user would; return its JSON."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "snapkafka.cli",
            *arguments,
            "--json",
            "--bootstrap",
            observer.connection.bootstrap,
            "--namespace",
            observer.namespace,
        ],
        capture_output=True,
        text=True,
        timeout=DECIDED_TIMEOUT_S,
    )
    if done.returncode != 0:
        raise SnapshotFailedError(
            f"snapkafka {arguments[0]} failed with status {done.returncode}: {done.stderr.strip()}"
        )
    return json.loads(done.stdout)


def assemble(
    bootstrap: str,
    namespace: str,
    names: list[str],
    storage: Path,
    *,
    total: int = TOTAL,
    engine: str = "auto",
    tick: Callable[[str], None] = lambda note: None,
) -> int:
    """Assemble all snapshots at once; return the exit status of the job (0 or 1: a result)."""
    spec = JobSpec(
        bootstrap=bootstrap,
        namespace=namespace,
        snapshots=tuple(names),
        storage=str(storage),
        invariants=(str(INVARIANTS),),
        parameters=(f"total={total}",),
        engine=engine,
    )
    return _job(spec, storage, len(names), tick)


class WaitingSpark:
    """Spark in a process of its own, which starts at once and waits for a snapshot to verify; its log is in the
    storage."""

    def __init__(self, storage: Path) -> None:
        storage.mkdir(parents=True, exist_ok=True)
        self._storage, self._log = storage, storage / "verification.txt"
        asked, self._answer = os.pipe()
        command = [sys.executable, "-m", "snapkafka.demo.spark_job", f"--spec=/dev/fd/{asked}"]
        with self._log.open("wb") as out:
            self._child = Child(command, output=out, pass_fds=[asked])
        os.close(asked)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end()

    def verify(self, bootstrap: str, name: str) -> None:
        """Let it verify an assembled snapshot, and compare its tables with those that Spark computes."""
        place = str(_manifest_place(self._storage, name))
        spec = JobSpec(bootstrap=bootstrap, manifests=(place,), tables=True, engine="spark")
        with os.fdopen(self._answer, "wb") as asking:
            asking.write(as_file(spec))

    def await_verdict(self, *, tick: Callable[[str], None]) -> None:
        """Wait until it has verified.

        Raises:
            SnapshotFailedError: the verdict is not good, or the job failed.
        """
        if _awaited(self._child, self._log, ASSEMBLY_TIMEOUT_S + ASSEMBLY_TIMEOUT_EACH_S, tick):
            raise SnapshotFailedError("Spark does not confirm the snapshot", hint=f"see {self._log}")


def _job(spec: JobSpec, storage: Path, count: int, tick: Callable[[str], None]) -> int:
    """Run the job in a process of its own, with its log in the storage; return its exit status."""
    storage.mkdir(parents=True, exist_ok=True)
    log = storage / "assembly.txt"
    with tempfile.TemporaryFile() as options:
        options.write(as_file(spec))
        options.seek(0)
        command = [*JOB, CHILD, f"--spec=/dev/fd/{options.fileno()}"]
        with log.open("wb") as out, Child(command, output=out, pass_fds=[options.fileno()]) as job:
            return _awaited(job, log, ASSEMBLY_TIMEOUT_S + count * ASSEMBLY_TIMEOUT_EACH_S, tick)


def _awaited(job: Child, log: Path, timeout_s: float, tick: Callable[[str], None]) -> int:
    deadline = time.monotonic() + timeout_s
    while (status := job.wait(POLL_S)) is None:
        if time.monotonic() > deadline:
            raise TimedOutError(f"waited {timeout_s:.0f} s for the job; see {log}")
        tick(_last_line(log))
    if status not in (0, EXIT_NOT_GOOD):
        raise SnapshotFailedError(
            f"the job ended with status {status}: {_last_line(log)}", hint=f"all of it: {log}"
        )
    return status


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def _manifest_place(storage: Path, name: str) -> Path:
    return storage / f"{manifests.file_stem(name)}.json"


def _taken(observer: Observer, name: str, naive: Naive, storage: Path) -> DemoSnapshot:
    view = observer.state.snapshots[observer.state.latest_of[name]]
    assert view.captured_at is not None
    path = _manifest_place(storage, name)
    manifest = manifests.load(path.read_text(), where=str(path))
    tables = storage / manifests.file_stem(name)
    processes = manifest.captured.processes
    heard: dict[str, int] = {}
    for process in processes:
        heard[str(process.heard)] = heard.get(str(process.heard), 0) + 1
    return DemoSnapshot(
        id=name,
        asked_by=view.trigger.who,
        capture_ms=observer.times[view.captured_at] - observer.times[view.epoch - 1],
        cut_us=tuple(process.cut_us for process in processes),
        heard=heard,
        running_white=sum(len(process.running) for process in processes),
        naive=naive,
        money=count_money(tables),
        manifest=manifest,
        manifest_path=str(path),
        tables_path=str(tables),
    )
