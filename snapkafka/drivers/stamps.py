"""The bytes of `_sk` for what this process sends: the constant parts are computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.wire import headers as wire

if TYPE_CHECKING:
    from snapkafka.protocol import WorkerProtocol
    from snapkafka.protocol.actions import SendMarkers
    from snapkafka.protocol.colours import Effect
    from snapkafka.protocol.records import TopicPartition


class Stamps:
    """Stamps of one process on one ledger.

    Args:
        machine: knows the process id.
        with_cause: stamp the event that a record comes from (8 bytes more).
    """

    def __init__(self, machine: WorkerProtocol, *, with_cause: bool) -> None:
        self._machine = machine
        self._with_cause = with_cause
        self.ledger_id = 0

    def of(self, check: int, effect: Effect, seq: int) -> bytes:
        """Return the stamp of a record: 18 bytes, 27 with the cause. `check` is `wire.tp_check` of its
        partition."""
        process = self._machine.process
        assert process is not None
        epoch, cause, _, _ = effect
        if cause is None or not self._with_cause:
            return wire.stamp(self.ledger_id, check, epoch, process, seq)
        _, (topic, partition), offset, _ = cause
        return wire.stamp_with_cause(
            self.ledger_id, check, epoch, process, seq, wire.topic_check(topic), partition, offset
        )

    def marker(self, tp: TopicPartition, action: SendMarkers, seq: int) -> bytes:
        """Return the stamp of a marker, 22 bytes: it names the epochs from which and to which its sender turned."""
        assert self._machine.process is not None
        return wire.marker(
            self.ledger_id,
            wire.tp_check(tp.topic, tp.partition),
            action.epoch,
            self._machine.process,
            seq,
            action.previous,
        )
