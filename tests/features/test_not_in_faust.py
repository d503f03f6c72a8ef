"""What Faust 0.15.3 offers by name and does not do, with snapkafka or without: there is nothing to capture."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiokafka
import pytest
from faust.types import TP, ConsumerMessage


@pytest.fixture
def app(tmp_path: Path) -> Any:
    import faust

    return faust.App("not-in-faust", broker="kafka://127.0.0.1:1", datadir=tmp_path)


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


@pytest.mark.parametrize(("store", "used"), [("rocksdb://", "memory"), ("rocksdb:t", "rocksdb")])
def test_a_store_of_a_table_by_its_scheme_alone_is_passed_over(app: Any, store: str, used: str) -> None:
    """A URL without a path counts as none, so the table gets the store of the app. The app's own may be one."""
    assert app.Table("t", store=store).data.url.scheme == used


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


@pytest.mark.parametrize(("sought", "committed"), [(True, 14), (False, 11)])
async def test_221_plain_faust_takes_events_for_done_where_it_seeks_in_the_middle_of_a_batch(
    app: Any, sought: bool, committed: int
) -> None:
    """#221, #216: an app with tables. After a recovery inputs are resumed while the flow is on, and sought after that.
    What is handed out next of a batch in hand seems to leave a gap behind the position, and a commit passes over events
    that were never done."""
    tp, handed_out = TP("requests", 0), []

    async def hand_out(message: Any) -> None:
        handed_out.append(message)

    consumer = app.consumer
    consumer.callback = hand_out
    app.topics._acking_topics.add(tp.topic)

    async def seek_to_committed() -> dict[TP, int]:
        return {tp: 10}

    async def one_batch(**_: float) -> AsyncIterator[tuple[TP, Any]]:
        for offset in range(10, 13):
            yield tp, message_at(tp, offset)
        if sought:
            await consumer.perform_seek()
        yield tp, message_at(tp, 13)
        consumer._stopped.set()

    consumer.seek_to_committed, consumer.getmany = seek_to_committed, one_batch
    await consumer._drain_messages(consumer)
    assert [message.offset for message in handed_out] == [10, 11, 12, 13]
    for done in (0, 3):
        consumer.ack(handed_out[done])
    assert consumer._new_offset(tp) == committed, "11 and 12 are not done"


async def test_221_plain_faust_hands_out_again_what_was_handed_out_before_it_seeks(app: Any) -> None:
    """#221, #216: an app with tables again. What was fetched of an input while tables were recovered waits, and the
    flow is on. So it is handed out as soon as the input is resumed, while Faust asks for the committed positions that
    it will seek to; and once more after that. For an agent a record comes after later ones."""
    tp, handed_out, position = TP("requests", 0), list[int](), 10
    recovery, consumer = app.tables.recovery, app.consumer
    two = asyncio.Event()

    async def hand_out(message: Any) -> None:
        handed_out.append(message.offset)
        if len(handed_out) == 2:
            two.set()
        if message.offset == 13:
            consumer._stopped.set()

    async def seek_to_committed() -> dict[TP, int]:
        nonlocal position
        await asyncio.wait_for(two.wait(), timeout=5)  # the broker takes its time
        position = 10
        return {tp: position}

    async def one_record(**_: float) -> AsyncIterator[tuple[TP, Any]]:
        nonlocal position
        if consumer.flow_active and tp in consumer._get_active_partitions():
            position += 1
            yield tp, message_at(tp, position - 1)

    consumer.callback, consumer.getmany = hand_out, one_record
    consumer.seek_to_committed, consumer.assignment = seek_to_committed, lambda: {tp}
    app._fetcher = SimpleNamespace(maybe_start=lambda: asyncio.sleep(0))
    consumer.pause_partitions({tp})
    consumer.resume_flow()  # as for the recovery
    draining = asyncio.ensure_future(consumer._drain_messages(consumer))
    await recovery._resume_streams(app.consumer_generation_id)
    await asyncio.wait_for(draining, timeout=5)
    assert handed_out == [10, 11, 10, 11, 12, 13]


def message_at(tp: TP, offset: int) -> Any:
    return ConsumerMessage(tp.topic, tp.partition, offset, 0.0, 0, [], None, b"", None, 0, 0, tp)
