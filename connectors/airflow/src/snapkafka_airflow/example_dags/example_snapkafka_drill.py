"""Every night: run the newest good snapshot as a throwaway fork, and fail, and so alert, unless it can be trusted.

The Variable `snapkafka_drill_apps` holds the commands that start the services' workers, as a JSON list.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG

from snapkafka_airflow.operators.drill import SnapkafkaDrillOperator

with DAG(
    dag_id="snapkafka_drill",
    schedule="15 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    render_template_as_native_obj=True,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=10)},
    tags=["snapkafka"],
):
    SnapkafkaDrillOperator(
        task_id="drill",
        apps="{{ var.json.get('snapkafka_drill_apps', []) }}",
        execution_timeout=timedelta(hours=2),
    )
