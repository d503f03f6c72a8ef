"""Describe what `stream_publish_on_commit` holds back: a message that leaves with the commit of its event.

It has entered when its event sends it, in the colour of that event, and closing waits until it is sent. If its
partition is revoked before the commit, Faust forgets what it might commit there and keeps the message: it leaves
when the partition has come back and a later position is committed, or never. No cut can wait for that, nor vouch for
it: a snapshot that the message is white for fails by name, and the message counts as not sent. If it leaves after
all, it enters then, as what a process does outside any event (R5). Its event runs again, and sends one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from snapkafka.protocol.colours import Effect
from snapkafka.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ..host import Host

__all__ = ["Attached"]


class Attached:
    """The messages that wait for a commit.

    Args:
        host: its machine is informed.
        enter: lets a message enter; from then on an `Effect` rides along.
        leave: takes that off again.
    """

    def __init__(
        self, host: Host, enter: Callable[[Any], None], leave: Callable[[Any], Effect | None]
    ) -> None:
        self._host = host
        self._enter, self._leave = enter, leave
        self._held = host.app._attachments
        self._put: Callable[..., Any] = self._held.put
        self._ours: Collection[Any] = ()  # inputs of which a position may be committed here
        self._held.put = self.put

    def put(self, message: Any, channel: Any, *args: Any, **options: Any) -> Any:
        """`Attachments.put`; `message` is the one that the event is of."""
        fut = self._put(message, channel, *args, **options)
        try:
            if hasattr(fut.message.channel, "topics"):
                self._enter(fut)
                if message.tp not in self._ours:
                    self._give_up(fut, message.tp)
        except Exception as error:
            self._host.stand_down("to note a message that waits for a commit", error)
        return fut

    def on_assigned(self, inputs: Collection[Any]) -> None:
        """After a rebalance: these are ours."""
        self._ours = frozenset(inputs)

    def on_revoked(self) -> None:
        """All inputs are given back, and Faust has committed what it will."""
        self._ours = ()
        for tp, waiting in self._held._pending.items():
            for _, fut in waiting:
                self._give_up(fut.value, tp)

    def _give_up(self, fut: Any, tp: Any) -> None:
        effect = self._leave(fut)
        if effect is not None:
            self._host.do(
                self._host.machine.send_given_up(
                    effect,
                    f"was to leave with the commit of {TopicPartition(*tp)}, which was revoked before",
                    culprit=str(TopicPartition(*tp)),
                )
            )
