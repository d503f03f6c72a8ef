"""The two services of the scenarios, in terms of no library: what comes in, what a table becomes, what is sent.

The spender pays as many coins as a tick says, and gets change; the keeper keeps them, and returns one of each three.
Both begin with nothing, so in every consistent state cash, purses and coins in flight add up to nothing. An aligned
snapshot needs a system without a cycle: one way, there is no change.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Final, Literal, Protocol
from zlib import crc32

Role = Literal["spender", "keeper"]
PARTITIONS: Final = 2
#: One way the keeper takes so long for a record: some are in flight.
SLOW_S: Final = 0.005


def partition_of(key: str) -> int:
    """The partition of a key in every topic: the libraries have partitioners of their own."""
    return crc32(key.encode()) % PARTITIONS


class Purse(Protocol):
    """A table of any library, whose values are numbers of coins."""

    def __getitem__(self, key: str) -> int: ...

    def __setitem__(self, key: str, value: int) -> None: ...


@dataclass(frozen=True)
class Names:
    """The names of one run."""

    run: str
    one_way: bool = False

    @property
    def ticks(self) -> str:
        return f"{self.run}-ticks"

    @property
    def coins(self) -> str:
        return f"{self.run}-coins"

    @property
    def change(self) -> str:
        return f"{self.run}-change"

    def app(self, role: str) -> str:
        return f"{self.run}-{role}"

    def inputs(self, role: Role) -> list[str]:
        if role == "spender":
            return [self.ticks] if self.one_way else [self.ticks, self.change]
        return [self.coins]

    def table(self, role: Role) -> str:
        return "cash" if role == "spender" else "purses"

    @classmethod
    def from_environment(cls) -> Names:
        return cls(os.environ["CONFORMANCE_RUN"], one_way=bool(os.environ["CONFORMANCE_ONE_WAY"]))


def sought(value: bytes) -> int | None:
    """Return where a loop goes on by itself after this value; None: at the next record. No ticks make such coins."""
    return -int(value) if int(value) < 0 else None


def process(
    names: Names, role: Role, topic: str, key: str, coins: int, purse: Purse
) -> tuple[str, int] | None:
    """Change the table for a record; return the topic and the coins to be sent, if any."""
    if role == "spender":
        purse[key] += -coins if topic == names.ticks else coins
        return (names.coins, coins) if topic == names.ticks else None
    purse[key] += coins
    if names.one_way:
        time.sleep(SLOW_S)
        return None
    if purse[key] % 3:
        return None
    purse[key] -= 1
    return names.change, 1
