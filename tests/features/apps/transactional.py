"""`processing_guarantee="exactly_once"`: what a service sends to topics that it reads itself leaves in transactions,
on every way, and wherever its tables lie."""

from __future__ import annotations

import os
from typing import Any

from tests.features.apps.common import both_ways, commit_on_signal, count, each, new_app, saw, target, tell

app = new_app(
    processing_guarantee="exactly_once",
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.0,
    broker_commit_interval=float(os.environ.get("FEATURES_COMMIT", "0.4")),
)

exact_mid = target(app, "exact-mid")
exact = app.Table("exact", key_type=str, value_type=int, default=int)


@each(app, "exact")
async def counts(event: Any) -> dict[str, Any]:
    """The table and the topic that is read again are in transactions, the output is not."""
    exact[event.key] += 1
    await exact_mid.send(**saw("exact", event, count=exact[event.key]))
    return {"count": exact[event.key]}


tell(app, "again", of=exact_mid)


rocks_mid = target(app, "rocks-mid")
rocks_out = target(app, "rocks-out")
rocks = app.Table("rocks", key_type=str, value_type=int, default=int, store="rocksdb:rocks")


count(app, "rocks", rocks, out=rocks_mid)
tell(app, "rocks-again", of=rocks_mid, out=rocks_out)


soon_mid = target(app, "soon-mid")
soon_out = target(app, "soon-out")

tell(app, "soon", out=soon_mid, soon=True)
tell(app, "soon-again", of=soon_mid, out=soon_out, soon=True)


both_mid = target(app, "both-mid")
both_out = target(app, "both-out")


both_ways(app, "both", both_mid)  # it reads that topic
tell(app, "both-again", of=both_mid, out=both_out)


commit_on_signal(app)
