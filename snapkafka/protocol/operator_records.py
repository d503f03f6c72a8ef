"""The records of the ledger that tools write for their users: no process of a service writes them."""

from __future__ import annotations

from ._dataclass import value
from .offsets import (
    NOBODY,
    AgentPosition,
    CheckResult,
    LogEnd,
    RestoreStage,
    TopicId,
)


@value
class Retire:
    """App `app` is retired for good: its inputs are expected no more (R10)."""

    process: int = NOBODY
    n: int
    app: str


@value
class Verdict:
    """The result of verification, with the checks that were really run (R13).

    `manifest`: its location. `digest`: of the rows of its tables, in any order. `manifest_sha256`: of the bytes of the
    manifest, in hex; readers of the tables compare it. Empty: written by an earlier release.
    """

    process: int = NOBODY
    n: int
    epoch: int
    verdict: str
    checks: tuple[CheckResult, ...] = ()
    manifest: str = ""
    digest: str = ""
    manifest_sha256: str = ""


@value
class Pause:
    """No snapshots until further notice (`paused`), or again from here on: an off switch without a restart (R15)."""

    process: int = NOBODY
    n: int
    paused: bool


@value
class Restore:
    """A restore of `apps` to snapshot (`snapshot`, `attempt`) of `epoch` reached `stage`.

    `plan` names the restore; only one is open at a time. `author`: the process that re-appends (its `Hello` has the
    mode "restore"), -1 before it joined. A rerun appends `begun` again with a new author, and only the author of the
    latest `begun` can make the plan `done`: that is the commit point. `appending` comes before the first record is
    appended: from then on the plan cannot be aborted. `done` carries the rest, in `parts` chunks numbered from 0.
    `ends`: of every input and changelog partition of these apps, taken before anything was appended: all records below
    are older than the restore. `positions`: per agent and input. `reason`: why it was aborted. `origin`: the topic id
    of the snapshot's ledger where that is another cluster's (empty: it is this one). `replaces`: the open plan that
    this one takes the place of. `topics`: of the ends of a `done` record, with the ids that they had then.
    """

    process: int = NOBODY
    n: int
    plan: str
    stage: RestoreStage
    snapshot: str = ""
    attempt: int = 1
    epoch: int = 0
    apps: tuple[str, ...] = ()
    author: int = NOBODY
    ends: tuple[LogEnd, ...] = ()
    positions: tuple[AgentPosition, ...] = ()
    part: int = 0
    parts: int = 1
    who: str = ""
    reason: str = ""
    origin: str = ""
    replaces: str = ""
    topics: tuple[TopicId, ...] = ()


@value
class Fork:
    """The fork to which this ledger belongs: the restore `plan` creates it from a snapshot of namespace `source`.

    It comes before the first topic is created. `fork`: its name. `apps`: of the source. `expires_ms`: from then on it
    may be removed (ms since 1970; 0: never).
    """

    process: int = NOBODY
    n: int
    plan: str
    fork: str = ""
    source: str = ""
    snapshot: str = ""
    attempt: int = 1
    epoch: int = 0
    apps: tuple[str, ...] = ()
    expires_ms: int = 0
    who: str = ""
