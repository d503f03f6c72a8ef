"""Back-off between the attempts of a snapshot: a failed one is repeated as the next attempt of its id, a fresh epoch
(R1).

Nothing of the failed attempt stands in the way. But its cause may last for a while, so each pause is twice the one
before, up to a bound; a share of each is random, so that callers that failed together do not return together.
"""

from __future__ import annotations


def pause_after(attempt: int, share: float, *, first: float, most: float) -> float:
    """Return the pause before the attempt that follows `attempt` (1, 2, ...), in the unit of `first` and `most`.

    Args:
        share: drawn by the caller, in [0, 1): between half of the pause and the whole of it.
    """
    whole = min(first * 2.0 ** min(attempt - 1, 32), most)
    return whole * (0.5 + share / 2)
