"""The story of the demo: from an empty broker to verified snapshots, with progress."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Final

from snapkafka import manifest as manifests
from snapkafka import ops
from snapkafka.cli.running import run_until_signalled
from snapkafka.cli.screen import standard
from snapkafka.demo.load import RATE, Load
from snapkafka.demo.practice import practise
from snapkafka.demo.settings import ACCOUNTS, TOTAL
from snapkafka.demo.summary import DemoResult, DemoSnapshot, count_money, read_naively
from snapkafka.demo.system import APPS, open_accounts, running_system
from snapkafka.errors import SnapshotFailedError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.protocol.snapshots import Status
from snapkafka.runtime.signals import Interrupted, on_ending_signal
from snapkafka.testing import RunningSystem, kafka
from snapkafka.until import until

INVARIANTS: Final = Path(__file__).parent / "invariants"
#: What the apps' own check needs, for any engine.
CHECKED: Final = ops.JobSpec(invariants=(str(INVARIANTS),), parameters=(f"total={TOTAL}",))
#: Long enough for money to be under way everywhere.
WARM_UP_S: Final = 2.0
DECIDED: Final = (Status.CAPTURED, Status.COMPLETED, Status.FAILED)
DECIDED_TIMEOUT_S: Final = 30.0


class Reporter:
    """A line on standard error for the beginning and for the end of every phase."""

    def __init__(self) -> None:
        self._screen, self._what, self._since = standard(error=True), "", 0.0

    def begin(self, what: str) -> None:
        self._what, self._since = what, time.monotonic()
        self._screen.print(f"... {what}")

    def done(self, note: str = "") -> None:
        took = time.monotonic() - self._since
        self._screen.print(("✓", "green"), f" {self._what}  ", (f"{took:.1f} s  {note}", "dim"))


def run_story(storage: Path, *, engine: str, keep: bool) -> DemoResult:
    """Start everything, take three snapshots under load, assemble and verify them into `storage`, stop everything.
    `engine` and `keep` are those of the command."""
    reporter = Reporter()
    with contextlib.ExitStack() as stack:
        reporter.begin("Kafka broker")
        broker = stack.enter_context(kafka())
        reporter.done(broker.bootstrap)
        reporter.begin("Faust services: accounts and clearing, two workers each")
        system = stack.enter_context(running_system(broker.bootstrap, "demo"))
        system.await_workers()
        reporter.done(f"{len(system.workers)} processes")

        async def under_load() -> DemoResult:
            load = Load(broker.bootstrap)
            reporter.begin(f"Load: {ACCOUNTS} accounts, {RATE} transfers a second, round and round")
            async with KafkaTopicAdmin(system.connection) as admin:
                await open_accounts(load, admin, system)
            async with load.running():
                await asyncio.sleep(WARM_UP_S)  # not a wait for anything: the load has to run for a while
                system.check_alive()
                reporter.done(f"{load.asked} transfers asked for")
                naive = await take_three(reporter, system, storage)
            # The snapshots are taken: the cores are those of assembly now.
            if not keep:
                for worker in system.workers:
                    worker.interrupt()  # nothing needs the services any more, and leaving takes them a while
            await assemble_all(reporter, system, list(naive), storage, engine)
            rows = {row.id: row for row in await ops.list_snapshots(system.connection, system.namespace)}
            taken = [_taken(rows[name], reading, storage) for name, reading in naive.items()]
            if keep:
                async with load.running():
                    await practise(system, storage)
            return DemoResult(snapshots=taken)

        try:
            return run_until_signalled(under_load)
        except Interrupted:
            on_ending_signal(lambda number: None)  # another one does not disturb the clean-up
            raise


async def take_three(reporter: Reporter, system: RunningSystem, storage: Path) -> dict[str, int]:
    """Take one snapshot from outside, and two at the same moment by two workers; with a naive reading beside each."""
    where, namespace = system.connection, system.namespace
    reporter.begin("Snapshot 1: from outside, as by `snapkafka trigger --wait`")
    await ops.trigger(
        where, namespace, snapshot_id="by-command", wait=True, storage=str(storage), who="the demo"
    )
    naive = {"by-command": await read_naively(where)}
    reporter.done()
    reporter.begin("Snapshots 2 and 3: two workers trigger at the same moment")
    for app in APPS:
        os.kill(system.workers_of(app)[0].pid, signal.SIGUSR1)

    async def both() -> list[ops.SnapshotInfo]:
        system.check_alive()
        found = [row for row in await ops.list_snapshots(where, namespace) if row.id not in naive]
        return found if len(found) == 2 and all(row.status in DECIDED for row in found) else []

    for row in await until(both, DECIDED_TIMEOUT_S, "both snapshots to be decided"):
        if row.failure is not None:
            raise SnapshotFailedError(f"snapshot {row.id} failed: {row.failure.reason}")
        naive[row.id] = await read_naively(where)
    reporter.done()
    return naive


async def assemble_all(
    reporter: Reporter, system: RunningSystem, names: list[str], storage: Path, engine: str
) -> None:
    """Assemble and verify the snapshots; with both engines Spark verifies the first one beside the others."""
    alone = "embedded" if engine == "both" else engine
    spec = ops.changed(CHECKED, namespace=system.namespace, storage=str(storage), engine=alone)
    assemble = partial(ops.assemble, system.connection)
    reporter.begin(f"Assembly and verification by {'Spark' if alone == 'spark' else 'the embedded engine'}")
    if engine != "both":
        await assemble(ops.changed(spec, snapshots=tuple(names)))
        reporter.done()
        return
    (first,) = await assemble(ops.changed(spec, snapshots=(names[0],)))
    again = ops.JobSpec(manifests=(first.manifest,), tables=True, engine="spark")
    spark = asyncio.ensure_future(ops.verify(system.connection, again))
    try:
        await assemble(ops.changed(spec, snapshots=tuple(names[1:])))
        reporter.done()
        reporter.begin("Verification of one by Spark as well: two engines, one verdict")
        (confirmed,) = await spark
    finally:
        spark.cancel()
        await asyncio.gather(spark, return_exceptions=True)
    if not confirmed.good:
        raise SnapshotFailedError("Spark does not confirm the snapshot", hint=f"see {confirmed.manifest}")
    reporter.done("good, and the same rows")


def _taken(row: ops.SnapshotInfo, naive: int, storage: Path) -> DemoSnapshot:
    path = storage / f"{manifests.file_stem(row.id)}.json"
    manifest, money = manifests.load(path.read_text(), where=str(path)), count_money(path)
    cuts = manifest.captured.processes
    return DemoSnapshot(
        snapshot_id=row.id,
        initiated_by_node_id=row.who,
        capture_ms=row.capture_ms,
        cut_us=[process.cut_us for process in cuts],
        events_running=sum(len(process.running) for process in cuts),
        verdict=manifest.verdict,
        checks=[check.name for check in manifest.checks if check.run],
        money=money,
        total=money.total,
        naive_total=naive,
        checkpoint_manifest_uri=str(path),
        tables=str((storage / manifest.tables[0].files[0].path).parents[1]),
    )
