"""What a header means for a record that comes in: markers never pass, and a red record waits until the machine has
decided (R2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from snapkafka.protocol import ChannelEnded, MarkerMet, RecordMet, TopicPartition
from snapkafka.wire import headers as wire

from .process import Process


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one record. `met`: to be fed first; `ended`: after that, a marker; `passes`: to the app."""

    passes: bool
    met: RecordMet | MarkerMet | None = None
    ended: ChannelEnded | None = None


PASSES: Final = Decision(passes=True)
STAYS: Final = Decision(passes=False)


def ended_by(stamp: wire.Stamp, tp: TopicPartition, offset: int) -> ChannelEnded:
    """Return the end of a channel that a marker is."""
    return ChannelEnded(
        tp=tp, offset=offset, sender=stamp.process, epoch=stamp.epoch, previous=stamp.previous
    )


def decide(
    host: Process, tp: TopicPartition, offset: int, key: Any, value: Any, header: bytes | None
) -> Decision:
    """Decide on a record that comes in, as the machine of this process knows what a header means. Never raises."""
    try:
        stamp = None
        if header is not None:
            stamp = wire.read(header, host.ledger_id, wire.tp_check(*tp))
            host.metrics.count("ignored", "foreign-header", stamp is None)
        if stamp is not None:
            return _of_stamp(host, tp, offset, stamp)
    except Exception as error:
        host.stand_down("to record what arrives", error)
    # A marker that lost its header carries no information, and a decoder would fail on it.
    return STAYS if value is None and wire.is_marker_key(key) else PASSES


def _of_stamp(host: Process, tp: TopicPartition, offset: int, stamp: wire.Stamp) -> Decision:
    if stamp.marker:
        host.metrics.count("markers")
        return Decision(False, MarkerMet(epoch=stamp.epoch), ended_by(stamp, tp, offset))
    with host.lock:
        if host.machine.ledger.is_void(stamp.process, tp, offset):
            host.metrics.count("ignored", "before-a-restore")
            return STAYS
        if stamp.epoch > host.machine.colours.epoch:
            return Decision(passes=True, met=RecordMet(epoch=stamp.epoch, may_wait=True))
    return PASSES
