"""A cluster in memory for the golden files: three apps, five snapshots, and what `doctor` does not like."""

import asyncio
from typing import Any, Final

from snapkafka import ops
from snapkafka.ports import Topic
from snapkafka.protocol import Abort, CheckResult, TopicPartition, Verdict
from tests.worlds.fakes import FakeCluster, Worker, fake_group

NAMESPACE: Final = "shop"


def cluster(storage: str) -> FakeCluster:
    """Build it anew: commands append to its ledger."""
    made, changelogs = FakeCluster(), ("shop-stock-changelog", "bank-places-changelog")
    ledger, admin = made.the_ledger, made.the_admin
    Worker(ledger, "shop", "raw", sends=("orders",), changelog=changelogs[0])
    uncaptured = ("table places: use_partitioner",)
    Worker(ledger, "bank", "orders", sends=("bills",), changelog=changelogs[1], uncaptured=uncaptured)
    names = "raw", "orders", "bills", *changelogs
    admin.topics = {name: Topic(1) for name in (*names, ledger.topic)}
    admin.ends = {TopicPartition(name, 0): 40 for name in names}
    admin.settings |= {name: {"cleanup.policy": "compact"} for name in changelogs}
    admin.known_groups = [fake_group("report", frozenset({"orders"}))]
    asyncio.run(_snapshots(made, storage))
    return made


async def _snapshots(made: FakeCluster, storage: str) -> None:
    """Take `good`, `bad` and `fresh`, which are captured, `running`, and `stuck`, which fails."""
    ledger = made.the_ledger
    for name, verdict, status, manifest in (
        ("good", "VERIFIED", "passed", "/elsewhere/good.json"),
        ("bad", "INCONSISTENT", "failed", f"{storage}/sunday.json"),
        ("fresh", "", "", ""),
    ):
        taken = await ops.trigger(made, NAMESPACE, snapshot_id=name, who="ann@host", wait=True)
        checks = (
            CheckResult(name="V1", status=status, records=1_200),
            CheckResult(name="V4", status="passed"),
        )
        if verdict:
            found: Any = {"verdict": verdict, "checks": checks, "manifest": manifest}
            ledger.put(Verdict(n=90 + taken.epoch, epoch=taken.epoch, **found))
    tills = Worker(ledger, "tills", "sales", reports=False)
    await ops.trigger(made, NAMESPACE, snapshot_id="running", who="ann@host", ttl_ms=3_600_000)
    stuck = await ops.trigger(made, NAMESPACE, snapshot_id="stuck", who="ann@host")
    first = f"process {tills.process} of app tills to report its cut"
    reason = f"not captured within 5000 ms: waited for {first}"
    ledger.put(Abort(n=99, epoch=stuck.epoch, code="ttl", reason=reason, culprit=first))
