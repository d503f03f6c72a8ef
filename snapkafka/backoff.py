"""A snapshot that failed can be asked for again: as the next attempt of its id, a fresh epoch (R1).

Nothing of the failed one stands in the way. All that made it fail may last for a while, though, so the pauses in
between grow twofold up to a bound; a share of each is random, so that those who failed together do not return together.
"""

from __future__ import annotations

__all__ = ["pause_after"]


def pause_after(attempt: int, share: float, *, first: float, most: float) -> float:
    """How long to wait before the attempt that follows `attempt` (1, 2, ...), in the unit of `first` and `most`.

    Args:
        share: drawn by the caller, in [0, 1): between half of the pause and the whole of it.
    """
    whole = min(first * 2.0 ** min(attempt - 1, 32), most)
    return whole * (0.5 + share / 2)
