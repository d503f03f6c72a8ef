"""`doctor`: each thing that would spoil a snapshot is found, named and told what to do about; a healthy cluster is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.advice import Advice
from snapkafka.errors import LedgerUnusableError
from snapkafka.ops import checkpointing
from snapkafka.protocol import (
    FOREIGN,
    Bye,
    CheckResult,
    Closed,
    CutReport,
    Hello,
    InputTopic,
    Pause,
    Retire,
    SentEnd,
    Table,
    TopicPartition,
    Trigger,
    Verdict,
)
from snapkafka.wire import headers as wire
from tests.worlds.fakes import FakeAccess, FakeCluster, FakeGroup, FakeTopic, Worker

STOCK = Table(name="stock", changelog="shop-stock-changelog", partitions=4, copartitioned=True)


def joined(cluster: FakeCluster, app: str = "shop", release: str = "1.0", **changes: Any) -> int:
    """A process of an app with one input and one table, of four partitions each."""
    given: dict[str, Any] = {
        "inputs": (InputTopic(topic="orders", partitions=4),),
        "tables": (STOCK,),
    }
    hello = Hello(n=len(cluster.the_ledger.entries), app=app, release=release, **(given | changes))
    return cluster.the_ledger.put(hello)


@pytest.fixture
def cluster() -> FakeCluster:
    """Healthy."""
    made = FakeCluster()
    made.the_admin.topics = {"orders": FakeTopic(4), "shop-stock-changelog": FakeTopic(4)}
    made.the_admin.settings["shop-stock-changelog"] = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": "7200000",
    }
    made.the_admin.known_groups = [FakeGroup("shop", frozenset({"orders"}))]
    return made


async def codes(cluster: FakeCluster, **options: Any) -> dict[str, str]:
    found = await ops.doctor(cluster, "ns", **options)
    assert found.well == all(advice.weight != "problem" for advice in found.found)
    return {advice.code: _printed(advice) for advice in found.found}


def _printed(advice: Advice) -> str:
    fix = f" {advice.command} undo: {advice.undo}" if advice.command else ""
    return f"{advice.weight}: {advice.what} | {advice.do}{fix}"


async def test_a_checkpoint_is_proposed_when_it_would_remove_many_records(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of the last hour stay: a ledger that is written to a lot is not reported for ever."""
    joined(cluster)
    entries = cluster.the_ledger.entries
    monkeypatch.setattr(checkpointing, "DUE", len(entries) - 1)
    an_hour_later = entries[-1].timestamp_ms + checkpointing.KEEP_MS
    found = await codes(cluster, clock=lambda: an_hour_later)
    assert f"{len(entries)} records that a checkpoint would remove" in found["ledger-long"]
    assert "snapkafka checkpoint" in found["ledger-long"]
    assert "ledger-long" not in await codes(cluster, clock=lambda: an_hour_later - 1)
    await ops.checkpoint(cluster, "ns", now_ms=an_hour_later)
    assert "ledger-long" not in await codes(cluster, clock=lambda: an_hour_later), "what it kept is in it"


async def test_a_healthy_cluster_is_reported_as_such(cluster: FakeCluster) -> None:
    joined(cluster)
    found = await ops.doctor(cluster, "ns")
    assert found.found == ()
    assert found.well
    assert found.apps == {"shop": 1}


async def test_nobody_is_there(cluster: FakeCluster) -> None:
    assert (await codes(cluster))["nobody"].startswith("problem")
    cluster.the_ledger.put(Bye(process=joined(cluster), n=2))
    cluster.the_admin.known_groups = [FakeGroup("shop", frozenset({"orders"}), ())]
    found = await ops.doctor(cluster, "ns")
    assert [advice.code for advice in found.found] == ["nobody"]
    assert found.apps == {"shop": 0}


async def test_an_input_that_no_worker_has_is_a_problem_until_one_has_it(cluster: FakeCluster) -> None:
    joined(cluster, missing=("to-pay",))
    found = (await codes(cluster))["topic-unread"]
    assert found == (
        "problem: topic to-pay did not exist when shop started, so no worker reads it | create it and restart"
        " shop: Faust notices a new topic only after minutes"
    )
    cluster.the_admin.topics["to-pay"] = FakeTopic(1)
    assert (await codes(cluster))["topic-unread"].endswith("it exists now: restart shop")
    joined(
        cluster, inputs=(InputTopic(topic="orders", partitions=4), InputTopic(topic="to-pay", partitions=1))
    )
    assert "topic-unread" not in await codes(cluster)


