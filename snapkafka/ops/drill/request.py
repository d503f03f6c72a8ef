"""The request for a drill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from snapkafka.kafka.ledger.reading import LATEST

from .workers import JOINS_WITHIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRequest:
    """The request for a drill.

    `apps`: the commands that start the workers, one for each app at least; each runs as it is, with `SNAPKAFKA_FORK`.
    `snapshot`: id, epoch or `latest`, the newest good one; `storage`: of its manifest, empty: its place in the ledger.
    `invariants`: SQL to check on both snapshots (V6), where `${prefix:}` is the prefix of the fork's names;
    `parameters`: `name=value` for them, with `topics` and `apps` translated to the fork's names. `until`: SQL that has
    to hold of the fork before it is judged, as for `watch`. `keep`: leave the fork; its workers are ended all the same.
    `timeout_s`: for reaching the predicate, and for processing the messages in flight, each. `joins_within_s`: the time
    within which each command must call `snapkafka.install`; one that does not is ended. `allow`: ports to which the
    commands may open TCP connections of their own; `lock`: forbid them all others; False: `snapkafka.install` alone
    isolates them.
    """

    apps: Sequence[str]
    snapshot: str = LATEST
    storage: str = ""
    invariants: Sequence[str] = ()
    parameters: Sequence[str] = ()
    until: str = ""
    keep: bool = False
    timeout_s: float = 600.0
    joins_within_s: float = JOINS_WITHIN_S
    allow: Sequence[int] = ()
    lock: bool = True
