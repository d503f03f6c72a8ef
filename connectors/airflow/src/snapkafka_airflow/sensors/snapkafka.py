"""Waiting in a DAG until a snapshot is captured."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from snapkafka import ops
from snapkafka.errors import SnapkafkaError
from snapkafka_airflow.hooks.snapkafka import SnapkafkaHook
from snapkafka_airflow.triggers.snapkafka import SnapkafkaCapturedTrigger
from snapkafka_airflow.version_compat import AirflowException, BaseSensorOperator

__all__ = ["SnapkafkaCapturedSensor"]


class SnapkafkaCapturedSensor(BaseSensorOperator):
    """Wait until a snapshot is captured; fail when it has failed. Starts no snapshot.

    Args:
        snapshot_id: an id, an epoch, or `latest`; usually the result of `SnapkafkaTriggerOperator`.
        deferrable: wait in the triggerer, without a worker slot.
    """

    template_fields: Sequence[str] = ("snapshot_id", "namespace")

    def __init__(
        self,
        *,
        snapshot_id: str,
        namespace: str = "",
        snapkafka_conn_id: str = SnapkafkaHook.default_conn_name,
        deferrable: bool = True,
        timeout: float | timedelta = timedelta(minutes=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(timeout=timeout, **kwargs)
        self.snapshot_id, self.namespace = snapshot_id, namespace
        self.snapkafka_conn_id, self.deferrable = snapkafka_conn_id, deferrable

    def execute(self, context: Any) -> dict[str, Any]:
        """Defer to the triggerer, or wait here."""
        if self.deferrable:
            self.defer(
                trigger=SnapkafkaCapturedTrigger(
                    snapshot_id=self.snapshot_id,
                    namespace=self.namespace,
                    snapkafka_conn_id=self.snapkafka_conn_id,
                ),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        hook = SnapkafkaHook(self.snapkafka_conn_id, namespace=self.namespace)

        async def wait() -> ops.SnapshotInfo:
            async with asyncio.timeout(self.timeout):
                return await ops.await_captured(hook.get_conn(), hook.namespace, self.snapshot_id)

        try:
            found = asyncio.run(wait())
        except SnapkafkaError as error:
            raise AirflowException(f"{error} ({error.hint})") from error
        except TimeoutError:
            raise AirflowException(
                f"snapshot {self.snapshot_id} was not captured within {self.timeout:g} s"
            ) from None
        return {"snapshot_id": found.id, "epoch": found.epoch, "capture_ms": found.capture_ms}

    def execute_complete(self, context: Any, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Take what the trigger found."""
        if event is None:
            raise AirflowException("the trigger ended without an event: retry the task")
        if event["status"] == "error":
            raise AirflowException(event["message"])
        self.log.info("snapshot %s was captured in %s ms", event["snapshot_id"], event["capture_ms"])
        return {key: event[key] for key in ("snapshot_id", "epoch", "capture_ms")}
