"""Each operator translates: arguments in, a verb of snapkafka called, its result to XCom and log."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from snapkafka_airflow.operators import snapkafka as operators
from snapkafka_airflow.operators.running import SnapkafkaBaseOperator, run_id_of

from snapkafka import ops
from snapkafka.errors import BadInputError, BrokerUnavailableError
from snapkafka.kafka.preflight import require_id
from snapkafka.manifest import CheckEntry, WitnessEntry
from snapkafka.protocol.records import Abort, Trigger, Verdict
from tests.worlds.fakes import FakeCluster


def triggers(cluster: FakeCluster) -> list[Trigger]:
    return [entry.record for entry in cluster.the_ledger.entries if isinstance(entry.record, Trigger)]


# -- the id ---------------------------------------------------------------------------------------------------


def test_the_id_is_that_of_the_task_in_the_run_and_of_no_other() -> None:
    run = "manual__2026-11-25T21:00:00+00:00"
    first = run_id_of("hourly", run, "trigger")
    assert first == run_id_of("hourly", run, "trigger")
    others = [
        run_id_of("hourly", "manual__2026-11-25T21:00:00-00:00", "trigger"),
        run_id_of("hourly.manual", "_2026-11-25T21:00:00+00:00", "trigger"),
        run_id_of("hourly", run, "trigger", 0),
        run_id_of("hourly", run, "before.trigger"),
    ]
    assert len({first, *others}) == 5
    for name in (
        *(first, *others, run_id_of("d" * 250, "r" * 250, "t" * 250)),
        *(run_id_of("-7", "1", "1"), run_id_of("№", "☃", "⚙")),
    ):
        require_id(name)


# -- trigger --------------------------------------------------------------------------------------------------


def test_a_retry_finds_the_snapshot_of_its_run(cluster: FakeCluster, context: dict[str, Any]) -> None:
    task = operators.SnapkafkaTriggerOperator(task_id="trigger", fields={"ttl_ms": 7_000})
    name = task.execute(context)
    context["ti"].try_number = 2
    assert task.execute(context) == name
    (trigger,) = triggers(cluster)
    assert (trigger.id, trigger.ttl_ms, trigger.who, trigger.storage) == (
        name, 7_000, "airflow:hourly", "/snaps",
    )  # fmt: skip


def test_two_tasks_of_a_run_ask_for_two_snapshots(cluster: FakeCluster, context: dict[str, Any]) -> None:
    names = []
    for task_id in ("before", "after"):
        context["ti"].task_id = task_id
        names.append(operators.SnapkafkaTriggerOperator(task_id=task_id).execute(context))
    assert [trigger.id for trigger in triggers(cluster)] == names
    assert len(set(names)) == 2


def test_a_retry_after_a_failed_snapshot_starts_its_next_attempt(
    cluster: FakeCluster, context: dict[str, Any]
) -> None:
    task = operators.SnapkafkaTriggerOperator(task_id="trigger", fields={"snapshot_id": "s"})
    cluster.the_ledger.listeners.clear()  # nobody answers
    task.execute(context)
    epoch = len(cluster.the_ledger.entries)
    cluster.the_ledger.put(Abort(n=1, epoch=epoch, code="ttl", reason="nobody answered"))
    with pytest.raises(AirflowException, match="snapshot-failed"):
        task.execute(context)
    context["ti"].try_number = 2
    assert task.execute(context) == "s"
    assert [(trigger.id, trigger.attempt) for trigger in triggers(cluster)] == [("s", 1), ("s", 2)]


def test_a_field_that_does_not_exist_fails_for_good(cluster: FakeCluster, context: dict[str, Any]) -> None:
    task = operators.SnapkafkaTriggerOperator(task_id="trigger", fields={"colour": "red"})
    with pytest.raises(AirflowFailException, match="unknown field `colour`"):
        task.execute(context)


# -- assemble and verify --------------------------------------------------------------------------------------


def result(verdict: str) -> ops.JobResult:
    good = verdict.startswith("VERIFIED")
    witness = WitnessEntry(topic="orders", partition=1, offset=42, what="is red")
    check = CheckEntry(
        name="V2", run=True, status="passed" if good else "failed",
        found=0 if good else 1, witnesses=() if good else (witness,),
    )  # fmt: skip
    return ops.JobResult(
        id="s", epoch=7, verdict=verdict, good=good, manifest="/snaps/s.json", checks=(check,)
    )


class Job:
    """In the place of `ops.assemble` and `ops.verify`; remembers what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, verdict: str) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.options: dict[str, Any] = {}

        async def run(*asked: Any, **options: Any) -> tuple[ops.JobResult, ...]:
            self.asked, self.options = [*asked], options
            options["notify"]("starting Spark")
            return (result(verdict),)

        monkeypatch.setattr(ops, "assemble", run)
        monkeypatch.setattr(ops, "verify", run)


TOLD = {
    "snapshot_id": "s", "epoch": 7, "verdict": "VERIFIED", "good": True, "checkpoint_manifest_uri": "/snaps/s.json",
}  # fmt: skip


