"""Messages that `stream_publish_on_commit` holds back: each leaves with the commit of its event.

A message enters when its event sends it, in the colour of that event, and closing waits until it is sent. If its
partition is revoked before the commit, Faust forgets what it might commit there and keeps the message: it leaves when
the partition is assigned again and a later position is committed, or never. No cut can wait for that or vouch for it:
a snapshot for which the message is white fails by name, and the message counts as not sent. If it leaves after all, it
enters at that moment, in the colour of the process (R5). Its event runs again and sends a message of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from snapkafka.protocol.colours import Effect
from snapkafka.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ..host import Host


class CommitAttachments:
    """The messages that wait for a commit.

    Args:
        host: whose machine is fed.
        enter: lets a message enter; from then on it carries an `Effect`.
        leave: detaches the `Effect`.
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
        """Replace `Attachments.put`; `message` is the one whose event sends."""
        fut = self._put(message, channel, *args, **options)
        try:
            if hasattr(fut.message.channel, "topics"):
                self._enter(fut)
                if message.tp not in self._ours:
                    self._give_up(fut, message.tp)
        except Exception as error:
            self._host.stand_down("to record a message that waits for a commit", error)
        return fut

    def on_assigned(self, inputs: Collection[Any]) -> None:
        """Note the inputs that are assigned after a rebalance."""
        self._ours = frozenset(inputs)

    def on_revoked(self) -> None:
        """Note that all inputs are revoked, after Faust has committed what it will."""
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
