"""What Faust 0.15.3 offers by name and does not do, with snapkafka or without: there is nothing to capture."""

from __future__ import annotations

from typing import Any

import aiokafka
import pytest
from faust.types import TP


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


async def test_under_exactly_once_a_changelog_of_which_nothing_was_fetched_counts_as_empty(app: Any) -> None:
    """How far to recover a table is the last stable offset of the latest fetch, and right after an assignment there may
    be none: then nothing is recovered. By default the broker is asked."""
    changelog = TP("counts-changelog", 0)
    before_any_fetch = aiokafka.consumer.subscription_state.TopicPartitionState(None).lso
    assert before_any_fetch is None

    class Consumer:
        async def highwaters(self, *tps: TP) -> dict[TP, int | None]:
            return dict.fromkeys(tps, before_any_fetch)

    recovery = app.tables.recovery
    recovery.active_tps.add(changelog)
    recovery.active_offsets[changelog] = -1
    await recovery._build_highwaters(Consumer(), {changelog}, recovery.active_highwaters, "active")
    assert recovery.active_highwaters[changelog] == -1
    assert not recovery.need_recovery()
