"""The answers of routes whose content is not one of `ops`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from snapkafka.advice import Advice
from snapkafka.ops import Fork, InvariantInfo, SnapshotInfo, instant
from snapkafka.protocol.ledger_state import Status


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""


class Problem(Answer, frozen=True, omit_defaults=True):
    """An error (RFC 9457). `field`: the field or parameter that is wrong."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    field: str = ""


class Triggered(Answer, frozen=True):
    """A snapshot that was asked for. It goes on by itself, whatever becomes of this service."""

    snapshot_id: str
    status: Status
    initiated_at: str
    estimated_completion_ms: int
    epoch: int
    attempt: int


class Page(Answer, frozen=True):
    """Snapshots, newest first. `next_before`: None on the last page; `total`: from here on, with the filters."""

    namespace: str
    next_before: int | None
    total: int
    snapshots: list[SnapshotInfo]


class Process(Answer, frozen=True):
    """A process that has joined the namespace."""

    process: int
    app: str
    host: str
    pid: int
    mode: str
    release: str
    joined_at: str
    inputs: int
    state: Literal["living", "dead", "left"]


class Processes(Answer, frozen=True):
    """The processes of the namespace."""

    paused: bool
    processes: list[Process]


class Rows(Answer, frozen=True):
    """The result of a query. `more`: there are further rows."""

    snapshot_id: str
    epoch: int
    verdict: str
    columns: list[str]
    rows: list[list[Any]]
    more: bool
    not_compared: list[str]


class Restore(Answer, frozen=True):
    """A restore: its stage, and when it reached each."""

    plan: str
    snapshot_id: str
    epoch: int
    apps: tuple[str, ...]
    stage: str
    initiated_by_node_id: str
    reason: str | None
    begun_at: str | None
    closed_at: str | None


class Restores(Answer, frozen=True):
    """Restores, newest first."""

    restores: list[Restore]


class ForkView(Answer, frozen=True):
    """A second system made from a snapshot. `topics`: their number."""

    fork: str
    namespace: str
    stage: str
    snapshot_id: str
    epoch: int
    plan: str
    apps: tuple[str, ...]
    topics: int
    initiated_by_node_id: str
    created_at: str | None
    expires_at: str | None
    expired: bool


class Forks(Answer, frozen=True):
    """The forks of the namespace."""

    forks: list[ForkView]


class Access(Answer, frozen=True):
    """What this client may do, and where tables may lie."""

    namespace: str
    role: str
    storage_roots: tuple[str, ...]


class Findings(Answer, frozen=True):
    """What `doctor` finds. `apps`: with the number of their running processes."""

    well: bool
    apps: Mapping[str, int]
    findings: tuple[Advice, ...]


class Invariants(Answer, frozen=True):
    """The invariants of the newest snapshots."""

    invariants: list[InvariantInfo]


def fork_view(fork: Fork, now_ms: int) -> ForkView:
    """Describe a fork."""
    return ForkView(
        fork=fork.fork,
        namespace=fork.namespace,
        stage=fork.stage,
        snapshot_id=fork.snapshot,
        epoch=fork.epoch,
        plan=fork.plan,
        apps=fork.apps,
        topics=len(fork.topics),
        initiated_by_node_id=fork.who,
        created_at=instant_of(fork.created_ms),
        expires_at=instant_of(fork.expires_ms),
        expired=fork.expired(now_ms),
    )


def instant_of(ms: int) -> str | None:
    """Format a time as the contract has them; None for 0, which is none or unknown."""
    return instant(ms) if ms else None
