"""On demand: verify a snapshot again, from its manifest and the log; offending records are in the task's log."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, Param

from snapkafka_airflow.operators.snapkafka import SnapkafkaVerifyOperator

with DAG(
    dag_id="snapkafka_verify_again",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    params={"snapshot_id": Param("latest", type="string", description="an id, an epoch, or latest")},
    tags=["snapkafka"],
):
    SnapkafkaVerifyOperator(task_id="verify", snapshot_id="{{ params.snapshot_id }}")