async def test_an_app_that_does_not_run_is_named_until_it_is_retired(cluster: FakeCluster) -> None:
    joined(cluster)
    cluster.the_ledger.put(Bye(process=joined(cluster, "tills"), n=2))
    assert "snapkafka retire --app tills" in (await codes(cluster))["stopped"]
    cluster.the_ledger.put(Retire(n=9, app="tills"))
    assert await codes(cluster) == {}


async def test_a_pause_and_two_releases_are_reported(cluster: FakeCluster) -> None:
    joined(cluster)
    joined(cluster, release="1.1")
    cluster.the_ledger.put(Pause(n=9, paused=True))
    found = await codes(cluster)
    assert found["paused"].startswith("problem")
    assert found["releases"].startswith("note: processes run several releases")
    assert "1.0 (1 of shop); 1.1 (1 of shop)" in found["releases"]


async def test_who_is_rolled_out_as_far_as_headers(cluster: FakeCluster) -> None:
    joined(cluster)
    joined(cluster, mode="stamp")
    assert (await codes(cluster))["stamp-only"].startswith("warning: 1 of shop refuse snapshots")


async def test_what_an_app_says_that_no_snapshot_holds(cluster: FakeCluster) -> None:
    joined(cluster, uncaptured=("agent tills reads an in-memory channel",))
    assert "app shop: agent tills reads an in-memory channel" in (await codes(cluster))["not-captured"]


async def test_a_ledger_that_these_credentials_or_nobody_can_write(cluster: FakeCluster) -> None:
    """Asked, not tried: nothing is appended."""
    joined(cluster)
    cluster.the_ledger.put(None)
    cluster.the_admin.may = FakeAccess(frozenset({"Read", "Describe"}), in_sync=1)
    cluster.the_admin.settings["_snapkafka.fake"] = {"min.insync.replicas": "2"}
    before = len(cluster.the_ledger.entries)
    found = await codes(cluster)
    assert "lack Write on _snapkafka.fake" in found["ledger-rights"]
    assert found["ledger-replicas"].startswith(
        "problem: _snapkafka.fake has 1 replicas in sync, fewer than min.insync.replicas=2"
    )
    assert found["ledger-garbage"].startswith("note: 1 records")
    assert len(cluster.the_ledger.entries) == before
    cluster.the_admin.may = FakeAccess(None, in_sync=2)
    assert set(await codes(cluster)) == {"ledger-garbage"}, "a broker that tells no rights accuses nobody"


async def test_partition_counts_of_source_and_changelog_differ(cluster: FakeCluster) -> None:
    """robinhood/faust#137, #325: both counts are told."""
    cluster.the_admin.topics["shop-stock-changelog"] = FakeTopic(6)
    joined(cluster)
    said = (await codes(cluster))["partition-counts"]
    assert said.startswith("problem: partition counts of table stock of app shop differ")
    assert "its changelog shop-stock-changelog has 6, of the inputs orders has 4" in said


async def test_partition_counts_of_a_table_that_needs_no_source_may_differ(cluster: FakeCluster) -> None:
    """A global table, or one whose changes a partitioner places."""
    cluster.the_admin.topics["shop-stock-changelog"] = FakeTopic(6)
    joined(cluster, tables=(replace(STOCK, copartitioned=False),))
    assert await codes(cluster) == {}


async def test_topics_that_are_missing_or_have_grown(cluster: FakeCluster) -> None:
    joined(cluster, inputs=(InputTopic(topic="orders", partitions=3), InputTopic(topic="gone", partitions=4)))
    found = await codes(cluster)
    assert "gone" in found["topic-missing"]
    assert "has 4 partitions, app shop joined with 3" in found["partitions-added"]


async def test_a_process_that_does_not_speak_kafka_need_not_be_restarted_for_partitions_that_are_added(
    cluster: FakeCluster,
) -> None:
    """It receives from them while it takes part."""
    joined(cluster, mode=FOREIGN, inputs=(InputTopic(topic="orders", partitions=3),))
    assert "partitions-added" not in await codes(cluster)


async def test_a_changelog_that_eats_itself_before_assembly(cluster: FakeCluster) -> None:
    """Faust makes the changelog of a windowed table with the life of its windows for the retention."""
    windowed = Table(name="stock", changelog="shop-stock-changelog", partitions=4, expires_ms=10_000)
    joined(cluster, tables=(windowed,))
    settings = cluster.the_admin.settings["shop-stock-changelog"]
    settings |= {"cleanup.policy": "compact,delete", "retention.ms": "10000", "retention.bytes": "-1"}
    said = (await codes(cluster))["retention"]
    assert said.startswith(
        "problem: changelog shop-stock-changelog keeps records for 10 s, assembly needs them for 1 h 10 s"
        " (windows of 10 s, and 1 h until it has read them)"
    )
    assert "--add-config retention.ms=3610000 undo: " in said
    assert said.endswith("--add-config retention.ms=10000")
    settings["retention.ms"] = "3610000"
    assert "retention" not in await codes(cluster)


