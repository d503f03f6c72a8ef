"""What the triggerer runs: waiting until a snapshot is captured, and hearing of verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from msgspec import to_builtins

from snapkafka import ops
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError, SnapkafkaError
from snapkafka_airflow.hooks.snapkafka import SnapkafkaHook
from snapkafka_airflow.version_compat import BaseEventTrigger, BaseTrigger, TriggerEvent

__all__ = ["SnapkafkaCapturedTrigger", "SnapkafkaVerdictTrigger"]

#: Where the watcher stands, in the store that Airflow keeps for an asset.
WATERMARK: Final = "snapkafka-ledger-offset"
#: A ledger that cannot be read is asked again after so long.
AGAIN_S: Final = 5.0


class SnapkafkaCapturedTrigger(BaseTrigger):
    """Fire once, when a snapshot is captured or has failed.

    Args:
        snapshot_id: an id, an epoch, or `latest`.
    """

    def __init__(self, *, snapshot_id: str, namespace: str, snapkafka_conn_id: str) -> None:
        super().__init__()
        self.snapshot_id, self.namespace, self.snapkafka_conn_id = snapshot_id, namespace, snapkafka_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the path of this class and its arguments."""
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {
            "snapshot_id": self.snapshot_id,
            "namespace": self.namespace,
            "snapkafka_conn_id": self.snapkafka_conn_id,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the ledger; one event, of what became of the snapshot."""
        hook = SnapkafkaHook(self.snapkafka_conn_id, namespace=self.namespace)
        try:
            await hook.aload()
            found = await ops.await_captured(hook.get_conn(), hook.namespace, self.snapshot_id)
        except SnapkafkaError as error:
            yield TriggerEvent({"status": "error", "code": error.code, "message": f"{error} ({error.hint})"})
            return
        yield TriggerEvent(
            {
                "status": "captured",
                "snapshot_id": found.id,
                "epoch": found.epoch,
                "initiated_at_ms": found.triggered_ms,
                "capture_ms": found.capture_ms,
            }
        )

    async def cleanup(self) -> None:
        """Nothing is left: clients are closed when `run` is cancelled, and the snapshot continues."""


class SnapkafkaVerdictTrigger(BaseEventTrigger):
    """Fire for each verdict in the ledger that calls a snapshot good; for an `AssetWatcher`.

    The event holds what `snapkafka verdicts` prints. A triggerer that starts again goes on where the last one stood, if
    Airflow keeps state for assets; a snapshot may then be reported twice.

    Args:
        only_good: False reports every verdict.
    """

    def __init__(
        self,
        *,
        namespace: str,
        snapkafka_conn_id: str = SnapkafkaHook.default_conn_name,
        only_good: bool = True,
    ) -> None:
        super().__init__()
        self.namespace, self.snapkafka_conn_id, self.only_good = namespace, snapkafka_conn_id, only_good

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the path of this class and its arguments."""
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {
            "namespace": self.namespace,
            "snapkafka_conn_id": self.snapkafka_conn_id,
            "only_good": self.only_good,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the ledger for ever; a broker that is away is waited for."""
        hook = SnapkafkaHook(self.snapkafka_conn_id, namespace=self.namespace)
        await hook.aload()
        start = await self._watermark()
        while True:
            try:
                async for found in ops.verdicts(hook.get_conn(), hook.namespace, start=start):
                    start = found.offset + 1
                    if found.good or not self.only_good:
                        yield TriggerEvent(to_builtins(found))
                    await self._remember(start)
            except (BrokerUnavailableError, LedgerUnusableError) as error:
                self.log.warning("the ledger of %s cannot be read: %s", self.namespace, error)
            await asyncio.sleep(AGAIN_S)

    async def _watermark(self) -> int | None:
        """Return the offset at which to continue reading; None: from now on."""
        store = getattr(self, "asset_state_store", None)
        try:
            kept = None if store is None else await store.aget(WATERMARK)
        except Exception:
            self.log.warning(
                "the state of the asset cannot be read: verdicts from now on are reported", exc_info=True
            )
            return None
        return kept if isinstance(kept, int) else None

    async def _remember(self, offset: int) -> None:
        store = getattr(self, "asset_state_store", None)
        if store is None:
            return
        try:
            await store.aset(WATERMARK, offset)
        except Exception:
            self.log.warning("the state of the asset cannot be written", exc_info=True)
