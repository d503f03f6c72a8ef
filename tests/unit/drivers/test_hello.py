"""`Hello`: what a worker announces of its code, what nobody will create of what it reads, and what its changelogs
promise."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import faust
import pytest

from snapkafka.drivers.faust import hello as announced
from snapkafka.drivers.faust.describe import TYPE_CHARS_MAX, agents_of, type_name
from snapkafka.drivers.faust.hello import hello_of, report_lacks
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError
from snapkafka.protocol import Hello


async def hello(
    monkeypatch: pytest.MonkeyPatch, *exist: str, declares: bool = True, settings: Any = None
) -> Hello:
    """What a worker of app `payments` says that subscribes to all that Faust has it subscribe to."""
    app = faust.App("payments", broker="kafka://127.0.0.1:1", topic_allow_declare=declares)
    tables = [app.Table(name, default=int) for name in ("paid", "owed")]
    app.topics.add(app.topic("to-pay"))
    app.topics.add(app.topic("grouped-repartition", internal=True))
    app.topics.add(app.topic(pattern="shop-.*"))  # Faust subscribes to nothing of it
    subscribed = [topic for channel in app.topics for topic in channel.topics]
    subscribed += [table.changelog_topic_name for table in tables]
    subscribed += [app.conf.reply_to, app._leader_assignor._leader_topic_name]

    async def described(topics: Any) -> dict[str, Any]:
        known = SimpleNamespace(partitions=1, topic_id="")
        return {topic: known for topic in topics if topic in exist}

    monkeypatch.setattr(announced, "SEEN_WITHIN_S", 0.01)
    has = settings or AsyncMock(return_value=({}, {}))
    admin = SimpleNamespace(describe_topics=described, topic_settings=has)
    driver = SimpleNamespace(app=app, admin=admin, config=SimpleNamespace(mode="on", sources=()))
    return await hello_of(cast(Any, driver), subscribed)


async def test_only_an_input_that_nobody_creates_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a changelog, a reply topic, nor what Faust declares for a `group_by`, unless it may not; a pattern
    subscribes to nothing."""
    found, logged = await hello(monkeypatch), list[str]()
    assert found.missing == ("to-pay",)
    report_lacks(cast(Any, SimpleNamespace(log=lambda _, what: logged.append(str(what)))), found)
    assert [line.split()[1] for line in logged] == ["to-pay"]
    found = await hello(monkeypatch, "to-pay")
    assert (found.missing, [source.topic for source in found.inputs]) == ((), ["to-pay"])
    assert (found.reset, found.session_ms) == ("earliest", 60_000), "Faust's own"
    assert (await hello(monkeypatch, declares=False)).missing == ("grouped-repartition", "to-pay")


HOLDING = {"cleanup.policy": "compact", "min.compaction.lag.ms": "60000", "delete.retention.ms": "86400000"}
AWAY = BrokerUnavailableError("away")
OWED, PAID = (f"payments-{table}-changelog" for table in ("owed", "paid"))


@pytest.mark.parametrize(
    ("answers", "seen"),
    [
        ([AWAY, AWAY, HOLDING], [OWED, PAID]),
        ([LedgerUnusableError("not allowed"), HOLDING], [PAID]),
        ([asyncio.Event], [PAID]),
        ([ZeroDivisionError()], None),
    ],
)
async def test_settings_are_asked_for_again_where_the_broker_is_away(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], seen: list[str] | None
) -> None:
    """One topic whose settings may not be seen, or where the broker hangs, takes no other with it; a bug is none."""
    given = {OWED: [*answers], PAID: [HOLDING]}

    async def settings(topic: str) -> tuple[dict[str, str], dict[str, str]]:
        answer = given[topic].pop(0)
        if answer is asyncio.Event:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer, {}

    monkeypatch.setattr(announced, "PROMISED_WITHIN_S", 0.1 if asyncio.Event in answers else 60)
    with nullcontext() if seen is not None else pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(10):
            found = await hello(monkeypatch, OWED, PAID, settings=settings)
            assert [it.topic for it in found.retention] == seen
    assert len(given[OWED]) == (answers[-1] is HOLDING and seen == [PAID]), "it was not asked for again"


# -- code ----


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


class Odd:
    @property
    def _options(self) -> Any:
        raise RuntimeError


Wide: Any = type("Wide", (faust.Record,), {"__annotations__": {f"field_{n}": str for n in range(200)}})


@pytest.mark.parametrize(
    ("kind", "described"),
    [
        (None, ""),
        (Odd(), ""),
        (int, "int"),
        (bytes, "bytes"),
        (list[int], "list[int]"),
        (int | None, "None | int"),
        (Line, "Line(article: str, count: int)"),
        (Order, "Order(id: str, lines: list[Line(article: str, count: int)], note: None | str)"),
        (Node, "Node(name: str, next: Node | None)"),
    ],
)
def test_a_type_is_described_by_its_fields(kind: Any, described: str) -> None:
    assert type_name(kind) == described


def test_a_long_type_ends_in_a_checksum_of_all_of_it() -> None:
    wide: Any = type("Wide", (faust.Record,), {"__annotations__": {**Wide.__annotations__, "field_199": int}})
    assert len(type_name(Wide)) == TYPE_CHARS_MAX
    assert type_name(Wide) != type_name(wide)


def test_agents_are_announced_with_what_they_read() -> None:
    """And more of them: tests/unit/house/test_offline.py."""
    app = faust.App("code-of-app", broker="kafka://127.0.0.1:1")
    orders = app.topic("orders", value_type=Order, key_type=str, key_serializer="raw")

    async def read(stream: Any) -> None: ...

    app.agent(orders, name="take")(read)
    (agent,) = agents_of(app)
    assert (agent.key_codec, agent.key_type, agent.value_type) == ("raw", "str", type_name(Order))
