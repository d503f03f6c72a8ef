"""What the compose files prepare: topics of which a snapshot stays restorable."""

from __future__ import annotations

import asyncio

import pytest

from snapkafka.demo import PARTITIONS, changelog
from snapkafka.demo.container import main
from snapkafka.demo.settings import CHANGELOG_SETTINGS, TOPICS
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.testing import EmbeddedKafka

pytestmark = pytest.mark.timeout(120)


def test_the_topics_of_the_containers_keep_what_a_snapshot_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(bootstrap: str) -> None:
        admin = KafkaTopicAdmin(Connection(bootstrap=bootstrap))
        try:
            described = await admin.describe_topics()
            table = changelog("accounts", "balances")
            settings, _ = await admin.topic_settings(table)
        finally:
            await admin.close()
        assert {described[name].partitions for name in (*TOPICS, table)} == {PARTITIONS}
        assert settings.items() >= CHANGELOG_SETTINGS.items()

    with EmbeddedKafka() as broker:
        monkeypatch.setenv("SNAPKAFKA_BOOTSTRAP", broker.bootstrap)
        assert main(["prepare"]) == 0
        assert main(["prepare"]) == 0, "a restart finds them there"
        asyncio.run(look(broker.bootstrap))
    assert main(["unknown"]) == 2
