"""Describe what a line of the log is about, as fields: any formatter that writes JSON gets them beside the text.

`logger.warning("...", extra=about(epoch=7, snapshot="friday"))` gives the record the attributes `snapkafka_epoch` and
`snapkafka_snapshot`. Every line about a snapshot has both, so that one query of a log store finds what all workers had
to report about it; where one of them is not known it is empty, never missing.
"""

from __future__ import annotations

from typing import Any

__all__ = ["about"]


def about(*, snapshot: str = "", epoch: int | None = None, **more: Any) -> dict[str, Any]:
    """`extra=` of a line that is about a snapshot.

    Args:
        snapshot: its id.
        epoch: its epoch; None: it has none yet.
        more: further fields, without their prefix (`process`, `namespace`, ...).
    """
    fields = {"snapshot": snapshot, "epoch": epoch, **more}
    return {f"snapkafka_{name}": value for name, value in fields.items()}
