"""The demo: the main use, end to end, on real parts: a cycle of two services in which money must never get lost.

Start at `story`; `accounts` and `clearing` are the services, as any user would write them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from .load import Load
    from .settings import CREDITS, PARTITIONS, REQUESTS, TOTAL, TRANSFERS, changelog
    from .story import CHECKED, INVARIANTS
    from .summary import count_money, read_naively
    from .system import open_accounts, running_system
else:
    __getattr__ = lazily(__name__)
