"""Fields of log lines that name their subject: any formatter that writes JSON gets them beside the text.

`logger.warning("...", extra=about(epoch=7, snapshot="friday"))` gives the record the attributes `snapkafka_epoch` and
`snapkafka_snapshot`. Every line about a snapshot has both, so that one query of a log store finds the lines of all
workers about it; an unknown one is empty, never missing.
"""

from __future__ import annotations

from typing import Any


def about(*, snapshot: str = "", epoch: int | None = None, **more: Any) -> dict[str, Any]:
    """Return `extra=` for a log line about a snapshot.

    Args:
        snapshot: its id.
        epoch: its epoch; None: it has none yet.
        more: further fields, without their prefix (`process`, `namespace`, ...).
    """
    fields = {"snapshot": snapshot, "epoch": epoch, **more}
    return {f"snapkafka_{name}": value for name, value in fields.items()}
