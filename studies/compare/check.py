"""The check that a recorded snapshot is a consistent global state, from its bytes and the true history alone.

The recorded image of a process reports how many messages it had sent and received on each channel; the history states
which those were. So for each channel: nothing was received that had not been sent (the cut is consistent), and the
recorded messages are those sent and not received, each once. And the sum of the money is right. No method is asked
about its work.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from .methods.base import Snapshot
from .process import START_BALANCE
from .world import World

_SLOT: Final = Struct("<q")
_TRANSFER: Final = Struct("<qq")


def problems(world: World, snapshot: Snapshot) -> list[str]:
    """List what is wrong with the snapshot, a sentence each; empty if it is a consistent state of this run."""
    missing = [f"no state of process {p.number}" for p in world.processes if p.number not in snapshot.states]
    if missing:
        return missing
    found: list[str] = []
    under_way = 0
    for channel in world.channels:
        sender, receiver = snapshot.states[channel.sender.number], snapshot.states[channel.receiver.number]
        sent = set(channel.sent[: _slot(sender, channel.sent_slot)])
        received = set(channel.received[: _slot(receiver, channel.received_slot)])
        recorded = list(_messages(snapshot.channels.get(channel.number, b""), world.load.message_bytes))
        under_way += sum(amount for _, amount in recorded)
        numbers = [number for number, _ in recorded]
        name = f"channel {channel.sender.number}->{channel.receiver.number}"
        if early := received - sent:
            found.append(f"{name}: {len(early)} messages were received before they were sent")
        if lost := sent - received - set(numbers):
            found.append(f"{name}: {len(lost)} messages under way were not recorded")
        if extra := len(numbers) - len((sent - received) & set(numbers)):
            found.append(f"{name}: {extra} messages were recorded that were not under way")
    money = under_way + sum(_slot(image, -1) for image in snapshot.states.values())
    total = START_BALANCE * len(world.processes)
    if money != total:
        found.append(f"the snapshot holds {money}, there is {total}")
    return found


def _slot(image: bytes, slot: int) -> int:
    """Read a counter of the image; -1: the balance."""
    value: int = _SLOT.unpack_from(image, 8 * (1 + slot))[0]
    return value


def _messages(data: bytes, size: int) -> Iterator[tuple[int, int]]:
    assert len(data) % size == 0, "whole messages"
    for at in range(0, len(data), size):
        yield _TRANSFER.unpack_from(data, at)
