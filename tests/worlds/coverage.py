"""Apps to be looked at by `doctor --offline`, by the names below."""

from typing import Any

import faust
from faust.serializers import codecs

import snapkafka

print("an app that talks while it is imported")

whole = faust.App("whole", broker="kafka://localhost:1", store="memory://")
snapkafka.install(whole, namespace="looked")
orders = whole.topic("orders", value_serializer="json")
stock = whole.Table("stock", default=int, partitions=4)


async def ignore(stream: Any) -> None:
    async for _ in stream:
        pass


whole.agent(orders, name="count", concurrency=2)(ignore)


partly = faust.App("partly", broker="kafka://localhost:1", store="memory://")
snapkafka.install(partly, namespace="looked")
clicks = partly.topic("clicks", value_serializer="json")
windows = partly.Table("windows", default=int).tumbling(10.0, expires=60.0)
groups = partly.SetTable("groups")
for_ever = partly.Table("for_ever", default=int).tumbling(10.0)
placed = partly.Table("placed", use_partitioner=True)
everywhere, sets_everywhere = partly.GlobalTable("everywhere"), partly.SetGlobalTable("sets_everywhere")


class Reversed(codecs.Codec):
    """A codec of the app's own."""

    def _loads(self, s: bytes) -> bytes:
        return s[::-1]

    def _dumps(self, s: bytes) -> bytes:
        return s[::-1]


class Foreign:
    """A codec that is none of Faust's kind."""


codecs.register("reversed", Reversed())
codecs.register("foreign", Foreign())


class Odd(faust.Record, serializer=codecs.get_codec("json") | Reversed()):  # type: ignore[call-arg]
    """A model with codecs given as objects."""

    n: int


class Odder(faust.Record, serializer=Foreign()):  # type: ignore[call-arg]
    """A model with that one."""

    n: int


odd = partly.Table("odd", key_type=bytes, value_type=Odd)
odder = partly.Table("odder", value_type=Odder)


views = partly.topic("views", key_serializer="json", value_serializer="reversed")
partly.agent(clicks, name="click")(ignore)
partly.agent(views, name="view")(ignore)
partly.agent(partly.topic("views", value_serializer="reversed"), name="view-too")(ignore)
partly.agent(partly.channel(), name="in-memory")(ignore)

bare = faust.App("bare", broker="kafka://localhost:1", store="memory://", processing_guarantee="exactly_once")
no_app = object()
