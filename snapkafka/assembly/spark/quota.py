"""`--max-mb-s`: the brokers hold the reading back, by a quota that is made for one job and removed after it.

Spark's Kafka source has no rate for a batch. Kafka has one for consumers: so many bytes a second from each broker, for
all consumers of one client id together, and so for all tasks on all executors. The job gets a client id of its own. A
broker looks at the last ten seconds or so: what would have fitted into these may come at once.

A job that is killed leaves its quota behind. It slows nobody, as no other job will have that client id; the next job
with a quota removes what is older than a week.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError, SnapkafkaError

__all__ = ["limited"]

_CLIENT_ID: Final = re.compile(r"snapkafka-assembly-(\d+)-[0-9a-f]{8}")
#: No assembly takes so long.
LEFT_BEHIND_S: Final = 7 * 86_400
ANSWER_S: Final = 30
#: Kafka's name for who did not log in.
NOBODY: Final = "ANONYMOUS"
#: A task waits while others use the quota up; Spark gives up after two minutes by itself.
POLL_TIMEOUT_MS: Final = 3_600_000


@contextlib.contextmanager
def limited(
    spark: SparkSession, bootstrap: str, options: Mapping[str, str], mb_s: float, *, user: str = ""
) -> Iterator[dict[str, str]]:
    """Options for the Kafka source with which, for the length of the block, no broker sends more than so much.

    Args:
        bootstrap: `host:port` of a broker.
        options: those that the source has already (credentials).
        mb_s: millions of bytes a second.
        user: whom the brokers take the job for; empty: nobody logs in.

    Raises:
        LedgerUnusableError: the right to set quotas is missing.
        BrokerUnavailableError: the brokers do not answer, or know no quotas.
    """
    client_id = f"snapkafka-assembly-{int(time.time())}-{secrets.token_hex(4)}"
    with _admin(spark, bootstrap, options) as admin:
        quotas = _Quotas(spark, admin)
        quotas.clear(before_s=int(time.time()) - LEFT_BEHIND_S)
        # A quota of the user's own would go before that of a client id, and that of both before either.
        of_both = {"client-id": client_id, "user": user or NOBODY}
        entities = [quotas.entity(of) for of in ({"client-id": client_id}, of_both)]
        try:
            quotas.set(entities, mb_s * 1e6)
            yield {"kafka.client.id": client_id, "kafkaConsumer.pollTimeoutMs": str(POLL_TIMEOUT_MS)}
        finally:
            with contextlib.suppress(SnapkafkaError):  # it slows nobody
                quotas.set(entities, None)


@contextlib.contextmanager
def _admin(spark: SparkSession, bootstrap: str, options: Mapping[str, str]) -> Iterator[Any]:
    """Kafka's own administration client, of the JVM: those of Python know no quotas."""
    jvm: Any = spark._jvm
    settings = {name.removeprefix("kafka."): value for name, value in options.items()}
    properties = jvm.java.util.Properties()
    for name, value in {**settings, "bootstrap.servers": bootstrap, "client.id": "snapkafka"}.items():
        properties.setProperty(name, value)
    with _translated():
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        yield admin
    finally:
        admin.close()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        told = str(error.java_exception.toString())
        if "AuthorizationException" in told:
            raise LedgerUnusableError(
                "not allowed to set the quota that --max-mb-s needs",
                hint="it takes AlterConfigs on the cluster; or have a quota set for the user of this job, and leave "
                "--max-mb-s out",
            ) from error
        raise BrokerUnavailableError(f"the brokers set no quota: {told[:200]}") from error


class _Quotas:
    """Quotas of consumers."""

    def __init__(self, spark: SparkSession, admin: Any) -> None:
        self._jvm: Any = spark._jvm
        self._kafka: Any = self._jvm.org.apache.kafka.common.quota
        self._admin = admin

    def entity(self, of: Mapping[str, str]) -> Any:
        """Return whose quota it is."""
        return self._kafka.ClientQuotaEntity(dict(of))

    def set(self, entities: Iterable[Any], bytes_s: float | None) -> None:
        """None removes them."""
        operation = self._kafka.ClientQuotaAlteration.Op("consumer_byte_rate", bytes_s)
        changes = [self._kafka.ClientQuotaAlteration(entity, [operation]) for entity in entities]
        self._answer(self._admin.alterClientQuotas(changes).all())

    def clear(self, *, before_s: int) -> None:
        """Remove what jobs have left behind that began before then (seconds since 1970)."""
        of_clients = self._kafka.ClientQuotaFilterComponent.ofEntityType("client-id")
        found = self._admin.describeClientQuotas(self._kafka.ClientQuotaFilter.contains([of_clients]))
        for entity in self._answer(found.entities()):
            ours = _CLIENT_ID.fullmatch(entity.entries().get("client-id") or "")
            if ours and int(ours[1]) < before_s:
                self.set([entity], None)

    def _answer(self, future: Any) -> Any:
        with _translated():
            return future.get(ANSWER_S, self._jvm.java.util.concurrent.TimeUnit.SECONDS)
