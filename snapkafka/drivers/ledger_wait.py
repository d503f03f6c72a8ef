"""The limit of waiting for the ledger: briefly at a start and a rebalance; after a few waits in vain, not at all for a
while (R15). This module has no clock."""

from __future__ import annotations

from typing import Final

#: A start or a rebalance waits for the ledger no longer than this.
LEDGER_WAIT_S: Final = 2.0
#: So many waits in vain, one after the other, ...
EXPIRIES: Final = 3
#: ... and nobody waits for so long.
OPEN_S: Final = 600.0


class LedgerWait:
    """A circuit breaker: closed (waits are allowed), open (they are not), and closed again after a while."""

    def __init__(self) -> None:
        self._in_vain = 0
        self._open_until = float("-inf")

    def seconds(self, now: float) -> float:
        """Return the length of a wait from `now` on (both in seconds, of a monotonic clock)."""
        return LEDGER_WAIT_S if now >= self._open_until else 0.0

    def worn(self, now: float) -> bool:
        """Return whether the last wait was in vain. Then a send, which normally meets only the start, does not wait
        again."""
        return self._in_vain > 0 or now < self._open_until

    def waited(self, now: float, *, in_vain: bool) -> bool:
        """Note the end of a wait; return whether the breaker opens."""
        self._in_vain = self._in_vain + 1 if in_vain else 0
        if self._in_vain < EXPIRIES:
            return False
        self._in_vain, self._open_until = 0, now + OPEN_S
        return True
