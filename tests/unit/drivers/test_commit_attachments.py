"""What waits for a commit (`stream_publish_on_commit`), on Faust's own heap of messages: it counts as on its way until
its partition is taken away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from faust.app._attached import Attachments
from faust.types import TP
from faust.types.tuples import FutureMessage, PendingMessage

from snapkafka.drivers.faust.outbound.carried_effect import attach, detach
from snapkafka.drivers.faust.outbound.commit_attachments import CommitAttachments
from snapkafka.protocol import Effect, TopicPartition
from snapkafka.wire import headers as wire

OURS, THEIRS = TP("in", 0), TP("in", 1)


class Machine:
    def __init__(self) -> None:
        self.given_up: list[str] = []

    def send_given_up(self, effect: Effect, why: str, *, culprit: str) -> tuple[()]:
        self.given_up.append(culprit)
        return ()


class Topic:
    """As far as `Attachments` knows it."""

    topics = ("out",)

    def as_future_message(self, key: Any, *_: Any) -> FutureMessage:
        return FutureMessage(
            PendingMessage(self, key, None, None, None, [("mine", b"1")], None, None, None, None, None)
        )


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def held() -> Attachments:
    return Attachments(SimpleNamespace(conf=SimpleNamespace(stream_publish_on_commit=True)))


@pytest.fixture
def attached(machine: Machine, held: Attachments) -> CommitAttachments:
    driver: Any = SimpleNamespace(
        app=SimpleNamespace(_attachments=held), machine=machine, do=lambda actions: None
    )

    def enter(fut: Any) -> None:
        effect = Effect(0, None, None, {})  # type: ignore[arg-type]
        attach(fut, effect)

    made = CommitAttachments(driver, enter, detach)
    made.on_assigned([TopicPartition(*OURS)])
    return made


def put(held: Attachments, tp: TP, offset: int) -> Any:
    return held.put(SimpleNamespace(tp=tp, offset=offset), Topic(), "k", None)


def names(fut: Any) -> list[str]:
    return [name for name, _ in fut.message.headers]


async def test_what_waits_when_its_partition_is_taken_away_is_given_up(
    attached: CommitAttachments, machine: Machine, held: Attachments
) -> None:
    gone, waits = put(held, OURS, 3), put(held, OURS, 5)
    assert machine.given_up == []
    assert list(held._attachments_for(OURS, 4)) == [gone], "the commit before it was taken away"
    attached.on_revoked()
    assert machine.given_up == ["in[0]"]
    assert names(waits) == ["mine"], "if it leaves after all, it enters then"
    attached.on_revoked()
    assert machine.given_up == ["in[0]"], "once"


async def test_what_an_event_of_a_partition_that_is_gone_sends_is_given_up_at_once(
    attached: CommitAttachments, machine: Machine, held: Attachments
) -> None:
    """An event that still runs when its partition is somebody else's: no commit of ours will send it."""
    assert wire.HEADER in names(put(held, OURS, 3))
    assert names(put(held, THEIRS, 3)) == ["mine"]
    assert machine.given_up == ["in[1]"]
    attached.on_revoked()
    put(held, OURS, 4)
    assert machine.given_up == ["in[1]", "in[0]", "in[0]"], "while nothing is ours"
    attached.on_assigned([TopicPartition(*OURS)])
    assert wire.HEADER in names(put(held, OURS, 3))
