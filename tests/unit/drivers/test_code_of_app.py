"""What a worker announces of its code: agents, tables and the models that they read."""

from __future__ import annotations

from typing import Any

import faust
import pytest

from snapkafka.drivers.faust.code import TYPE_CHARS_MAX, agents_of, type_name


class Line(faust.Record):
    article: str
    count: int = 1


class Order(faust.Record):
    id: str
    lines: list[Line]
    note: str | None = None


class Node(faust.Record):
    name: str
    next: "Node | None" = None  # noqa: UP037  # a model that holds itself


Wide: Any = type("Wide", (faust.Record,), {"__annotations__": {f"field_{n}": str for n in range(200)}})


@pytest.mark.parametrize(
    ("kind", "described"),
    [
        (None, ""),
        (int, "int"),
        (bytes, "bytes"),
        (list[int], "list[int]"),
        (int | None, "None | int"),
        (Line, "Line(article: str, count: int)"),
        (
            Order,
            "Order(id: str, lines: list[Line(article: str, count: int)], note: None | str)",
        ),
    ],
)
def test_a_type_is_described_by_its_fields(kind: Any, described: str) -> None:
    assert type_name(kind) == described


def test_a_model_that_holds_itself_ends() -> None:
    assert type_name(Node).startswith("Node(name: str, next: ")


def test_a_long_type_ends_in_a_checksum_of_all_of_it() -> None:
    other: Any = type(
        "Wide", (faust.Record,), {"__annotations__": {**Wide.__annotations__, "field_199": int}}
    )
    assert len(type_name(Wide)) == TYPE_CHARS_MAX
    assert type_name(Wide) != type_name(other)


def test_whatever_is_used_as_a_type_is_no_error() -> None:
    class Odd:
        @property
        def _options(self) -> Any:
            raise RuntimeError

    assert type_name(Odd()) == ""


def test_agents_are_announced_with_what_they_read() -> None:
    app = faust.App("code-of-app", broker="kafka://127.0.0.1:1", value_serializer="json")
    orders = app.topic("orders", value_type=Order, key_type=str, key_serializer="raw")

    async def take(stream: Any) -> None:
        async for _ in stream:
            ...

    async def local(stream: Any) -> None:
        async for _ in stream:
            ...

    app.agent(orders, name="take")(take)
    app.agent(app.channel(), name="local")(local)
    ours = app.agent(app.topic("control"), name="ours")(take)
    local_agent, take_agent = agents_of(app, ours)
    assert (take_agent.name, take_agent.topics) == ("take", ("orders",))
    assert (take_agent.key_codec, take_agent.value_codec) == ("raw", "json")
    assert (take_agent.key_type, take_agent.value_type) == ("str", type_name(Order))
    assert (local_agent.name, local_agent.topics) == ("local", ())
