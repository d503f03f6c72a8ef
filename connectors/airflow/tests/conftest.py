"""Airflow in a folder of its own, with a database that is made once; a cluster in memory in the place of Kafka."""

from __future__ import annotations

import os
import tempfile
from types import SimpleNamespace
from typing import Any

import pytest

HOME = tempfile.mkdtemp(prefix="snapkafka-airflow-")
os.environ |= {
    "AIRFLOW_HOME": HOME,
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": f"{HOME}/dags",
    "AIRFLOW_CONN_SNAPKAFKA_DEFAULT": (
        '{"conn_type": "snapkafka", "host": "127.0.0.1", "port": 9,'
        ' "login": "ann", "password": "secret",'
        ' "extra": {"security_protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",'
        ' "namespace": "ns", "storage": "/snaps", "python": "/opt/spark/bin/python"}}'
    ),
}

from snapkafka_airflow.hooks.snapkafka import SnapkafkaHook  # noqa: E402 -- Airflow reads its home when imported

from tests.worlds.fakes import FakeCluster, Worker  # noqa: E402


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster in memory, with one process, that every hook connects to."""
    made = FakeCluster()
    Worker(made.the_ledger, "shop", "orders")

    async def load(self: Any) -> None:
        pass

    monkeypatch.setattr(SnapkafkaHook, "get_conn", lambda self: made)
    monkeypatch.setattr(SnapkafkaHook, "aload", load)
    return made


class TaskInstance(SimpleNamespace):
    """As much of a task instance as the operators use."""

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


@pytest.fixture
def context() -> dict[str, Any]:
    """The context of the first try of a task."""
    ti = TaskInstance(
        dag_id="hourly",
        task_id="trigger",
        run_id="scheduled__2026-11-25T21:00:00+00:00",
        map_index=-1,
        try_number=1,
        pushed={},
    )
    return {"ti": ti}
