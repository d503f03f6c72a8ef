"""A real Kafka for tests and demos, of snapkafka and of its users, for as long as it is needed.

::

    with snapkafka.testing.kafka() as broker:
        print(broker.bootstrap)

    with snapkafka.testing.system(orders.app, payments.app) as s:
        s.snapshot().assert_consistent()

pytest gets the same as fixtures `kafka`, `namespace` and `snapkafka_system` (see `pytest_plugin`). Names are resolved
on first use: the plugin is loaded by every pytest of an environment that has snapkafka, and must cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from .embedded import HOST, Broker, EmbeddedKafka, create_topics, free_ports, kafka
    from .systems import START_TIMEOUT_S, RunningSystem, settled, started, system, wait_until
    from .taken import Taken
    from .workers import Worker
else:
    __getattr__ = lazily(__name__)

__all__ = ["Broker", "EmbeddedKafka", "RunningSystem", "Taken", "create_topics", "kafka", "system"]