async def test_an_input_that_is_deleted_too_soon_by_age_or_by_size(cluster: FakeCluster) -> None:
    joined(cluster)
    cluster.the_admin.settings["orders"] = {"retention.ms": "60000", "retention.bytes": "1000000"}
    found = await codes(cluster)
    assert found["retention"].startswith("problem: input orders keeps records for 1 min, assembly needs them")
    assert found["retention-bytes"].startswith("warning: input orders keeps 1,000,000 bytes of a partition")


SETS = Table(name="stock", changelog="shop-stock-changelog", partitions=4, sets=True)


@pytest.mark.parametrize(
    ("table", "holding", "code", "fixed"),
    [
        (SETS, {"cleanup.policy": "delete"}, "state-deleted", "retention.ms=-1"),
        (SETS, {"cleanup.policy": "compact"}, "sets-compacted", "cleanup.policy=delete,retention.ms=-1"),
        (None, {"cleanup.policy": "delete"}, "state-deleted", "cleanup.policy=compact,min.compaction.lag"),
        (None, {"cleanup.policy": "compact,delete"}, "state-deleted", "cleanup.policy=compact,min.compac"),
        (None, {"cleanup.policy": "delete", "retention.ms": "-1"}, "", ""),
        (SETS, {"cleanup.policy": "delete", "retention.ms": "-1"}, "", ""),
        (
            SETS,
            {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "9"},
            "state-deleted",
            "--add-config retention.bytes=-1",
        ),
    ],
)
async def test_a_changelog_that_does_not_hold_all_of_the_state(
    cluster: FakeCluster, table: Table | None, holding: dict[str, str], code: str, fixed: str
) -> None:
    """Faust makes that of a table of sets with `delete`: after the retention it has lost what did not change."""
    joined(cluster, **(dict[str, Any](tables=(table,)) if table else {}))
    cluster.the_admin.settings["shop-stock-changelog"] = holding
    found = await codes(cluster)
    assert set(found) == ({code} if code else set())
    if code:
        assert found[code].startswith("problem: changelog shop-stock-changelog of")
        assert fixed in found[code]


async def test_compaction_that_comes_before_assembly(cluster: FakeCluster) -> None:
    joined(cluster)
    del cluster.the_admin.settings["shop-stock-changelog"]["min.compaction.lag.ms"]
    said = (await codes(cluster))["compaction"]
    assert said.startswith("warning")
    assert said.endswith("--delete-config min.compaction.lag.ms")


async def test_who_else_reads_and_members_without_snapkafka(cluster: FakeCluster) -> None:
    joined(cluster)
    cluster.the_admin.known_groups = [
        FakeGroup("shop", frozenset({"orders"}), ("m1", "m2", "m3")),
        FakeGroup("reports", frozenset({"orders", "other"})),
        FakeGroup("elsewhere", frozenset({"other"})),
        FakeGroup("snapkafka.ns.shop", frozenset({"orders"})),
    ]
    found = await codes(cluster)
    assert "group shop has 3 members, 1 of them with snapkafka" in found["members-without"]
    assert "group reports reads orders" in found["external-reader"]
    assert len(found) == 2


async def test_who_reads_what_ours_write(cluster: FakeCluster) -> None:
    """As far as snapshots tell: what each process has written to stands in its `Closed`."""
    worker = Worker(cluster.the_ledger, "shop", "orders", sends=("bills", "orders"))
    assert worker.process == 0
    await ops.trigger(cluster, "ns")
    cluster.the_admin.known_groups = [FakeGroup("printers", frozenset({"bills"}))]
    assert "group printers reads the outputs bills" in (await codes(cluster))["external-output-reader"]


async def test_what_may_not_be_looked_at_is_said(cluster: FakeCluster) -> None:
    joined(cluster)
    cluster.the_admin.failure = LedgerUnusableError("not allowed", hint="grant DESCRIBE")
    found = await codes(cluster)
    assert set(found) == {"settings-unseen", "groups-unseen", "ledger-unseen"}
    assert all("grant DESCRIBE" in said for said in found.values())


