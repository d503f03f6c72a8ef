"""`/snapkafka/` on the app's own web server: the snapshots, and metrics."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from snapkafka.errors import SnapkafkaError

from ..metrics import rendered
from ..process import Process

#: Somebody who scrapes waits no longer for the broker to tell the ledger's end.
LAG_WAIT_S: Final = 0.5


async def serve(host: Process) -> None:
    """Add the pages to the app's web server when the app starts; there are none if Faust has created no server."""
    if (server := host.app.__dict__.get("web")) is None:  # a cached property
        return
    with host.failing_open("to add its pages", then="there are none"):
        from faust.web import View

        class Snapshots(View):
            """`GET`: the latest snapshots, as this worker knows them."""

            view_name, view_path = "snapkafka:Snapshots", "/snapkafka/"

            async def get(self, request: Any) -> Any:
                return self.json(status(host))

        class Prometheus(View):
            """`GET`: the metrics."""

            view_name, view_path = "snapkafka:Prometheus", "/snapkafka/metrics/"

            async def get(self, request: Any) -> Any:
                lag = await _lag(host)
                body, kind = rendered(host.metrics, participating=host.participating, ledger_lag=lag)
                return self.bytes(body, content_type=kind.split(";")[0])

        server.add_view(Snapshots)
        server.add_view(Prometheus)


async def _lag(host: Process) -> int | None:
    if host.absent:
        return None
    try:
        async with asyncio.timeout(LAG_WAIT_S):
            return max(0, await host.ledger.end() - host.machine.ledger.end)
    except (SnapkafkaError, TimeoutError):
        return None


def status(host: Process) -> dict[str, Any]:
    """Describe this worker and the latest snapshots, the last first."""
    ledger = host.machine.ledger
    return {
        "namespace": host.config.namespace,
        "process": host.machine.process,
        "epoch": host.machine.colours.epoch,
        "participating": host.participating,
        "absent": host.absent,
        "paused": ledger.paused,
        "snapshots": [
            {
                "id": view.trigger.id,
                "attempt": view.trigger.attempt,
                "epoch": view.epoch,
                "status": view.status.value,
                "verdict": view.verdict.verdict if view.verdict is not None else "",
                "failure": "" if view.failure is None else f"{view.failure.code}: {view.failure.reason}",
            }
            for _, view in sorted(ledger.snapshots.items(), reverse=True)
        ],
    }
