"""A service whose broker stands still: no connection is closed, and nothing is answered."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from starlette.testclient import TestClient

from snapkafka.kafka import Connection, KafkaLedger
from snapkafka.service import ledger_follower
from snapkafka.testing import EmbeddedKafka
from tests.freezing import freeze, thaw
from tests.worlds.service_world import served, until

pytestmark = pytest.mark.timeout(300)


async def make_ledger(where: Connection) -> None:
    ledger = KafkaLedger(where, "ns")
    await ledger.open(create=True)
    await ledger.close()


def followed(client: TestClient) -> float:
    """Return what the metrics say about the ledger."""
    found = re.search(r"^snapkafka_service_ledger_followed (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_a_broker_that_stands_still_is_reported_since_when_and_found_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger_follower, "SILENT_S", 3.0)
    with EmbeddedKafka() as broker:
        where = Connection(bootstrap=broker.bootstrap)
        asyncio.run(make_ledger(where))
        with served(where) as client:
            assert followed(client) == 1
            freeze(broker)
            try:
                until(lambda: client.get("/readyz").status_code == 503, "the service to notice")
                told = client.get("/readyz").json()
                assert told["code"] == "broker-unavailable"
                assert re.fullmatch(r"no broker has answered since \d\d:\d\d:\d\d UTC", told["detail"]), told
                assert followed(client) == 0
                stale = client.get("/v1/snapshots")
                assert (stale.status_code, stale.headers["snapkafka-stale"]) == (200, "true")
                assert client.get("/v1/snapshots/none").json()["code"] == "broker-unavailable"
                with client.stream("GET", "/v1/events") as stream:
                    line = next(line for line in stream.iter_lines() if line.startswith("data: "))
                told = json.loads(line.removeprefix("data: "))
                assert told["followed"] is False
                assert told["problem"].startswith("no broker has answered since ")
                assert client.get("/healthz").status_code == 200
            finally:
                thaw(broker)
            until(lambda: client.get("/readyz").status_code == 200, "the broker to be found again", 60)
            assert followed(client) == 1
