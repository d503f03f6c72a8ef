"""The ready-made invariants where two apps read one topic: a record in flight to both is one record.

`ledger` has the table `balances` and takes in `payments`, `clearing` hands on what it takes in of `transfers`, and
`audit` reads both and moves nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from snapkafka.assembly import SCHEMAS, local_frame
from snapkafka.assembly.spark.verify import v6_invariants
from snapkafka.checks import Status, load
from tests.worlds.waiting_messages import DELIVERED, TRIGGERED_S, WAITING

pytestmark = pytest.mark.nightly

READERS = [("ledger", "payments"), ("audit", "payments"), ("clearing", "transfers"), ("audit", "transfers")]
PASSED, FAILED, UNCLEAR = Status.PASSED, Status.FAILED, Status.UNVERIFIABLE


def tables(spark: SparkSession, held: str, in_flight: dict[str, str]) -> dict[str, DataFrame]:
    """A value in `balances`, and one record, of 10, in flight to each of the apps with what it reads there."""
    state = [{"app": "ledger", "table_name": "balances", "key": "a", "value": held}]
    messages = [
        {"receiver_app": app, "topic": topic, "partition": 0, "offset": 5, "value": '{"amount": 10}'}
        for app, topic in in_flight.items()
    ]
    positions = [{"app": app, "topic": topic, "partition": n} for app, topic in READERS for n in (0, 1)]
    filled: dict[str, list[dict[str, Any]]] = {"state": state, "messages": messages}
    filled["positions"] = positions
    return {name: local_frame(spark, schema, filled.get(name, [])) for name, schema in SCHEMAS.items()}


@pytest.mark.parametrize(
    ("in_flight", "taken_in", "apps", "status"),
    [
        ({"ledger": "payments", "audit": "payments"}, False, "", PASSED),
        ({"ledger": "payments"}, False, "", PASSED),
        ({"audit": "payments"}, True, "", PASSED),
        ({"audit": "payments"}, False, "", FAILED),  # neither here nor there: lost
        ({"ledger": "payments"}, True, "", FAILED),  # here and there: doubled
        ({"clearing": "transfers", "audit": "transfers"}, False, "", PASSED),
        ({"clearing": "transfers"}, False, "", UNCLEAR),
        ({"audit": "transfers"}, True, "", UNCLEAR),
        ({"clearing": "transfers"}, False, "ledger,clearing", PASSED),
        ({"audit": "transfers"}, True, "ledger,clearing", PASSED),
        ({"audit": "transfers"}, False, "ledger,clearing", FAILED),
    ],
)
def test_a_record_that_two_apps_read_is_one_until_it_is_taken_in_where_it_counts(
    spark: SparkSession, in_flight: dict[str, str], taken_in: bool, apps: str, status: Status
) -> None:
    named = {"table": "balances", "topics": "payments,transfers"} | ({"apps": apps} if apps else {})
    money = tables(spark, "100" if taken_in else "90", in_flight)
    (sum_of_all,) = v6_invariants.check(spark, load(["conservation"], {**named, "total": "100"}), money)
    token = tables(spark, "true" if taken_in else "false", in_flight)
    (one,) = v6_invariants.check(spark, load(["one_token"], named), token)
    assert (sum_of_all.status, one.status) == (status, status), (sum_of_all.witnesses, one.witnesses)
    if status is UNCLEAR:
        said = "not all of audit and clearing have taken in transfers[0]@5: say by --set apps="
        assert said in sum_of_all.witnesses[0].what
        assert said in one.witnesses[0].what


def test_a_message_that_waits_too_long_or_has_no_time_is_found(spark: SparkSession) -> None:
    """As in tests/unit/assembly/test_embedded_values.py."""
    rows = [
        {"topic": topic, "partition": 0, "offset": n, "timestamp_ms": at}
        for n, (topic, at) in enumerate(WAITING)
    ]
    filled: dict[str, list[dict[str, Any]]] = {
        "messages": rows,
        "processes": [{"triggered_at": datetime.fromtimestamp(TRIGGERED_S, UTC)}],
    }
    frames = {name: local_frame(spark, schema, filled.get(name, [])) for name, schema in SCHEMAS.items()}
    for parameters, expected in DELIVERED:
        (found,) = v6_invariants.check(spark, load(["delivered_within"], parameters), frames)
        assert sorted((item.topic, item.offset) for item in found.witnesses) == expected, parameters
