"""pytest fixtures for tests against a real Kafka, here and in projects that use snapkafka.

Loaded by every pytest of the environment (entry point `pytest11`): nothing is imported before a fixture is used. A
project that has fixtures of these names keeps its own.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from snapkafka.testing.embedded import Broker
    from snapkafka.testing.systems import RunningSystem


@pytest.fixture(scope="session")
def kafka() -> Iterator[Broker]:
    """Provide a Kafka broker for the tests of a session, `kafka.bootstrap`; see `snapkafka.testing.embedded.kafka`."""
    from snapkafka.testing.embedded import kafka as running

    with running() as broker:
        yield broker


@pytest.fixture
def namespace() -> str:
    """Provide a snapkafka namespace that no other test has, so that tests on a shared broker do not interfere."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic_prefix(namespace: str) -> str:
    """Provide the prefix of a test's topics, groups and apps: the namespace and a dash."""
    return f"{namespace}-"


@pytest.fixture
def snapkafka_system() -> Iterator[Callable[..., RunningSystem]]:
    """Start systems that end with the test: `snapkafka_system(orders.app, payments.app)`, as `testing.system`."""
    from contextlib import ExitStack

    from snapkafka.testing.systems import system

    with ExitStack() as stack:
        yield lambda *apps, **options: stack.enter_context(system(*apps, **options))
