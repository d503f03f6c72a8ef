"""The names of `cycling`, for who does not run it."""

from typing import Final

PARTITIONS: Final = 2
TOPICS: Final = ("work", "ping", "pong", "out")
#: App (without the prefix) and table.
TABLES: Final = (
    ("left", "counts"),
    ("left", "back"),
    ("left", "seen"),
    ("left", "windows"),
    ("right", "sums"),
)
WINDOW_S: Final = 5.0
