"""The messages of exact offset ranges, read by librdkafka without a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from snapkafka.errors import OffsetsGoneError, TimedOutError

if TYPE_CHECKING:
    from confluent_kafka import Message

#: Messages taken from the client at once.
BATCH: Final = 1_000
#: Nothing has come of a range by then: it is given up.
IDLE_S: Final = 30.0
#: What a reader of ranges needs beside the address and the login. Nothing is ever committed under its group id.
READER: Final[dict[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 20,
}


def headers_of(message: Message) -> list[tuple[str, Any]]:
    """Return the headers of a message, in order.

    Raises:
        UnicodeError: the client cannot return them; it names the record.
    """
    try:
        return list(message.headers() or ())
    except SystemError as error:
        raise UnicodeError(
            f"a header of {message.topic()}[{message.partition()}] offset {message.offset()} whose name is not UTF-8"
        ) from error


def messages_of(
    settings: Mapping[str, Any],
    ranges: Sequence[tuple[str, int, int, int]],
    refuse: Callable[[str, int, Any], None],
    *,
    before_each_batch: Callable[[], None] = lambda: None,
) -> Iterator[Message]:
    """Yield the messages of `(topic, partition, start, end)`, one range per partition, in the order of each.

    Args:
        settings: of librdkafka's consumer, with `group.id` and `isolation.level`.
        refuse: raises the error for what a partition answered; if it returns, the partition is left out.

    Raises:
        OffsetsGoneError: an offset comes again, or lies below its range: the log is another one by now.
        TimedOutError: no more messages come before the end of a range.
    """
    from confluent_kafka import Consumer, KafkaError
    from confluent_kafka import TopicPartition as KafkaPartition

    wanted = [item for item in ranges if item[2] < item[3]]
    ends = {(topic, partition): end for topic, partition, _, end in wanted}
    due = {(topic, partition): start for topic, partition, start, _ in wanted}
    if not ends:
        return
    consumer = Consumer({**READER, **settings})
    try:
        consumer.assign([KafkaPartition(topic, partition, start) for topic, partition, start, _ in wanted])
        latest = time.monotonic()
        while ends:
            before_each_batch()
            for message in (batch := consumer.consume(BATCH, 0.2)):
                place, error = (message.topic(), message.partition()), message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    refuse(*place, error)
                    ends.pop(place, None)
                    continue
                if place not in ends:
                    continue
                if message.offset() >= ends[place]:
                    del ends[place]
                elif error is None:
                    if message.offset() < due[place]:
                        raise OffsetsGoneError(
                            f"records were deleted while they were read: {place[0]}[{place[1]}] goes back to offset"
                            f" {message.offset()}"
                        )
                    due[place] = message.offset() + 1
                    yield message
                    if message.offset() + 1 >= ends[place]:
                        del ends[place]
            if batch:
                latest = time.monotonic()  # not before the batch was taken: its taker may be slow
            elif time.monotonic() - latest > IDLE_S:
                names = ", ".join(f"{topic}[{partition}]" for topic, partition in sorted(ends))
                raise TimedOutError(
                    f"no record came of {names} for {IDLE_S:g} s",
                    hint="check that the partition has a leader",
                )
    finally:
        consumer.close()
