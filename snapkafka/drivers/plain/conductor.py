"""The gate in front of the loop: markers never pass, and a red record waits until the machine has decided (R2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from snapkafka.protocol.events import ChannelEnded, MarkerMet, RecordMet
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

if TYPE_CHECKING:
    from .driver import PlainDriver


@dataclass(frozen=True, slots=True)
class Gate:
    """The decision on one record. `met`: to be fed first; `ended`: after that, a marker; `passes`: to the loop."""

    passes: bool
    met: RecordMet | MarkerMet | None = None
    ended: ChannelEnded | None = None


PASSES: Final = Gate(passes=True)
STAYS: Final = Gate(passes=False)


class IncomingRecords:
    """The records that come in.

    Args:
        host: whose machine decides what a header means.
    """

    def __init__(self, host: PlainDriver) -> None:
        self._host = host

    def ask(self, tp: TopicPartition, offset: int, key: Any, value: Any, header: bytes | None) -> Gate:
        """Decide on a record."""
        try:
            return self._ask(tp, offset, key, value, header)
        except Exception as error:
            self._host.stand_down("to record what arrives", error)
            return Gate(passes=not (value is None and wire.is_marker_key(key)))

    def _ask(self, tp: TopicPartition, offset: int, key: Any, value: Any, header: bytes | None) -> Gate:
        if header is None:
            lost = value is None and wire.is_marker_key(key)
            return STAYS if lost else PASSES
        host = self._host
        stamp = wire.read(header, host.stamps.ledger_id, wire.tp_check(*tp))
        if stamp is None:
            host.metrics.foreign_headers += 1
            return STAYS if value is None and wire.is_marker_key(key) else PASSES
        if stamp.marker:
            host.metrics.markers += 1
            ended = ChannelEnded(
                tp=tp,
                offset=offset,
                sender=stamp.process,
                epoch=stamp.epoch,
                previous=stamp.previous,
            )
            return Gate(passes=False, met=MarkerMet(epoch=stamp.epoch), ended=ended)
        with host.lock:
            if host.machine.ledger.is_void(stamp.process, tp, offset):
                host.metrics.void_records += 1
                return STAYS
            if stamp.epoch > host.machine.colours.epoch:
                return Gate(passes=True, met=RecordMet(epoch=stamp.epoch, may_wait=True))
        return PASSES
