"""`snapkafka.testing.system`, as users have it in tests of their own services."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from snapkafka.testing import RunningSystem
from tests.e2e import tested_shop as shop

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

ORDERED = "tested-orders-ordered-changelog"
CUSTOMERS = ("ann", "bob", "cid")
MONEY = """
SELECT (SELECT coalesce(sum(CAST(value AS BIGINT)), 0) FROM state WHERE table_name = 'ordered') AS ordered,
       (SELECT coalesce(sum(CAST(value AS BIGINT)), 0) FROM state WHERE table_name = 'paid') AS paid,
       (SELECT coalesce(sum(CAST(value AS BIGINT)), 0) FROM messages WHERE topic = 'tested-to-pay') AS between
"""


def test_a_snapshot_of_two_services_whose_code_names_another_broker(
    snapkafka_system: Callable[..., RunningSystem],
) -> None:
    s = snapkafka_system(shop.orders, shop.payments)
    for customer in CUSTOMERS:
        s.send("tested-new-orders", 1, 2, 3, key=customer)
    first, second = s.snapshot(), s.snapshot()
    assert 0 < first.epoch < second.epoch


@pytest.mark.long
@pytest.mark.spark
def test_a_snapshot_is_consistent_and_can_be_asked(snapkafka_system: Callable[..., RunningSystem]) -> None:
    s = snapkafka_system(shop.orders, f"{shop.__name__}:payments", workers=2)
    for customer in CUSTOMERS:
        s.send("tested-new-orders", *range(1, 101), key=customer)
    snapshot = s.snapshot()
    found = snapshot.assert_consistent()
    assert found.verdict.startswith("VERIFIED")
    (money,) = snapshot.query(MONEY)
    assert money["ordered"] == money["paid"] + money["between"]

    def all_paid() -> bool:
        (later,) = s.snapshot().query(MONEY)
        return bool(later["paid"] == 3 * 5_050)

    s.wait_until("all orders to be paid", all_paid, timeout_s=120)


@pytest.mark.long
@pytest.mark.spark
def test_a_key_in_two_partitions_fails_the_test_with_its_name(
    snapkafka_system: Callable[..., RunningSystem],
) -> None:
    """Another producer chose the partition: the table has two rows for ann, and the log contradicts nothing."""
    s = snapkafka_system(shop.orders)
    producer = Producer({"bootstrap.servers": s.bootstrap, "log_level": 0})
    for partition in (0, 1):
        producer.produce("tested-new-orders", b"1", key=b"ann", partition=partition)
    assert producer.flush(30) == 0
    s.wait_until("a change of ann in each partition", lambda: _changed(s) == [True, True], timeout_s=120)
    snapshot = s.snapshot()
    with pytest.raises(AssertionError) as reported:
        snapshot.assert_consistent()
    text = str(reported.value)
    assert "VERIFIED" in text
    assert "table ordered of tested-orders: 1 key lies in several partitions: " in text
    assert "ann (0, 1)" in text
    assert snapshot.assert_consistent(allow_split_keys={ORDERED}).verdict.startswith("VERIFIED")


def _changed(s: RunningSystem) -> list[bool]:
    consumer = Consumer({"bootstrap.servers": s.bootstrap, "group.id": "looks"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition(ORDERED, p), 10)[1] > 0 for p in (0, 1)]
    finally:
        consumer.close()