def test_assembly_runs_in_the_python_of_the_connection_with_its_credentials(
    cluster: FakeCluster, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(monkeypatch, "VERIFIED")
    task = operators.SnapkafkaAssembleOperator(task_id="assemble", snapshot_id="s", invariants=["one_token"])
    assert task.execute(context) == TOLD
    wanted = ops.JobSpec(
        engine="spark", namespace="ns", snapshots=("s",), storage="/snaps", invariants=("one_token",)
    )
    assert job.asked == [cluster, wanted]
    assert job.options["launch"].python == "/opt/spark/bin/python"
    assert job.options["launch"].environ == {
        "SNAPKAFKA_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SNAPKAFKA_KAFKA_SASL_MECHANISM": "PLAIN",
        "SNAPKAFKA_KAFKA_SASL_USERNAME": "ann", "SNAPKAFKA_KAFKA_SASL_PASSWORD": "secret",
    }  # fmt: skip
    assert "secret" not in repr(job.options["launch"])
    assert context["ti"].pushed == {"checkpoint_manifest_uri": "/snaps/s.json"}


def test_verification_passes_a_good_snapshot(
    cluster: FakeCluster, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(monkeypatch, "VERIFIED")
    task = operators.SnapkafkaVerifyOperator(task_id="verify", snapshot_id="s", tables=True)
    assert task.execute(context) == TOLD
    wanted = ops.JobSpec(engine="spark", namespace="ns", snapshots=("s",), storage="/snaps", tables=True)
    assert job.asked == [cluster, wanted]


def test_an_inconsistent_snapshot_fails_for_good_with_its_records_in_the_log(
    cluster: FakeCluster,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    Job(monkeypatch, "INCONSISTENT")
    task = operators.SnapkafkaVerifyOperator(task_id="verify", snapshot_id="s", fail_on_unverifiable=False)
    monkeypatch.setattr(type(task), "log", logging.getLogger("told"))
    with caplog.at_level(logging.INFO, "told"), pytest.raises(AirflowFailException, match="is INCONSISTENT"):
        task.execute(context)
    assert "V2: orders[1] offset 42: is red" in caplog.text
    assert context["ti"].pushed == {"checkpoint_manifest_uri": "/snaps/s.json"}
    assembling = operators.SnapkafkaAssembleOperator(task_id="assemble", snapshot_id="s")
    assert assembling.execute(context)["good"] is False  # its tables are evidence


def test_an_unverifiable_snapshot_fails_unless_that_is_switched_off(
    cluster: FakeCluster, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    Job(monkeypatch, "UNVERIFIABLE")
    strict = operators.SnapkafkaVerifyOperator(task_id="strict", snapshot_id="s")
    with pytest.raises(AirflowFailException, match="is UNVERIFIABLE"):
        strict.execute(context)
    lenient = operators.SnapkafkaVerifyOperator(
        task_id="lenient", snapshot_id="s", fail_on_unverifiable=False
    )
    assert lenient.execute(context)["verdict"] == "UNVERIFIABLE"


# -- errors and the end of a task -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [(BadInputError("no"), AirflowFailException), (BrokerUnavailableError("away"), AirflowException)],
)
def test_what_another_try_would_meet_again_is_not_tried_again(
    error: Exception, kind: type[Exception]
) -> None:
    async def fails() -> None:
        raise error

    with pytest.raises(AirflowException) as found:
        SnapkafkaBaseOperator(task_id="t").run_verb(fails)
    assert type(found.value) is kind


def test_a_killed_task_ends_what_it_runs() -> None:
    task, running, ended = SnapkafkaBaseOperator(task_id="t"), threading.Event(), threading.Event()

    async def works() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def kill() -> None:
        running.wait(5)
        task.on_kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(AirflowException, match="killed"):
        task.run_verb(works)
    killer.join()
    assert ended.is_set()


def test_a_task_killed_before_it_runs_starts_nothing() -> None:
    task = SnapkafkaBaseOperator(task_id="t")
    task.on_kill()
    with pytest.raises(AirflowException, match="killed"):
        task.run_verb(lambda: pytest.fail("it was started"))


# -- freshness ------------------------------------------------------------------------------------------------


def test_an_old_snapshot_or_none_fails_the_check(cluster: FakeCluster, context: dict[str, Any]) -> None:
    young = operators.SnapkafkaFreshnessOperator(task_id="young", max_age=timedelta(days=36_500))
    with pytest.raises(AirflowException, match="no good snapshot"):
        young.execute(context)
    found = asyncio.run(ops.trigger(cluster, "ns", snapshot_id="s", wait=True))
    cluster.the_ledger.put(Verdict(n=1, epoch=found.epoch, verdict="VERIFIED"))
    assert young.execute(context)["snapshot_id"] == "s"
    old = operators.SnapkafkaFreshnessOperator(task_id="old", max_age=timedelta(hours=3))
    with pytest.raises(AirflowException, match=r"s, is .* s old"):
        old.execute(context)  # the ledger in memory begins in 1970
