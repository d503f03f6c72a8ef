"""The partition of a record by the partitioners of librdkafka: a stamp names the partition, so it is chosen before."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final
from zlib import crc32

from snapkafka.errors import BadInputError

#: librdkafka's own default.
DEFAULT: Final = "consistent_random"

Partitioner = Callable[[bytes | None, int], int]


def partitioner_of(config: Mapping[str, object]) -> Partitioner:
    """Return the partitioner that a producer with these settings has.

    Raises:
        BadInputError: it is one that only librdkafka has.
    """
    name = str(config.get("partitioner", DEFAULT))
    if name not in PARTITIONERS:
        raise BadInputError(
            f"partitioner {name} is not supported in a participant",
            hint=f"use {', '.join(PARTITIONERS)}, or name the partition of each record",
        )
    return PARTITIONERS[name]


def _murmur2(key: bytes | None, count: int) -> int:
    from aiokafka.partitioner import murmur2

    return (int(murmur2(key or b"")) & 0x7FFF_FFFF) % count


def _any(key: bytes | None, count: int) -> int:
    return random.randrange(count)


#: By librdkafka's names.
PARTITIONERS: Final[Mapping[str, Partitioner]] = {
    "random": _any,
    "consistent": lambda key, count: crc32(key or b"") % count,
    "consistent_random": lambda key, count: crc32(key) % count if key else _any(key, count),
    "murmur2": _murmur2,
    "murmur2_random": lambda key, count: _any(key, count) if key is None else _murmur2(key, count),
}
