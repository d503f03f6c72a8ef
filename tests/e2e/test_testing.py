"""`snapkafka.testing.system`, as users have it in tests of their own services."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from snapkafka.testing import RunningSystem
from tests.e2e import tested_shop as shop

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

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
