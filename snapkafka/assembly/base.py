"""The base of an incremental snapshot, and whether it is usable: determined from manifests and files, before any
work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from snapkafka.checks import KINDS, CutView, Keeping, LogBounds, bounds_findings, witness_of
from snapkafka.checks.verdict import GOOD
from snapkafka.errors import BadInputError, OffsetsGoneError, StorageError, UnknownSnapshotError
from snapkafka.manifest import LedgerEntry, Manifest, ParentEntry, state_table
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut, SenderEnd
from snapkafka.protocol.records import TopicPartition
from snapkafka.store import Store, require_state, state_parents

from .rows import changelogs_by_place

FULL: Final = "take a full snapshot"
#: Kinds of findings by which tables would lack rows.
LACKS: Final = ("recreated", "gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The base of an incremental snapshot.

    `parts`: the snapshots that make up its parent's state, oldest first; the last is the parent. `starts`: the offset
    in each changelog at which its delta begins. Everything below was white for the parent already; from there to the
    parent's end, white and red records are mixed, and records that were red for the parent can be white for the child.
    `seams`: the last record of the parent's state, if it is known to be from a living process.
    """

    parts: tuple[Manifest, ...]
    starts: Mapping[TopicPartition, int]
    seams: Mapping[TopicPartition, SenderEnd]

    @property
    def parent(self) -> Manifest:
        return self.parts[-1]

    def entries(self) -> tuple[ParentEntry, ...]:
        """Return the entries for the manifest of the child."""
        return tuple(
            ParentEntry(id=part.id, epoch=part.epoch, path=table.path, digest=table.digest)
            for part, table in zip(self.parts, map(state_table, self.parts), strict=True)
        )


def base_or_whole(
    store: Store, captured: Captured, ledger: LedgerEntry, *, isolation: str
) -> tuple[Base | None, str]:
    """Return the base of a snapshot. An incremental one that cannot build on its parent has none, and its whole state
    is read: the second item is the reason.

    Args:
        ledger: of the snapshot.
        isolation: how its log will be read.

    Raises:
        UnknownSnapshotError, BadInputError, StorageError: it cannot build on its parent, and it is assembled already:
            others may build on its rows.
    """
    if captured.type != "incremental":
        return None, ""
    try:
        parent = store.read(captured.parent)
        if why := next(_obstacles(captured, parent, ledger, isolation), ""):
            raise BadInputError(f"snapshot {captured.id} cannot build on {parent.id}: {why}", hint=FULL)
        parts = (*state_parents(store, parent), parent)
        for part in parts:
            require_state(store, part, hashed=True)
    except (UnknownSnapshotError, BadInputError, StorageError) as error:  # no such parent, or an unfit one
        if store.has(captured.id):
            raise
        return None, error.message
    starts = _starts(captured, parent)
    return Base(parts=parts, starts=starts, seams=_seams(parent, starts)), ""


def view_on(base: Base | None, view: CutView, triggered_ms: int) -> CutView:
    """Return a snapshot with the parts of its changelogs that `base` stands for.

    Args:
        triggered_ms: when the snapshot was triggered, milliseconds since 1970; 0: unknown.
    """
    if base is None:
        return view
    bounds = view.bounds and {tp: _since_parent(base, tp, it, triggered_ms) for tp, it in view.bounds.items()}
    return CutView(view.captured, bounds, base.starts, base.seams)


def _since_parent(base: Base, tp: TopicPartition, now: LogBounds, triggered_ms: int) -> LogBounds:
    """Add the retention of a changelog since the parent's cut: none, if the settings of then, or the time of the cut,
    are unknown."""
    keeping, before_ms = now.keeping, base.parent.ledger.triggered_ms
    if tp not in base.starts or keeping is None:
        return now
    since = Keeping(age_ms=keeping.age_ms)
    then = next((item for item in base.parent.captured.retention if item.topic == tp.topic), None)
    if then is not None and triggered_ms >= before_ms > 0:
        since = Keeping(
            age_ms=keeping.age_ms + triggered_ms - before_ms,
            uncompacted_ms=min(keeping.uncompacted_ms, then.uncompacted_ms),
            tombstones_ms=min(keeping.tombstones_ms, then.tombstones_ms),
        )
    return replace(now, keeping=replace(keeping, since_parent=since))


