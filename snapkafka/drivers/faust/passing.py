"""The fast path past Faust's buffer, for table writes and `send_soon`.

Code that writes to a table cannot wait, so Faust puts the record into a queue, and a background task sends one after
the other, by five coroutines. Where no wait is needed (`batches`), a record leaves where it is put: it is stamped and
appended in one step, and no effect has to be carried (`riding`). That saves more than the stamp costs
(docs/evidence/performance.md).

No record overtakes one that waits in the buffer. The same objects are notified of a record and its outcome as without
us. With an unknown Faust, or for a topic of a class of the app's own, everything goes through the buffer.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from faust.topics import Topic
from faust.types import tuples

from .batches import checksum

if TYPE_CHECKING:
    from collections.abc import Callable

    from .driver import FaustDriver

__all__ = ["Passing"]

#: The sources of what is stood in for, as checksums.
FAUST: Final = {0x50B7DBA0: "0.15.3"}

#: Of a key or a value, also of one that is no bytes.
size_of: Final[Any] = getattr(tuples, "_get_len", None)

#: Faust tells of each record here.
_faust_log: Final = logging.getLogger("faust.topics")

#: What of Faust's topics is stood in for, or done with a message that passes.
OF_TOPICS: Final = (
    "publish_message",
    "_on_published",
    "_topic_name_or_default",
    "get_topic_name",
    "_get_producer",
)


class Passing:
    """The fast path past the buffer of one app's producer.

    Args:
        driver: logs what fails in a background task.
        producer: Faust's.
        put: puts a message into its buffer.
    """

    def __init__(self, driver: FaustDriver, producer: Any, put: Callable[[Any], None]) -> None:
        self._driver, self._producer, self._put = driver, producer, put
        self._outside = copy_context()  # as Faust's task, what it calls back is in no event
        #: So many messages are in the buffer, or on their way out of it; while there are any, nothing may pass.
        self.waiting = 1
        if producer.threaded_producer is None and checksum(_stood_in_for(producer)) in FAUST:
            self.waiting = producer.buffer.pending.qsize()
            self._count_what_leaves(producer.buffer)

    def _count_what_leaves(self, buffer: Any) -> None:
        send_pending = buffer._send_pending

        async def send_counted(fut: Any) -> None:
            try:
                await send_pending(fut)
            finally:
                self._left()

        buffer._send_pending = send_counted

    def _left(self) -> None:
        try:
            self.waiting -= 1
        except Exception as error:
            self._driver.stand_down("to count what leaves Faust's buffer", error)

    def put(self, fut: Any) -> None:
        """Take the slow path: into the buffer."""
        self.waiting += 1
        self._put(fut)

    @staticmethod
    def topic_of(message: Any) -> str | None:
        """Return the topic of a message; None: it must not take the fast path."""
        channel = message.channel
        if type(channel) is not Topic or channel.pattern or len(channel.topics) != 1:
            return None
        topic: str = channel.topics[0]
        return topic

    def passed(self, fut: Any, topic: str, future: asyncio.Future[Any]) -> None:
        """Finish a message that is appended: notify the objects that Faust notifies when it takes a message out of its
        buffer, and let Faust handle the outcome."""
        message, producer = fut.message, self._producer
        key, value = message.key, message.value
        _faust_log.debug(
            "send: topic=%r k=%r v=%r timestamp=%r partition=%r",
            topic,
            key,
            value,
            message.timestamp,
            message.partition,
        )
        try:
            state = producer.app.sensors.on_send_initiated(
                producer, topic, message=message, keysize=size_of(key), valsize=size_of(value)
            )
        except Exception as error:  # a sensor of the app's: Faust's task would fail, and with it the worker
            self._driver.spawn(producer.buffer.crash(error))
            return
        future.add_done_callback(
            partial(message.channel._on_published, message=fut, state=state, producer=producer),
            context=self._outside,
        )


def _stood_in_for(producer: Any) -> list[Any]:
    """List the parts of Faust that `Passing` replaces, and those that handle a message on the fast path."""
    buffer = producer.buffer
    return [
        buffer.put,
        getattr(buffer, "_send_pending", None),
        getattr(getattr(type(buffer), "_handle_pending", None), "fun", None),
        *(getattr(Topic, name, None) for name in OF_TOPICS),
        size_of,
    ]
