"""How a small app of a test is made: broker, folder and namespace are those that its worker is started with."""

import os
from typing import Any

import faust

import snapkafka


def new_app(name: str, **settings: Any) -> Any:
    """A Faust app with snapkafka; its tables in memory, and two partitions, unless the settings say otherwise."""
    app = faust.App(
        name,
        broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
        datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
        **{"store": "memory://", "topic_partitions": 2, "topic_disable_leader": True} | settings,
    )
    snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])
    return app
