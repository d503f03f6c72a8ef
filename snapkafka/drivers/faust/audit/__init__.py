"""The audit: what the tables of a worker hold at its cut, sent for a comparison with their changelogs.

Its parts are imported when a snapshot first asks for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapkafka.protocol.ledger_view import LedgerView


def audited_epochs(ledger: LedgerView, app: Any, previous: int, epoch: int) -> list[int]:
    """Return the epochs of a cut whose triggers ask for an audit of this app."""
    found = []
    for at in sorted(ledger.open):
        view = ledger.snapshots.get(at) if previous < at <= epoch else None
        if (
            view is not None
            and view.trigger.audit
            and (not view.trigger.apps or app.conf.id in view.trigger.apps)
        ):
            found.append(at)
    return found
