"""What Faust 0.15.3 offers by name and does not do, with snapkafka or without: there is nothing to capture."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def app() -> Any:
    import faust

    return faust.App("not-in-faust", broker="kafka://127.0.0.1:1")


async def test_a_pattern_subscribes_to_nothing(app: Any) -> None:
    """The conductor asks a topic for its names, and one with a pattern has none."""
    topic = app.topic(pattern="orders-.*")
    app.topics.add(topic)
    assert list(topic.topics) == []
    assert list(await app.topics._update_indices()) == []


@pytest.mark.parametrize("join", ["join", "left_join", "inner_join", "outer_join"])
async def test_streams_are_not_joined(app: Any, join: str) -> None:
    left, right = (app.channel().stream() for _ in range(2))
    joined = getattr(left & right, join)()
    with pytest.raises(NotImplementedError):
        await joined.on_merge(1)


@pytest.mark.parametrize("join", ["join", "left_join", "inner_join", "outer_join"])
def test_tables_are_not_joined(app: Any, join: str) -> None:
    with pytest.raises(NotImplementedError):
        getattr(app.Table("t"), join)()
