"""The carried effect: colour and cause of a record, from where it enters to where it leaves.

It is a header under the name of ours that is not bytes yet. Anything else under that name is a copied header, and is
dropped.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from faust.types.tuples import PendingMessage

from snapkafka.protocol.colours import Effect
from snapkafka.wire import headers as wire

#: Where in a message of Faust's the headers stand; `_replace` takes twice as long.
HEADERS: Final = PendingMessage._fields.index("headers")
PARTITION: Final = PendingMessage._fields.index("partition")
#: Makes a message from all its fields; calling the class costs twice as much.
_message_of: Final = partial(tuple.__new__, PendingMessage)


def attach(fut: Any, effect: Effect) -> None:
    """Attach an effect to a message that waits."""
    fut.message = _with_headers(fut.message, [*_as_list(fut.message[HEADERS]), (wire.HEADER, effect)])


def keep_partition(fut: Any, partition: int) -> None:
    """Keep the partition that the app's partitioner chose. It must not be asked twice: one that takes turns would skip
    a partition."""
    message = fut.message
    fut.message = _message_of((*message[:PARTITION], partition, *message[PARTITION + 1 :]))


def split(headers: Any) -> tuple[Effect | None, list[tuple[str, bytes]]]:
    """Split headers: return the carried effect, if any, and the headers without any `_sk` (ours, a copy, or the app's
    own)."""
    if type(headers) is list and len(headers) == 1 and type(headers[0][1]) is Effect:  # mostly so, of tables
        return headers[0][1], []
    effect = None
    others = []
    for name, value in _as_list(headers):
        if name != wire.HEADER:
            others.append((name, value))
        elif isinstance(value, Effect):
            effect = value
    return effect, others


def _with_headers(message: Any, headers: list[tuple[str, Any]]) -> Any:
    return _message_of((*message[:HEADERS], headers, *message[HEADERS + 1 :]))


def _as_list(headers: Any) -> list[Any]:
    if not headers:
        return []
    return list(headers.items()) if hasattr(headers, "items") else list(headers)
