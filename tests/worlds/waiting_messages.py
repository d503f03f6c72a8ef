"""Messages in flight of several ages, for both engines: which of them the invariant `delivered_within` finds."""

from __future__ import annotations

from typing import Final

TRIGGERED_S: Final = 1_795_000_000
#: The topic of each, and the milliseconds since 1970 at which it was written; None: unknown.
WAITING: Final[list[tuple[str, int | None]]] = [
    ("pay", TRIGGERED_S * 1_000 - 1_000),
    ("pay", TRIGGERED_S * 1_000 - 30_001),
    ("pay", TRIGGERED_S * 1_000 - 30_000),
    ("mail", TRIGGERED_S * 1_000 - 90_000),
    ("mail", None),
]
#: Parameters, and the topics and offsets that are found.
DELIVERED: Final[list[tuple[dict[str, str], list[tuple[str, int]]]]] = [
    ({"seconds": "30"}, [("mail", 3), ("mail", 4), ("pay", 1)]),
    ({"seconds": "60"}, [("mail", 3), ("mail", 4)]),
    ({"seconds": "30", "topics": "pay,other"}, [("pay", 1)]),
    ({"seconds": "90", "topics": "pay"}, []),
]
