"""`snapkafka://<namespace>/verified`: the asset that is updated when a snapshot of the namespace is verified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetWatcher

from snapkafka.config import namespace_problem
from snapkafka_airflow.hooks.snapkafka import SnapkafkaHook
from snapkafka_airflow.triggers.snapkafka import SnapkafkaVerdictTrigger

if TYPE_CHECKING:
    from urllib.parse import SplitResult

__all__ = ["sanitize_uri", "verified_asset"]


def verified_asset(
    namespace: str,
    *,
    snapkafka_conn_id: str = SnapkafkaHook.default_conn_name,
    watch: bool = True,
    extra: dict[str, Any] | None = None,
) -> Asset:
    """Return the asset of a namespace; a DAG scheduled on it starts when a snapshot is verified.

    Args:
        namespace: of the snapshots.
        snapkafka_conn_id: where the ledger is read.
        watch: let the triggerer watch the ledger; False for a DAG that only names the asset as an inlet or outlet.
    """
    trigger = SnapkafkaVerdictTrigger(namespace=namespace, snapkafka_conn_id=snapkafka_conn_id)
    watchers = [AssetWatcher(name=f"snapkafka-{namespace}", trigger=trigger)] if watch else []
    return Asset(
        name=f"snapkafka-{namespace}-verified",
        uri=f"snapkafka://{namespace}/verified",
        watchers=watchers,
        extra=extra or {},
    )


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Refuse a URI that names no namespace, or another thing than `verified`."""
    if problem := namespace_problem(uri.netloc):
        raise ValueError(f"{uri.geturl()}: {problem}; write snapkafka://NAMESPACE/verified")
    if uri.path != "/verified":
        raise ValueError(f"{uri.geturl()}: unknown path {uri.path!r}; write snapkafka://NAMESPACE/verified")
    return uri
