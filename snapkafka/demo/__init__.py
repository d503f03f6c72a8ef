"""The demo: the main use, end to end, on real parts: a cycle of two services in which money must never get lost.

Start at `story`; `accounts` and `clearing` are the services, as any user would write them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from snapkafka.testing.workers import Worker

    from .load import Load
    from .money import count_money
    from .naive import read_naively
    from .observer import Observer, observing
    from .settings import CREDITS, PARTITIONS, REQUESTS, TOTAL, TRANSFERS, changelog
    from .story import INVARIANTS, assemble, command
    from .system import System, running_system, wait_until
else:
    __getattr__ = lazily(
        __name__,
        {
            "load": "Load",
            "money": "count_money",
            "naive": "read_naively",
            "observer": "Observer observing",
            "settings": "CREDITS PARTITIONS REQUESTS TOTAL TRANSFERS changelog",
            "story": "INVARIANTS assemble command",
            "system": "System Worker running_system wait_until",
        },
    )
