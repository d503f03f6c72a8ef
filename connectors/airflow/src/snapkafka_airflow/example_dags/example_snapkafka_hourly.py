"""Every hour: trigger, wait until captured, assemble what has changed, verify, prune; once a day a full one.

Namespace and storage are those of the connection `snapkafka_default`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG, chain

from snapkafka_airflow.operators.snapkafka import (
    SnapkafkaAssembleOperator,
    SnapkafkaPruneOperator,
    SnapkafkaTriggerOperator,
    SnapkafkaVerifyOperator,
)
from snapkafka_airflow.sensors.snapkafka import SnapkafkaCapturedSensor


def snapshot_dag(dag_id: str, schedule: str, snapshot_type: str) -> DAG:
    """Return the DAG of one kind of snapshot."""
    with DAG(
        dag_id=dag_id,
        schedule=schedule,
        start_date=datetime(2026, 1, 1),
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
        tags=["snapkafka"],
    ) as dag:
        trigger = SnapkafkaTriggerOperator(task_id="trigger", fields={"snapshot_type": snapshot_type})
        chain(
            trigger,
            SnapkafkaCapturedSensor(task_id="captured", snapshot_id=trigger.output),
            SnapkafkaAssembleOperator(task_id="assemble", snapshot_id=trigger.output),
            SnapkafkaVerifyOperator(task_id="verify", snapshot_id=trigger.output, tables=True),
            SnapkafkaPruneOperator(task_id="prune", keep_last=48),
        )
    return dag


#: The full one comes first: an incremental one builds on the latest verified.
daily = snapshot_dag("snapkafka_daily_full", "0 0 * * *", "full")
hourly = snapshot_dag("snapkafka_hourly", "0 1-23 * * *", "incremental")
