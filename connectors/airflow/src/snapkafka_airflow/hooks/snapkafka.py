"""The connection of type `snapkafka`: which Kafka, which namespace, where tables lie, which Python has Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from snapkafka.config import namespace_problem
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.login.security import CONFIG_VARIABLE, variable
from snapkafka.ops import Launch
from snapkafka_airflow.version_compat import AirflowException, BaseHook

__all__ = ["SnapkafkaHook"]

#: Fields of the connection's extra that are settings of Kafka's clients, as `sasl.mechanism` or as `sasl_mechanism`.
SETTINGS: Final = ("security.", "security_", "sasl.", "sasl_", "ssl.", "ssl_")


class SnapkafkaHook(BaseHook):
    """Read an Airflow connection into what `snapkafka.ops` takes.

    Args:
        snapkafka_conn_id: a connection of type `snapkafka`.
        namespace, storage: instead of those of the connection.
    """

    conn_name_attr = "snapkafka_conn_id"
    default_conn_name = "snapkafka_default"
    conn_type = "snapkafka"
    hook_name = "snapkafka"

    def __init__(
        self, snapkafka_conn_id: str = default_conn_name, *, namespace: str = "", storage: str = ""
    ) -> None:
        super().__init__()
        self.snapkafka_conn_id = snapkafka_conn_id
        self._namespace, self._storage = namespace, storage
        self._found: Any = None

    @property
    def _connection(self) -> Any:
        if self._found is None:
            self._found = self.get_connection(self.snapkafka_conn_id)
        return self._found

    @property
    def _extra(self) -> Mapping[str, Any]:
        extra: Mapping[str, Any] = self._connection.extra_dejson
        return extra

    async def aload(self) -> None:
        """Fetch the connection without blocking an event loop, as triggers must."""
        self._found = await self.aget_connection(self.snapkafka_conn_id)

    @property
    def bootstrap(self) -> str:
        """`host:port`, several separated by commas; the connection's port belongs to a single host without one."""
        host, port = self._connection.host or "", self._connection.port
        if not host:
            raise AirflowException(
                f"connection {self.snapkafka_conn_id} names no broker: set its host to host:port[,host:port...]"
            )
        return f"{host}:{port}" if port and ":" not in host and "," not in host else host

    @property
    def namespace(self) -> str:
        """Of the snapshots; the argument goes before the connection."""
        namespace = self._namespace or str(self._extra.get("namespace") or "")
        if problem := namespace_problem(namespace):
            raise AirflowException(
                f"{problem}: give namespace=, or set it in the extra of connection {self.snapkafka_conn_id}"
            )
        return namespace

    @property
    def storage(self) -> str:
        """Where tables lie; empty: where the trigger of a snapshot says."""
        return self._storage or str(self._extra.get("storage") or "")

    def environ(self) -> dict[str, str]:
        """Return the credentials as variables of the environment, by the names that the command has for them."""
        found = {
            CONFIG_VARIABLE: self._extra.get("kafka_config"),
            variable("sasl.username"): self._connection.login,
            variable("sasl.password"): self._connection.password,
            **{variable(name): value for name, value in self._extra.items() if name.startswith(SETTINGS)},
        }
        return {name: str(value) for name, value in found.items() if value}

    def get_conn(self) -> Connection:
        """Where the cluster is, for any function of `snapkafka.ops`."""
        return Connection.from_environment(self.bootstrap, self.environ())

    def launch(self) -> Launch:
        """Return the Python that runs the Spark job, and its credentials."""
        return Launch(python=str(self._extra.get("python") or ""), environ=self.environ())

    def test_connection(self) -> tuple[bool, str]:
        """Read the ledger, for the button "Test" of the connection's form."""
        import asyncio

        from snapkafka import ops

        try:
            found = asyncio.run(ops.list_snapshots(self.get_conn(), self.namespace))
        except Exception as error:
            return False, str(error)
        return True, f"the ledger of {self.namespace} holds {len(found)} snapshots"
