"""confluent-kafka's consumer with the hooks that a participant needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition

from snapkafka.errors import BadInputError
from snapkafka.protocol.records import TopicPartition as OurPartition

from ..reading import UNKNOWN, Moved
from .participant import READ_AROUND, READ_BY, HeldInputs

#: While something is held back, one call takes no longer.
HELD_POLL_S: Final = 0.02


class Consumer(confluent_kafka.Consumer):
    """`confluent_kafka.Consumer`; outside of a participant it does what that does.

    Attributes:
        config: its settings, which may come as a mapping, or as keywords.
        held: what its participant holds back; None: no participant reads it.
        moved: called where a position moves without a record.
    """

    def __init__(self, config: Mapping[str, Any], **more: Any) -> None:
        super().__init__(dict(config), **more)
        self.config = {**config, **more}
        self.held: HeldInputs | None = None
        self.moved: Moved | None = None
        self._sought: dict[tuple[str, int], int] = {}  # what librdkafka has no position of
        self._next: dict[OurPartition, int] = {}  # what is to come
        self._to_bound: set[OurPartition] = set()  # sought to the start or end of the log, wherever that is

    def plainly(self, timeout_s: float) -> Any:
        """Read a record, as confluent-kafka does, from all inputs but those that are held back."""
        self._hold_back()
        message = super().poll(min(timeout_s, HELD_POLL_S) if self.held else timeout_s)
        if self._sought and message is not None:
            self._sought.pop((message.topic(), message.partition()), None)
        return message

    def put_back(self, tp: OurPartition, offset: int) -> None:
        """Read a record again, once its partition is not held back any more."""
        self._hold_back()
        super().seek(TopicPartition(tp.topic, tp.partition, offset))
        self._sought[tp] = self._next[tp] = offset

    def _hold_back(self) -> None:
        if self.held is not None:
            self.held.apply(pause=self._pause, resume=self._resume)

    def _pause(self, tps: list[OurPartition]) -> None:
        super().pause([TopicPartition(*tp) for tp in tps])

    def _resume(self, tps: list[OurPartition]) -> None:
        super().resume([TopicPartition(*tp) for tp in tps])

    def seek(self, partition: TopicPartition) -> None:
        """Seek; see `confluent_kafka.Consumer.seek`. What librdkafka itself has passed is no record: it is the end of a
        transaction, or was aborted."""
        tp, to = OurPartition(partition.topic, partition.partition), partition.offset
        due, (passed,) = self._next.get(tp), super().position([TopicPartition(*tp)])
        super().seek(partition)
        self._sought.pop(tp, None)
        if self.moved is not None and to >= 0:
            self.moved(tp, due if due is None else max(due, passed.offset), to, "sought")
            self._next[tp] = to
        elif to < 0:
            self._to_bound.add(tp)

    def starts(self, partitions: list[TopicPartition]) -> None:
        """Note where reading starts after an assignment."""
        self._to_bound.clear()
        self._next = {OurPartition(tp.topic, tp.partition): tp.offset for tp in partitions if tp.offset >= 0}

    def came(self, tp: OurPartition, offset: int) -> None:
        """Note a record that was read. What should have come before it was lost, unless the log still has it:
        compaction and transactions leave gaps. librdkafka resets a position by itself, and tells nobody; but it knows
        where the log began when the record was fetched."""
        due, self._next[tp] = self._next.get(tp, offset), offset + 1
        if self.moved is None:
            return
        if tp in self._to_bound:
            self._to_bound.remove(tp)
            self.moved(tp, due, offset, "sought")
        elif offset > due:
            begins, _ = super().get_watermark_offsets(TopicPartition(*tp), cached=True)
            if begins > offset or begins < 0:
                self.moved(tp, UNKNOWN, offset, "lost")
            elif begins > due:
                self.moved(tp, due, begins, "lost")

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the positions; that of a record that is held back is its offset."""
        found: list[TopicPartition] = super().position(partitions)
        for tp in found if self._sought else ():
            tp.offset = self._sought.get((tp.topic, tp.partition), tp.offset)
        return found

    def commit(self, *arguments: Any, **more: Any) -> Any:
        """Commit; see `confluent_kafka.Consumer.commit`. Without offsets, no record that is held back is committed."""
        stores = str(self.config.get("enable.auto.offset.store", "true")).lower() != "false"
        if self._sought and stores and not (arguments or {"message", "offsets"} & more.keys()):
            more["offsets"] = [tp for tp in self.position(self.assignment()) if tp.offset >= 0]
        return super().commit(*arguments, **more)

    def poll(self, *arguments: Any, **more: Any) -> Any:
        """Read a record; outside of a participant only."""
        self._require_free()
        return super().poll(*arguments, **more)

    def consume(self, *arguments: Any, **more: Any) -> Any:
        """Read some records; see `poll`."""
        self._require_free()
        return super().consume(*arguments, **more)

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Pause partitions; see `confluent_kafka.Consumer.pause`."""
        if self.held is not None:
            self.held.paused_by_loop(OurPartition(tp.topic, tp.partition) for tp in partitions)
        super().pause(partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Resume partitions, those that are held back as soon as they are let go."""
        if self.held is not None:
            held = self.held.resumed_by_loop(OurPartition(tp.topic, tp.partition) for tp in partitions)
            partitions = [tp for tp in partitions if (tp.topic, tp.partition) not in held]
        super().resume(partitions)

    def resume_all(self) -> None:
        """Resume what was paused here: the inputs are revoked."""
        self._sought.clear()
        if self.held is not None and (paused := self.held.forget()):
            self._resume(paused)

    def _require_free(self) -> None:
        if self.held is not None:
            raise BadInputError(READ_AROUND, hint=READ_BY)
