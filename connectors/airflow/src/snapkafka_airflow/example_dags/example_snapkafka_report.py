"""Event-driven: starts when a snapshot of the namespace is verified, whoever has taken it."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, task

from snapkafka_airflow.assets.snapkafka import verified_asset

VERIFIED = verified_asset("shop")

with DAG(
    dag_id="snapkafka_report",
    schedule=[VERIFIED],
    start_date=datetime(2026, 1, 1),
    catchup=False,
    tags=["snapkafka"],
):

    @task(inlets=[VERIFIED])
    def report(triggering_asset_events: dict | None = None) -> list[dict]:  # type: ignore[type-arg]
        """Return the snapshots that started this run: id, instant and manifest."""
        found = [
            event.extra.get("payload", event.extra)
            for events in (triggering_asset_events or {}).values()
            for event in events
        ]
        for snapshot in found:
            print("consistent as of", snapshot["initiated_at_ms"], snapshot["checkpoint_manifest_uri"])
        return found

    report()
