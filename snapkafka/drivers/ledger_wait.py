"""How long a service waits for the ledger: at a start and a rebalance, a little; after it was in vain a few times, not
at all for a while (R15). Nothing here knows the time by itself."""

from __future__ import annotations

from typing import Final

__all__ = ["Patience"]

#: A start or a rebalance waits for the ledger no longer than this.
LEDGER_WAIT_S: Final = 2.0
#: So many waits in vain, one after the other, ...
EXPIRIES: Final = 3
#: ... and nobody waits for so long.
OPEN_S: Final = 600.0


class Patience:
    """A breaker: closed (one waits), open (one does not), and closed again after a while."""

    def __init__(self) -> None:
        self._in_vain = 0
        self._open_until = float("-inf")

    def seconds(self, now: float) -> float:
        """How long to wait, from `now` on (seconds of any clock that does not jump)."""
        return LEDGER_WAIT_S if now >= self._open_until else 0.0

    def worn(self, now: float) -> bool:
        """Was the last wait in vain? Then a send, which only meets the start, does not begin another."""
        return self._in_vain > 0 or now < self._open_until

    def waited(self, now: float, *, in_vain: bool) -> bool:
        """A wait is over. Does the breaker open?"""
        self._in_vain = self._in_vain + 1 if in_vain else 0
        if self._in_vain < EXPIRIES:
            return False
        self._in_vain, self._open_until = 0, now + OPEN_S
        return True
