"""The running system of the demo: two services with two workers each, and accounts that are open.

Tests use it too: it is a real system under load, in a cycle, with money that must add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

from snapkafka.demo.load import Load
from snapkafka.demo.settings import ACCOUNTS, CHANGELOG_SETTINGS, PARTITIONS, TOPICS, changelog
from snapkafka.errors import TimedOutError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.protocol.records import TopicPartition
from snapkafka.testing import START_TIMEOUT_S, RunningSystem, create_topics, started
from snapkafka.until import succeed, until

APPS: Final = ("accounts", "clearing")
#: Opening an account is a matter of a second or two.
ASK_AGAIN_S: Final = 10.0


def running_system(
    bootstrap: str, namespace: str, *, env: Callable[[str, int], Mapping[str, str]] | None = None
) -> AbstractContextManager[RunningSystem]:
    """Create the topics, and start the four workers for the length of a block.

    Args:
        bootstrap: the broker.
        namespace: of the snapshots.
        env: settings per worker, by app and number (0, 1).
    """
    tables = (changelog("accounts", "balances"), changelog("clearing", "passed"))
    create_topics(bootstrap, *TOPICS, partitions=PARTITIONS)
    create_topics(bootstrap, *tables, partitions=PARTITIONS, config=CHANGELOG_SETTINGS)

    def start(system: RunningSystem) -> None:
        for number in range(2):
            for app in APPS:
                system.start_worker(app, env(app, number) if env else None, module=f"snapkafka.demo.{app}")

    return started(bootstrap, namespace, start)


async def open_accounts(load: Load, admin: KafkaTopicAdmin, system: RunningSystem) -> None:
    """Put the opening balances on the accounts, and wait until the tables have them all.

    Missing balances are requested again after a while: Faust may skip records that come while it ends a recovery
    (docs/reference/features.md), and a service begins with one.
    """
    topic = changelog("accounts", "balances")
    tps = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]

    async def opened() -> bool:
        system.check_alive()
        return sum((await admin.log_ends(tps)).values()) >= ACCOUNTS

    async def ask() -> None:
        await load.open_accounts()
        await until(opened, ASK_AGAIN_S, "the accounts to be opened")

    await succeed(ask, START_TIMEOUT_S, TimedOutError)
