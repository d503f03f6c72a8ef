"""For tests and demos, of snapkafka and of those who use it: a real Kafka, for as long as it is needed.

::

    with snapkafka.testing.kafka() as broker:
        print(broker.bootstrap)

pytest gets the same as fixtures `kafka` and `namespace` (see `snapkafka.testing.pytest_plugin`). Names are resolved
on first use: the plugin is loaded by every pytest of an environment that has snapkafka, and must cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapkafka.testing.broker import Broker, create_topics, kafka
    from snapkafka.testing.embedded import EmbeddedKafka

__all__ = ["Broker", "EmbeddedKafka", "create_topics", "kafka"]

_WHERE = {
    "Broker": "snapkafka.testing.broker",
    "EmbeddedKafka": "snapkafka.testing.embedded",
    "create_topics": "snapkafka.testing.broker",
    "kafka": "snapkafka.testing.broker",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
