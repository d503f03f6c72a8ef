"""The sensor, the triggers, the asset, and the connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, TaskDeferred
from snapkafka_airflow.assets.snapkafka import verified_asset
from snapkafka_airflow.hooks.snapkafka import SnapkafkaHook
from snapkafka_airflow.sensors.snapkafka import SnapkafkaCapturedSensor
from snapkafka_airflow.triggers.snapkafka import (
    WATERMARK,
    SnapkafkaCapturedTrigger,
    SnapkafkaVerdictTrigger,
)

from snapkafka import ops
from snapkafka.protocol.records import Abort, Verdict
from tests.worlds.fakes import FakeCluster


async def first(trigger: Any) -> Any:
    """The payload of the first event of a trigger, which is then closed as the triggerer does it."""
    events = trigger.run()
    try:
        return (await asyncio.wait_for(anext(events), 5)).payload
    finally:
        await events.aclose()
        await trigger.cleanup()


def again(trigger: Any) -> Any:
    """The trigger as the triggerer makes it from what `serialize` returned."""
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    assert type(trigger).__module__ == module
    return getattr(__import__(module, fromlist=[name]), name)(**arguments)


# -- captured -------------------------------------------------------------------------------------------------


async def test_a_captured_snapshot_wakes_the_sensor(cluster: FakeCluster, context: dict[str, Any]) -> None:
    await ops.trigger(cluster, "ns", snapshot_id="s")
    sensor = SnapkafkaCapturedSensor(task_id="captured", snapshot_id="s")
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)
    assert deferred.value.method_name == "execute_complete"
    event = await first(again(deferred.value.trigger))
    assert event["status"] == "captured"
    found = sensor.execute_complete(context, event)
    assert found == {"snapshot_id": "s", "epoch": event["epoch"], "capture_ms": 1}


async def test_a_failed_snapshot_fails_the_sensor_with_the_reason(
    cluster: FakeCluster, context: dict[str, Any]
) -> None:
    cluster.the_ledger.listeners.clear()
    epoch = (await ops.trigger(cluster, "ns", snapshot_id="s")).epoch
    cluster.the_ledger.put(Abort(n=1, epoch=epoch, code="ttl", reason="nobody answered"))
    event = await first(
        SnapkafkaCapturedTrigger(snapshot_id="s", namespace="ns", snapkafka_conn_id="snapkafka_default")
    )
    assert event["code"] == "snapshot-failed"
    with pytest.raises(AirflowException, match="nobody answered"):
        SnapkafkaCapturedSensor(task_id="captured", snapshot_id="s").execute_complete(context, event)


def test_without_a_triggerer_the_sensor_waits_itself(cluster: FakeCluster, context: dict[str, Any]) -> None:
    asyncio.run(ops.trigger(cluster, "ns", snapshot_id="s"))
    sensor = SnapkafkaCapturedSensor(task_id="captured", snapshot_id="s", deferrable=False)
    assert sensor.execute(context)["snapshot_id"] == "s"
    unknown = SnapkafkaCapturedSensor(task_id="unknown", snapshot_id="t", deferrable=False)
    with pytest.raises(AirflowException, match="no snapshot 't'"):
        unknown.execute(context)


# -- verdicts -------------------------------------------------------------------------------------------------


class AssetState:
    """What Airflow keeps for an asset."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.kept.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.kept[key] = value


async def test_a_good_verdict_is_an_event_and_a_bad_one_is_none(cluster: FakeCluster) -> None:
    epoch = (await ops.trigger(cluster, "ns", snapshot_id="s", wait=True)).epoch
    trigger = again(SnapkafkaVerdictTrigger(namespace="ns"))
    trigger.asset_state_store = AssetState()
    trigger.asset_state_store.kept[WATERMARK] = 0
    cluster.the_ledger.put(Verdict(n=1, epoch=epoch, verdict="INCONSISTENT"))
    offset = cluster.the_ledger.put(Verdict(n=2, epoch=epoch, verdict="VERIFIED", manifest="/snaps/s.json"))
    event = await first(trigger)
    assert (event["snapshot_id"], event["verdict"]) == ("s", "VERIFIED")
    assert event["checkpoint_manifest_uri"] == "/snaps/s.json"
    assert (
        trigger.asset_state_store.kept[WATERMARK] == offset
    )  # of the bad one; the event is not confirmed yet


async def test_a_watcher_that_starts_again_reads_on(cluster: FakeCluster) -> None:
    epoch = (await ops.trigger(cluster, "ns", snapshot_id="s", wait=True)).epoch
    cluster.the_ledger.put(Verdict(n=1, epoch=epoch, verdict="VERIFIED", manifest="first"))
    state = AssetState()
    state.kept[WATERMARK] = await cluster.the_ledger.end()
    cluster.the_ledger.put(Verdict(n=2, epoch=epoch, verdict="VERIFIED", manifest="second"))
    trigger = SnapkafkaVerdictTrigger(namespace="ns")
    trigger.asset_state_store = state
    assert (await first(trigger))["checkpoint_manifest_uri"] == "second"


def test_the_asset_of_a_namespace() -> None:
    asset = verified_asset("shop")
    assert asset.uri == "snapkafka://shop/verified"
    assert [watcher.name for watcher in asset.watchers] == ["snapkafka-shop"]
    assert verified_asset("shop", watch=False).watchers == []
    with pytest.raises(ValueError, match="cannot be part of a topic's name"):
        verified_asset("no namespace")


# -- the connection -------------------------------------------------------------------------------------------


def test_a_connection_of_airflow_is_one_of_snapkafka() -> None:
    hook = SnapkafkaHook()
    assert (hook.bootstrap, hook.namespace, hook.storage) == ("127.0.0.1:9", "ns", "/snaps")
    assert hook.get_conn().security == {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "ann",
        "sasl_plain_password": "secret",
    }  # fmt: skip
    assert SnapkafkaHook(namespace="other", storage="/else").namespace == "other"


def test_what_a_connection_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EMPTY", '{"conn_type": "snapkafka"}')
    hook = SnapkafkaHook("empty")
    with pytest.raises(AirflowException, match="connection empty names no broker"):
        hook.get_conn()
    with pytest.raises(AirflowException, match="no namespace is given"):
        _ = hook.namespace
