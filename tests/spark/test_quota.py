"""`--max-mb-s`: the broker itself holds the reading back; the quota that does it is gone afterwards."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from snapkafka.assembly.spark import quota
from snapkafka.assembly.spark.quota import limited
from snapkafka.assembly.spark.reading import kafka_source
from snapkafka.checks import ReadRange
from snapkafka.demo.system import wait_until
from snapkafka.errors import LedgerUnusableError
from snapkafka.testing import Broker, create_topics
from tests.kafka.guarding import PASSWORD, guarded_broker
from tests.kafka.test_doctor import grant

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RECORDS = 160
RECORD_BYTES = 100_000
MB_S = 1.0
#: A broker looks at the last ten seconds: what fits into them comes at once.
AT_ONCE_S = 10


@pytest.fixture(scope="module")
def ranges(kafka: Broker) -> list[ReadRange]:
    """16 MB that cannot be compressed."""
    topic = f"quota-{os.getpid()}"
    create_topics(kafka.bootstrap, topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, os.urandom(RECORD_BYTES), partition=number % 2)
    assert producer.flush(60) == 0
    return [ReadRange(topic, partition, 0, RECORDS // 2) for partition in range(2)]


def seconds(spark: SparkSession, kafka: Broker, ranges: list[ReadRange], options: Mapping[str, str]) -> float:
    began = time.monotonic()
    records = kafka_source.read_ranges(spark, ranges, bootstrap=kafka.bootstrap, options=options)
    size = records.selectExpr("sum(length(value))").collect()[0][0]
    assert size == RECORDS * RECORD_BYTES
    return time.monotonic() - began


def quotas(spark: SparkSession, kafka: Broker) -> dict[str, float]:
    """The quotas of all client ids."""
    with quota._admin(spark, kafka.bootstrap, {}) as admin:
        made: Any = quota._Quotas(spark, admin)
        of_clients = made._kafka.ClientQuotaFilterComponent.ofEntityType("client-id")
        found = (
            admin.describeClientQuotas(made._kafka.ClientQuotaFilter.contains([of_clients])).entities().get()
        )
        return {
            str(entity.toString()): entity_quotas.get("consumer_byte_rate")
            for entity, entity_quotas in found.items()
        }


def wait_for(spark: SparkSession, kafka: Broker, wanted: Callable[[dict[str, float]], bool]) -> None:
    """What the controller has decided a broker shows a moment later."""
    wait_until("the quotas to be as they should", lambda: wanted(quotas(spark, kafka)), timeout_s=20)


def none(found: dict[str, float]) -> bool:
    return not found


def test_the_broker_sends_no_faster_and_the_quota_is_gone_afterwards(
    spark: SparkSession, kafka: Broker, ranges: list[ReadRange]
) -> None:
    seconds(spark, kafka, ranges, {})  # the first query of a session takes as long as several
    freely = seconds(spark, kafka, ranges, {})
    with limited(spark, kafka.bootstrap, {}, MB_S) as options:
        wait_for(spark, kafka, lambda found: len(found) == 2)
        set_meanwhile = quotas(spark, kafka)
        limited_s = seconds(spark, kafka, ranges, options)
    least = RECORDS * RECORD_BYTES / (MB_S * 1e6) - AT_ONCE_S
    assert limited_s >= least > 2 * freely, (limited_s, least, freely)
    assert set(set_meanwhile.values()) == {1_000_000.0}
    assert all(options["kafka.client.id"] in entity for entity in set_meanwhile)
    wait_for(spark, kafka, none)


def test_the_quota_is_gone_after_a_failed_run(spark: SparkSession, kafka: Broker) -> None:
    def run() -> None:
        with limited(spark, kafka.bootstrap, {}, 1.0):
            wait_for(spark, kafka, bool)
            raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="the disk is full"):
        run()
    wait_for(spark, kafka, none)


def test_what_killed_jobs_left_behind_goes_after_a_week_and_nothing_else(
    spark: SparkSession, kafka: Broker
) -> None:
    now = int(time.time())
    old, young = (
        f"snapkafka-assembly-{now - 8 * 86_400}-01234567",
        f"snapkafka-assembly-{now - 86_400}-01234567",
    )
    others = ("reports", "snapkafka-assembly-1-0123456", young)
    with quota._admin(spark, kafka.bootstrap, {}) as admin:
        made = quota._Quotas(spark, admin)
        left = [made.entity({"client-id": name}) for name in (old, *others)]
        made.set(left, 1e6)
        wait_for(spark, kafka, lambda found: len(found) == len(left))
        try:
            with limited(spark, kafka.bootstrap, {}, 1.0):
                pass
            wait_for(spark, kafka, lambda found: len(found) == len(others))
            there = quotas(spark, kafka)
            assert not any(old in entity for entity in there)
            assert all(any(name in entity for entity in there) for name in others)
        finally:
            made.set(left, None)
    wait_for(spark, kafka, none)


@pytest.mark.long
def test_without_the_right_it_is_refused_in_one_line(spark: SparkSession) -> None:
    """On a broker that allows nobody anything; with the right the quota is that of the user who logs in."""
    with guarded_broker(["ASSEMBLY"]) as (broker, address):
        options = {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="ASSEMBLY" password="{PASSWORD}";',
        }

        def run() -> None:
            with limited(spark, address, options, 1.0, user="ASSEMBLY"):
                wait_for(spark, broker, lambda found: any("user=ASSEMBLY" in entity for entity in found))

        def allowed() -> bool:
            with contextlib.suppress(LedgerUnusableError):
                run()
                return True
            return False

        with pytest.raises(
            LedgerUnusableError, match="not allowed to set the quota that --max-mb-s needs"
        ) as found:
            run()
        assert "AlterConfigs on the cluster" in found.value.advice
        allowing = f"kafka-acls.sh --bootstrap-server {address} --add --allow-principal User:ASSEMBLY"
        grant(broker.bootstrap, [f"{allowing} --operation AlterConfigs --cluster"])
        wait_until("the right to be there", allowed, timeout_s=20)
        wait_for(spark, broker, none)