def _obstacles(captured: Captured, parent: Manifest, ledger: LedgerEntry, isolation: str) -> Iterator[str]:
    if parent.ledger.topic_id != ledger.topic_id:
        yield "it belongs to another ledger"
    if parent.epoch >= captured.epoch:
        yield f"it is not older (epoch {parent.epoch}, and {captured.epoch})"
    if parent.verdict not in GOOD:
        yield f"it is {parent.verdict}"
    if parent.isolation != isolation:
        yield f"it was read with {parent.isolation}, and not with {isolation}"
    ours, settled = changelogs_by_place(captured), _settled(parent)
    for place, theirs in changelogs_by_place(parent.captured).items():
        what = f"table {theirs.table} of app {theirs.app} (changelog {theirs.topic}[{theirs.partition}])"
        mine = ours.get(place)
        if mine is None:
            yield f"{what} is not part of {captured.id}"
        elif mine.topic_id and theirs.topic_id and mine.topic_id != theirs.topic_id:
            yield f"{what}: the topic was deleted and recreated"
        elif _form(mine) != _form(theirs):
            yield f"{what} has changed its codecs or its kind"
        elif mine.end < theirs.end:
            yield f"{what} ends at offset {mine.end}, and at {theirs.end} in the parent"
        elif (offset := settled.get(TopicPartition(theirs.topic, theirs.partition), 0)) > theirs.end:
            yield f"{what} ends at offset {theirs.end}, and the delta begins only at {offset}"


def _form(cut: ChangelogCut) -> tuple[str, str, bool, bool]:
    """Return the form of its records."""
    return cut.key_codec, cut.value_codec, cut.sets, cut.windowed


def _starts(captured: Captured, parent: Manifest) -> dict[TopicPartition, int]:
    """Return the starts of the delta; a changelog of sets, and one that is new to some table, is read as a whole."""
    settled = _settled(parent)
    new = changelogs_by_place(captured).keys() - changelogs_by_place(parent.captured).keys()
    whole = {TopicPartition(topic, partition) for _, _, topic, partition in new}
    sets = {TopicPartition(cut.topic, cut.partition) for cut in captured.changelogs if cut.sets}
    return {tp: 0 if tp in whole else offset for tp, offset in settled.items() if tp not in sets}


def _settled(parent: Manifest) -> dict[TopicPartition, int]:
    return {
        TopicPartition(it.topic, it.partition): it.settled for it in parent.logs if it.settled is not None
    }


def _seams(parent: Manifest, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, SenderEnd]:
    """Return the last white record below the end of each changelog of the base."""
    ends = {
        TopicPartition(cut.topic, cut.partition): cut.end
        for cut in changelogs_by_place(parent.captured).values()
    }
    found: dict[TopicPartition, SenderEnd] = {}
    for sender in sorted(parent.captured.senders, key=lambda sender: sender.white_end):
        tp = TopicPartition(sender.topic, sender.partition)
        if tp in starts and sender.last_seq >= 0 and sender.white_end <= ends[tp]:
            found[tp] = sender
    return found


def require_offsets(view: CutView) -> None:
    """Refuse to assemble a snapshot whose records were deleted: its tables would lack rows without showing it.

    Raises:
        OffsetsGoneError: records that the tables need have been deleted, or their topic was.
    """
    assert view.bounds is not None, "what the log holds has to be known"
    name = f"snapshot {view.captured.id} needs"
    for finding in bounds_findings(view):
        if finding.kind.partition("-")[0] in LACKS and finding.kind != "gone-left":
            what, why = witness_of(finding).what, KINDS[finding.kind].why
            raise OffsetsGoneError(f"{name} {finding.topic}[{finding.partition}]: {what}", hint=why)
    for tp, changelogs in sorted(view.changelogs.items()):
        begins, end = view.log_start(tp), min(changelog.end for changelog in changelogs)
        if (start := min(view.starts.get(tp, end), end)) < begins:
            raise OffsetsGoneError(
                f"{name} {tp} from offset {start}, but its log now starts at {begins}",
                hint=f"{FULL}, and assemble those that build on it sooner",
            )