async def test_an_app_that_runs_without_snapkafka_is_named(cluster: FakeCluster) -> None:
    """R10: it is no stopped one. Retired, it is a group like any other."""
    joined(cluster, "other", inputs=(InputTopic(topic="parcels", partitions=1),), tables=())
    cluster.the_ledger.put(Bye(process=joined(cluster), n=2))
    cluster.the_admin.known_groups = [FakeGroup("shop", frozenset({"orders"}), ())]
    assert "app-runs-without" not in await codes(cluster)
    cluster.the_admin.known_groups = [FakeGroup("shop", frozenset({"orders"}), ("one",))]
    assert "runs without snapkafka (1 group members)" in (await codes(cluster))["app-runs-without"]
    cluster.the_ledger.put(Retire(n=3, app="shop"))
    assert "app-runs-without" not in await codes(cluster)


async def test_a_process_that_stood_down_is_named(cluster: FakeCluster) -> None:
    process = joined(cluster)
    cluster.the_ledger.put(Bye(process=process, n=2, goes_on=True, reason="failed to stamp a record"))
    said = (await codes(cluster))["stood-down"]
    assert f"process {process} (shop" in said
    assert "because it failed to stamp a record" in said
    joined(cluster)
    assert "stood-down" not in await codes(cluster)


async def test_a_global_table_of_several_partitions_is_warned_of(cluster: FakeCluster) -> None:
    hits = Table(name="hits", changelog="shop-hits-changelog", partitions=2, is_global=True)
    cluster.the_admin.topics["shop-hits-changelog"] = FakeTopic(2)
    joined(cluster, tables=(replace(hits, partitions=1),))
    assert "global-partitions" not in await codes(cluster)
    joined(cluster, tables=(hits,))
    assert "has 2 changelog partitions" in (await codes(cluster))["global-partitions"]


async def test_an_agent_that_stands_while_its_input_grows_is_named(cluster: FakeCluster) -> None:
    """Each snapshot of it is consistent: nothing happens."""
    worker = Worker(cluster.the_ledger, "shop", "orders", partitions=4)
    cluster.the_admin.ends = {TopicPartition("orders", partition): 60 for partition in range(4)}

    async def found(position: int, end: int) -> str:
        worker.position, worker.end = position, end
        cluster.the_ledger.put(Trigger(n=len(cluster.the_ledger.entries), id=f"s{end}-{position}"))
        return (await codes(cluster)).get("agent-stands", "")

    assert not await found(10, 12)
    assert not await found(10, 12), "its inputs did not grow"
    said = await found(10, 50)
    assert said.startswith("warning: a of shop has not moved")
    assert "grew by 152 records; 160 are unread" in said
    assert not await found(11, 60)


async def test_a_topic_on_whose_way_headers_are_removed_is_named(cluster: FakeCluster) -> None:
    """By the last record that a process reports as acknowledged, at the very offset; what is gone tells nothing."""
    process = joined(cluster)
    ledger, admin, tp = cluster.the_ledger, cluster.the_admin, TopicPartition("orders", 1)
    epoch = ledger.put(Trigger(n=90, id="s", attempt=1)) + 1
    report = ledger.put(
        CutReport(process=process, n=91, epoch=epoch, previous=0, heard="ledger", assigned=-1, positions=())
    )
    sent = SentEnd(topic="orders", partition=1, white_end=8, last_seq=3, marker=-1)
    ledger.put(Closed(process=process, n=92, epoch=epoch, report=report, sent=(sent,)))
    admin.ends |= {TopicPartition("orders", partition): 9 for partition in range(4)}
    assert "headers-lost" not in await codes(cluster), "it is gone from the log"
    admin.headers_at[tp, 7] = [("other", b""), ("_sk", wire.stamp(1, 2, 3, 4, 5))]
    assert "headers-lost" not in await codes(cluster)
    admin.headers_at[tp, 7] = [("other", b"")]
    said = (await codes(cluster))["headers-lost"]
    assert said.startswith("problem: the record at offset 7 of orders[1], sent by process 0 (shop")
    admin.ends[tp] = 7
    assert "headers-lost" not in await codes(cluster), "the topic was recreated"


SPLIT = "table stock of shop: 1 key lies in several partitions: ann (0, 2)"


async def test_keys_in_several_partitions_are_those_of_the_newest_verdict(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders", partitions=4)

    for number, notes in enumerate([(SPLIT,), ()]):
        taken = await ops.trigger(cluster, "ns", snapshot_id=f"s{number}", wait=True)
        checks = (CheckResult(name="V3", status="passed", remarks=notes),)
        verdict = Verdict(n=80 + number, epoch=taken.epoch, verdict="VERIFIED", checks=checks)
        cluster.the_ledger.put(verdict)
        found = await codes(cluster)
        assert ("split-keys" in found) == bool(notes), "the newest counts"
        if notes:
            assert found["split-keys"].startswith(f"warning: snapshot s0: {SPLIT}")
