"""Every ten minutes: fail, and so alert, where no good snapshot is younger than three hours."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG

from snapkafka_airflow.operators.snapkafka import SnapkafkaFreshnessOperator

with DAG(
    dag_id="snapkafka_alert",
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["snapkafka"],
):
    SnapkafkaFreshnessOperator(task_id="newest_good_is_young", max_age=timedelta(hours=3))
