"""How a cluster is addressed: a scheme, IPv6, a host that is unknown, a broker that gives an address out of reach."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from snapkafka import ops
from snapkafka.errors import BadInputError, BrokerUnavailableError, LedgerUnusableError
from snapkafka.kafka import Connection, KafkaBulk, KafkaLedger, KafkaTopicAdmin
from snapkafka.testing import EmbeddedKafka

pytestmark = pytest.mark.timeout(300)


@dataclass
class Listeners:
    """Addresses of one broker: as it is, over IPv6, and one that leads to an address out of reach."""

    plain: str
    six: str
    astray: str


def free_port(family: socket.AddressFamily, host: str) -> int:
    with socket.socket(family) as found:
        found.bind((host, 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def listeners() -> Iterator[Listeners]:
    six, astray = free_port(socket.AF_INET6, "::1"), free_port(socket.AF_INET, "127.0.0.1")
    broker = EmbeddedKafka(
        properties={
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in ("CLIENT", "CONTROLLER", "SIX", "ASTRAY")
            )
        }
    )
    broker.properties |= {
        "listeners": f"CLIENT://127.0.0.1:{broker.port},CONTROLLER://127.0.0.1:{broker.controller_port},"
        f"SIX://[::1]:{six},ASTRAY://127.0.0.1:{astray}",
        "advertised.listeners": f"CLIENT://127.0.0.1:{broker.port},SIX://[::1]:{six},ASTRAY://127.0.0.1:1",
    }
    with broker:
        yield Listeners(broker.bootstrap, f"[::1]:{six}", f"127.0.0.1:{astray}")


async def test_over_ipv6_and_with_a_scheme_everything_works(listeners: Listeners) -> None:
    where = Connection(bootstrap=f"kafka://{listeners.six}")
    ledger, admin = KafkaLedger(where, "six"), KafkaTopicAdmin(where)
    try:
        await ledger.open()
        await admin.create_topic("t")
        bulk = KafkaBulk(where)
        assert list((await asyncio.to_thread(bulk.stable_ends, [("t", 0)])).values()) == [0]
    finally:
        await ledger.close()
        await admin.close()
    assert await ops.list_snapshots(where, "six") == ()


async def test_the_namespaces_of_a_cluster_are_listed_where_one_is_missing_or_unknown(
    listeners: Listeners,
) -> None:
    where = Connection(bootstrap=listeners.plain)
    for name in ("shop", "bank"):
        ledger = KafkaLedger(where, name)
        await ledger.open()
        await ledger.close()
    with pytest.raises(BadInputError) as missing:
        await ops.list_snapshots(where, "")
    with pytest.raises(LedgerUnusableError, match=r"_snapkafka\.shopp") as unknown:
        await ops.list_snapshots(where, "shopp")
    for raised in (missing, unknown):
        assert all(name in raised.value.hint for name in ("shop", "bank"))


async def test_a_broker_that_gives_an_address_out_of_reach_may_have_the_wrong_listeners(
    listeners: Listeners,
) -> None:
    """The first connection goes well; all others go where the broker says."""
    admin = KafkaTopicAdmin(Connection(bootstrap=listeners.astray))
    try:
        with pytest.raises(BrokerUnavailableError) as raised:
            await admin.describe_topics()
    finally:
        await admin.close()
    assert listeners.astray in raised.value.message
    assert "advertised.listeners" in raised.value.hint


async def test_an_unknown_host_is_called_that() -> None:
    admin = KafkaTopicAdmin(Connection(bootstrap="no-such-host.invalid:9092"))
    with pytest.raises(BrokerUnavailableError, match=r"no-such-host\.invalid"):
        await admin.describe_topics()
