"""The plan of a recovery: one value that is shown, confirmed, and then run as it is, or not at all.

It pins the snapshot, and lists everything that will be done. Before anything is changed it is computed once more; if
the result differs, the run is refused, and the differences are named.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final, Literal

from snapkafka.errors import ForkRefusedError, PlanChangedError, RestoreRefusedError, SnapkafkaError
from snapkafka.kafka.ledger.reading import LATEST
from snapkafka.manifest import Manifest

from .editing import RuleCount
from .rules import Mask, Suppression
from .topics import NewTopic

#: Differences between two plans that an error names.
NAMED: Final = 5

PlanKind = Literal["in-place", "cluster", "fork"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A reason to refuse a restore. `code` is stable; `forceable`: `--force` overrides it."""

    code: str
    what: str
    hint: str
    forceable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request for a recovery.

    `name`: id, epoch or `latest`, the last good one; in a plan always the id. `storage`: of its manifest; empty: its
    place in the ledger. `suppress`, `masks`: erased keys, and values to replace; `allow_unmatched`: accept rules of
    both that match nothing. `into`: the cluster is another one than the snapshot's. `fork`: the name of a fork that is
    created beside the system; `with_inputs`: it gets the external records since the snapshot, too.
    """

    namespace: str = ""
    name: str = LATEST
    storage: str = ""
    force: bool = False
    suppress: Suppression | None = None
    masks: tuple[Mask, ...] = ()
    allow_unmatched: bool = False
    into: bool = False
    fork: str = ""
    with_inputs: bool = False
    expires_ms: int | None = None

    @property
    def kind(self) -> PlanKind:
        return "fork" if self.fork else "cluster" if self.into else "in-place"


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """The move of an input's readers. `before`: the committed offset of the group (-1: none). `after`: its new
    position; None: after the base, known once that is. `appends`: the number of records that are appended again,
    besides those that producers send until then. `again`: the number of events since the snapshot that run once
    more."""

    app: str
    topic: str
    partition: int
    before: int
    after: int | None
    appends: int = 0
    again: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Irrevocable:
    """Outputs that a recovery cannot undo: records after the cut in a topic that none of its apps reads."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentInput:
    """External records, at most so many, that the apps had still to read at the cut, and that no table holds."""

    topic: str
    partition: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a recovery.

    `plan`: its name. `place`: of the manifest, `digest`: its content. `taken_ms`: when the snapshot was triggered, by
    the ledger's clock (0: unknown). `namespace`, `apps`: by their names in the target. `messages`: in flight, to
    append; `state`: rows, at most; `stored`: external records from the snapshot. `topics`: to be created; `existing`:
    those that exist, and are empty. `absent`: missing external records. `read_again_by`: groups
    that are not restored, and read appended messages once more. `open`: readers that leave the snapshot open.
    `resumes`: the open plan that this one continues; `replaces`: the one that it replaces. `rules`: the
    present matches of each rule about erased keys and of each mask.
    """

    kind: PlanKind
    plan: str
    request: Request
    snapshot: str
    attempt: int
    epoch: int
    verdict: str
    digest: str
    place: str
    namespace: str
    apps: tuple[str, ...]
    taken_ms: int = 0
    moves: tuple[PartitionMove, ...] = ()
    messages: int = 0
    state: int = 0
    topics: tuple[NewTopic, ...] = ()
    existing: tuple[str, ...] = ()
    stored: int = 0
    irrevocable: tuple[Irrevocable, ...] = ()
    absent: tuple[AbsentInput, ...] = ()
    read_again_by: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    resumes: str = ""
    replaces: str = ""
    rules: tuple[RuleCount, ...] = ()

    @property
    def error(self) -> type[SnapkafkaError]:
        """The error of its refusal."""
        return ForkRefusedError if self.kind == "fork" else RestoreRefusedError

    @property
    def again(self) -> int:
        return sum(move.again for move in self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The result of a recovery. `author`: the process that appended. `messages`, `inputs`, `state`: the numbers of
    messages in flight, external records and records of state that were appended. `topics`: the created ones.
    `expires_ms`: of a fork, since 1970; 0: never."""

    plan: Plan
    author: int
    messages: int
    inputs: int
    state: int
    seconds: float
    topics: tuple[str, ...] = ()
    expires_ms: int = 0


def raise_refused(plan: Plan) -> None:
    if plan.refusals:
        what = "nothing was changed: " + "; ".join(f"{item.what} ({item.code})" for item in plan.refusals)
        raise plan.error(what, hint=plan.refusals[0].hint, codes=[item.code for item in plan.refusals])


def raise_changed(confirmed: Plan, now: Plan) -> None:
    found = []
    for name in (field.name for field in fields(Plan) if field.name not in ("plan", "rules")):
        before, after = (_items(getattr(plan, name)) for plan in (confirmed, now))
        gone, new = [it for it in before if it not in after], [it for it in after if it not in before]
        if gone or new:
            found.append(f"{name}: {'; '.join(gone) or 'none'} -> {'; '.join(new) or 'none'}")
    if found:
        more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise PlanChangedError(
            f"nothing was changed: the plan is no longer the one that was confirmed: {'; '.join(found[:NAMED])}{more}"
        )


def _items(value: object) -> list[str]:
    """List what a person has confirmed: not the numbers of records that external producers add meanwhile."""
    return [
        str(replace(it, appends=0, again=0) if isinstance(it, PartitionMove) else it)
        for it in (value if isinstance(value, tuple) else (value,))
    ]


def open_readers(manifest: Manifest) -> tuple[str, ...]:
    if manifest.verdict != "VERIFIED_OPEN":
        return ()
    groups = [entry.group or "groups that cannot be seen" for entry in manifest.open]
    topics = [entry.topic for entry in manifest.external if not entry.declared and entry.mixed]
    return (*groups, *topics, *(f"process {entry.process}" for entry in manifest.outsiders))
