"""The connection to the broker of the tests, its administration, and what is on it: a topic, and ledgers."""

from collections.abc import AsyncIterator, Callable

import pytest

from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.testing import Broker, create_topics


@pytest.fixture
def connection(kafka: Broker) -> Connection:
    return Connection(bootstrap=kafka.bootstrap)


@pytest.fixture
async def admin(connection: Connection) -> AsyncIterator[KafkaTopicAdmin]:
    async with KafkaTopicAdmin(connection) as found:
        yield found


@pytest.fixture
def topic(kafka: Broker, namespace: str) -> str:
    """A topic of two partitions; tests use its name for a group, too."""
    create_topics(kafka.bootstrap, namespace, partitions=2)
    return namespace


@pytest.fixture
async def ledgers(connection: Connection, namespace: str) -> AsyncIterator[Callable[[], KafkaLedger]]:
    """Makes ledgers of the test's namespace, each as another process would."""
    made: list[KafkaLedger] = []

    def make() -> KafkaLedger:
        made.append(KafkaLedger(connection, namespace))
        return made[-1]

    yield make
    for ledger in made:
        await ledger.close()


@pytest.fixture
async def ledger(ledgers: Callable[[], KafkaLedger]) -> KafkaLedger:
    """An open one."""
    made = ledgers()
    await made.open()
    return made
