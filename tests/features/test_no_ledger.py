"""R15: the ledger is there, and this app may not use it, or it takes nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from snapkafka.kafka import SETTINGS, Connection, KafkaTopicAdmin, topic_name
from snapkafka.testing import Broker
from tests.kafka.guarding import PASSWORD, guarded_broker

from .unharmed import as_without_us

pytestmark = pytest.mark.timeout(300)


def test_r15_a_principal_without_rights_on_the_ledger(namespace: str, tmp_path: Path) -> None:
    """It may do whatever it did before, and nothing with the ledger."""
    allowed = {"allow.everyone.if.no.acl.found": "true"}
    with guarded_broker(["SHOP"], allowed) as (broker, address):
        ledger = topic_name(namespace)
        asyncio.run(create(broker.bootstrap, ledger))
        denied = AclBinding(
            ResourceType.TOPIC, ledger, ResourcePatternType.LITERAL, "User:SHOP", "*", AclOperation.ALL,
            AclPermissionType.DENY,
        )  # fmt: skip
        client = AdminClient({"bootstrap.servers": broker.bootstrap})
        client.create_acls([denied])[denied].result(30)
        env = {"SNAPKAFKA_BOOTSTRAP": address, "FEATURES_USER": "SHOP", "FEATURES_PASSWORD": PASSWORD}
        log = as_without_us(broker.bootstrap, namespace, tmp_path, env)
    assert "not allowed" in log, log


def test_r15_a_ledger_that_takes_nothing_more(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    """As of a full disk, each record is refused."""
    asyncio.run(create(kafka.bootstrap, topic_name(namespace), {"max.message.bytes": "1"}))
    log = as_without_us(kafka.bootstrap, namespace, tmp_path)
    assert "Hello was not written to the ledger yet" in log


async def create(bootstrap: str, ledger: str, more: Mapping[str, str] | None = None) -> None:
    """As an administrator does."""
    admin = KafkaTopicAdmin(Connection(bootstrap=bootstrap))
    await admin.create_topic(ledger, settings={**SETTINGS, **(more or {})})
    await admin.close()
