"""The records of aligned snapshots (R16), and their result. See `records` for what holds of every record."""

from __future__ import annotations

from ._dataclass import value


@value
class Aligning:
    """A process takes part in an aligned snapshot: it sends to `topics`, of those that apps of the snapshot read."""

    process: int
    n: int
    epoch: int
    topics: tuple[str, ...] = ()


@value
class Outcome:
    """The result of an alignment (R16): `aligned`, no message between its processes was in flight. Otherwise `why`."""

    aligned: bool
    why: str = ""
