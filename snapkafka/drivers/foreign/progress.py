"""The progress of a foreign process in its inputs: received, begun, processed. No I/O.

First offsets per partition: `processed` <= the next valid position <= `received`. `begun` is one past the last record
that it has named as the cause of a send: that send is in the log, so a state without that record cannot belong to the
same instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from snapkafka.errors import BadInputError
from snapkafka.protocol.records import TopicPartition


class Progress:
    """The progress of one process in all its partitions."""

    def __init__(self) -> None:
        self.processed: dict[TopicPartition, int] = {}
        self.received: dict[TopicPartition, int] = {}
        self.begun: dict[TopicPartition, int] = {}

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Start at these positions."""
        self.processed = dict(positions)
        self.received = dict(positions)
        self.begun = dict(positions)

    def receive(self, tp: TopicPartition, offset: int) -> None:
        """Note that the record at an offset is handed to the process, perhaps again."""
        self.received[tp] = max(offset + 1, self.received[tp])

    def merged(self, positions: Iterable[tuple[TopicPartition, int]]) -> dict[TopicPartition, int]:
        """Return the positions of all inputs, updated by these.

        Raises:
            BadInputError: a position is below the processed one, above the received one, of another topic, or named
                twice.
        """
        found: dict[TopicPartition, int] = {}
        for tp, offset in positions:
            self.require_input(tp)
            if tp in found:
                raise BadInputError(f"{tp} has two positions", hint="give one")
            if offset < self.processed[tp]:
                raise BadInputError(
                    f"position {offset} of {tp} is behind {self.processed[tp]}, which was given as processed",
                    hint="positions only go forward",
                )
            if offset > self.received[tp]:
                raise BadInputError(
                    f"position {offset} of {tp} is beyond {self.received[tp]}: no record past that was received",
                    hint="a position is the first offset that is not processed",
                )
            found[tp] = offset
        return self.processed | found

    def of_state(self, positions: Iterable[tuple[TopicPartition, int]]) -> dict[TopicPartition, int]:
        """Return the positions of all inputs that belong to a state.

        Raises:
            BadInputError: see `merged`; or a record past a position is the cause of a send before the state.
        """
        found = self.merged(positions)
        for tp, offset in sorted(found.items()):
            if offset < self.begun[tp]:
                raise BadInputError(
                    f"position {offset} of {tp} leaves out {self.begun[tp] - 1}, the cause of a send before the marker",
                    hint="record the state when its records are processed, and give their positions with it",
                )
        return found

    def require_input(self, tp: TopicPartition) -> None:
        """Refuse a partition that is not an input of the process.

        Raises:
            BadInputError: it is not an input.
        """
        if tp not in self.processed:
            raise BadInputError(
                f"{tp.topic[:100]}[{tp.partition}] is not an input of this process", hint="name it in Join"
            )

    def begins(self, tp: TopicPartition, offset: int) -> bool:
        """Note a record as the cause of a send. False: it is over, or a later one has begun.

        Raises:
            BadInputError: it was not received.
        """
        self.require_input(tp)
        if not 0 <= offset < self.received[tp]:
            raise BadInputError(
                f"the cause {tp}@{offset} was not received", hint="name a record that Receive has handed out"
            )
        if offset < max(self.begun[tp], self.processed[tp]):
            return False
        self.begun[tp] = offset + 1
        return True
