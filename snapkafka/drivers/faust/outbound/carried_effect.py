"""The effect that rides along: colour and cause of what is sent, from where it enters to where it leaves.

It is a header that is not bytes yet, under the name of ours. Anything that else stands under that name is a copy that
was carried along, and is left behind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from faust.types.tuples import PendingMessage

from snapkafka.protocol.colours import Effect
from snapkafka.wire import headers as wire

__all__ = ["attach", "detach", "keep_partition", "split"]

#: Where in a message of Faust's the headers stand; `_replace` takes twice as long.
HEADERS: Final = PendingMessage._fields.index("headers")
PARTITION: Final = PendingMessage._fields.index("partition")
#: Makes a message from all its fields; calling the class costs twice as much.
_message_of: Final = partial(tuple.__new__, PendingMessage)


def attach(fut: Any, effect: Effect) -> None:
    """Let an effect ride along with a message that waits."""
    fut.message = _with_headers(fut.message, [*_as_list(fut.message[HEADERS]), (wire.HEADER, effect)])


def detach(fut: Any) -> Effect | None:
    """Take it off such a message again."""
    effect, others = split(fut.message[HEADERS])
    if effect is not None:
        fut.message = _with_headers(fut.message, others)
    return effect


def keep_partition(fut: Any, partition: int) -> None:
    """The app's partitioner was asked, and must not be asked again: one that takes turns would skip a partition."""
    message = fut.message
    fut.message = _message_of((*message[:PARTITION], partition, *message[PARTITION + 1 :]))


def split(
    headers: Any, met: Callable[[object], None] | None = None
) -> tuple[Effect | None, list[tuple[str, bytes]]]:
    """The effect that rides along, if any, and the headers without any `_sk` (ours, a copy, or the app's own).

    Args:
        met: is called with each `_sk` that is not an effect.
    """
    if type(headers) is list and len(headers) == 1 and type(headers[0][1]) is Effect:  # mostly so, of tables
        return headers[0][1], []
    effect = None
    others = []
    for name, value in _as_list(headers):
        if name != wire.HEADER:
            others.append((name, value))
        elif isinstance(value, Effect):
            effect = value
        elif met is not None:
            met(value)
    return effect, others


def _with_headers(message: Any, headers: list[tuple[str, Any]]) -> Any:
    return _message_of((*message[:HEADERS], headers, *message[HEADERS + 1 :]))


def _as_list(headers: Any) -> list[Any]:
    if not headers:
        return []
    return list(headers.items()) if hasattr(headers, "items") else list(headers)
