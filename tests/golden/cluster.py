"""A cluster in memory for the golden files: two apps, four snapshots that went differently, a fork and a setting that
`doctor` does not like."""

import asyncio
from typing import Final

from snapkafka import ops
from snapkafka.ports import Topic
from snapkafka.protocol import Abort, CheckResult, TopicPartition, Verdict
from snapkafka.wire import headers
from tests.worlds.fakes import FakeCluster, Worker, fake_group

NAMESPACE: Final = "shop"


def cluster(storage: str) -> FakeCluster:
    """Build it anew: commands append to its ledger."""
    raw, orders, bills = "raw", "orders", "bills"
    changelog, places = "shop-stock-changelog", "bank-places-changelog"
    in_raw, in_orders, in_bills = (TopicPartition(name, 0) for name in (raw, orders, bills))
    made = FakeCluster()
    ledger, admin = made.the_ledger, made.the_admin
    shop = Worker(ledger, "shop", raw, sends=(orders,), changelog=changelog)
    uncaptured = ("table places: use_partitioner",)
    bank = Worker(ledger, "bank", orders, sends=(bills,), changelog=places, uncaptured=uncaptured)
    admin.topics = {name: Topic(1) for name in (raw, orders, bills, changelog, places, ledger.topic)}
    tables = TopicPartition(changelog, 0), TopicPartition(places, 0)
    admin.ends = dict.fromkeys((in_raw, in_orders, in_bills, *tables), 40)
    admin.settings |= {name: {"cleanup.policy": "compact"} for name in (changelog, places)}
    admin.known_groups = [fake_group("report", frozenset({orders}))]
    admin.headers_at[in_raw, 7] = []
    check = headers.tp_check
    identity = headers.ledger_id(bytes(16))
    for tp, offset, worker, (topic, at) in ((in_orders, 3, shop, (raw, 7)), (in_bills, 5, bank, (orders, 3))):
        stamp = headers.stamp_with_cause(
            identity, check(*tp), 0, worker.process, offset, headers.topic_check(topic), 0, at
        )
        admin.headers_at[tp, offset] = [(headers.HEADER, stamp)]
    asyncio.run(_snapshots(made, storage))
    return made


async def _snapshots(made: FakeCluster, storage: str) -> None:
    """Take `good`, `bad` and `fresh`, which are captured, and `stuck`, which fails."""
    ledger = made.the_ledger
    for number, (name, verdict) in enumerate((("good", "VERIFIED"), ("bad", "INCONSISTENT"), ("fresh", ""))):
        taken = await ops.trigger(made, NAMESPACE, snapshot_id=f"{name}", who="ann@host", wait=True)
        if not verdict:
            continue
        failed = verdict == "INCONSISTENT"
        checks = (
            CheckResult(name="V1", status="failed" if failed else "passed", records=1_200),
            CheckResult(name="V4", status="passed"),
        )
        ledger.put(
            Verdict(
                n=90 + number,
                epoch=taken.epoch,
                verdict=verdict,
                checks=checks,
                manifest=f"{storage}/sunday.json" if failed else "/elsewhere/good.json",
            )
        )
    tills = Worker(ledger, "tills", "sales", reports=False)
    await ops.trigger(made, NAMESPACE, snapshot_id="running", who="ann@host", ttl_ms=3_600_000)
    stuck = await ops.trigger(made, NAMESPACE, snapshot_id="stuck", who="ann@host")
    first = f"process {tills.process} of app tills to report its cut"
    reason = f"not captured within 5000 ms: waited for {first}"
    ledger.put(Abort(n=99, epoch=stuck.epoch, code="ttl", reason=reason, culprit=first))
