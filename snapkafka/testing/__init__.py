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

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapkafka.testing.broker import Broker, create_topics, kafka
    from snapkafka.testing.embedded import EmbeddedKafka
    from snapkafka.testing.systems import RunningSystem, system
    from snapkafka.testing.taken import Taken

__all__ = ["Broker", "EmbeddedKafka", "RunningSystem", "Taken", "create_topics", "kafka", "system"]

_WHERE = {
    "Broker": "snapkafka.testing.broker",
    "EmbeddedKafka": "snapkafka.testing.embedded",
    "RunningSystem": "snapkafka.testing.systems",
    "Taken": "snapkafka.testing.taken",
    "create_topics": "snapkafka.testing.broker",
    "kafka": "snapkafka.testing.broker",
    "system": "snapkafka.testing.systems",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
