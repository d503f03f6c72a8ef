"""Selections: a part of a snapshot to restore, as some apps, tables of an app, or keys of a table.

A part is not a consistent cut: the rest stays as it is now, and has seen effects that the part no longer has. So

* for an *app*, positions and state go back. Records that others have sent to it since are still valid, so the app
  reads them again like external ones; only records of selected apps since the cut are void. Others receive again
  whatever it sends again.
* for a *table*, or *keys* of it, only the state goes back: positions and messages in flight stay as they are.

A plan, its result and its record in the ledger name the part.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from snapkafka.errors import BadInputError, Option, RestoreRefusedError
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import RESTORE, Hello, TopicPartition

from .positions import apps_of, lowest_positions
from .target_facts import Refusal

#: Codecs of keys that can be compared with what a person writes.
KEY_CODECS: Final = ("json", "raw")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The part of a snapshot to restore; empty: all of it. `tables`: by name. `keys`: of the one table, each as JSON
    or as plain text; in a windowed table they stand for all windows."""

    apps: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.apps or self.tables or self.keys)

    @property
    def text(self) -> str:
        """The canonical text of the selection; empty: all."""
        parts = {name: sorted(of) for name, of in dataclasses.asdict(self).items() if of}
        return json.dumps(parts, sort_keys=True) if parts else ""

    def __str__(self) -> str:
        words = [
            f"{name[:-1] if len(of) == 1 else name} {', '.join(of)}"
            for name, of in (("keys", self.keys), ("tables", self.tables), ("apps", self.apps))
            if of
        ]
        return " of ".join(words)

    @property
    def note(self) -> str:
        """The reason why the result is not a consistent cut; empty: it is one."""
        if not self:
            return ""
        if self.tables:
            return (
                f"no consistent cut: only the state of {self} is restored; positions, messages in flight and all else"
                " stay as they are"
            )
        return (
            f"no consistent cut: only {self} is restored; other apps keep what they received from it, and receive"
            " again what it sends again"
        )


ALL: Final = Selection()


def select(captured: Captured, selection: Selection) -> Captured:
    """Reduce a snapshot to the selected part.

    Raises:
        BadInputError: it has no such app or table, the name of a table is not unique, or keys are given without
            exactly one table.
    """
    if not selection:
        return captured
    apps = selection.apps or apps_of(captured)
    _known("app", apps, apps_of(captured))
    here = [cut for cut in captured.changelogs if cut.app in apps]
    if not selection.tables:
        if selection.keys:
            raise BadInputError("--keys needs a table", hint="add --table NAME")
        sent = {view.process for view in captured.processes if view.app in apps}
        return dataclasses.replace(
            captured,
            inputs=tuple(cut for cut in captured.inputs if cut.app in apps),
            changelogs=tuple(here),
            senders=tuple(end for end in captured.senders if end.process in sent),
        )
    _known("table", selection.tables, {cut.table for cut in here})
    for table in selection.tables:
        owners = sorted({cut.app for cut in here if cut.table == table})
        if len(owners) > 1:
            raise BadInputError(
                f"apps {', '.join(owners)} have a table {table}", hint=("choose one by ", Option("app"))
            )
    if selection.keys and len(selection.tables) > 1:
        raise BadInputError("--keys takes one table only", hint="give one --table")
    chosen = tuple(cut for cut in here if cut.table in selection.tables)
    return dataclasses.replace(captured, inputs=(), changelogs=chosen, senders=())


def _known(kind: str, wanted: Iterable[str], there: Iterable[str]) -> None:
    if missing := sorted({*wanted} - {*there}):
        raise BadInputError(
            f"the snapshot has no {kind} {missing[0]}",
            hint=f"it has {', '.join(sorted({*there})) or 'none'}",
        )


# --- Keys -----------------------------------------------------------------------------------------------------------


class SelectedKeys:
    """Keys as a person writes them, compared with keys of changelogs as they are in the log."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._raw = {key.encode() for key in keys}
        self._texts = {form for key in keys for form in _forms(key)}

    def takes(self, cut: ChangelogCut, raw: bytes | None) -> bool:
        """Return whether the key of a record of this changelog is one of them."""
        if raw is None:
            return False
        if cut.key_codec != "json":
            return raw in self._raw
        try:
            value = json.loads(raw)
            if cut.sets:  # [operation, key]
                value = value[1]
            elif cut.windowed:  # [key, [start, end]]
                value = value[0]
        except (ValueError, TypeError, LookupError):
            return False
        return _text(value) in self._texts


def _forms(key: str) -> Iterator[str]:
    """Yield the JSON forms of a key: `42` is the number, or the text; `"42"` is the text alone."""
    yield _text(key)
    try:
        yield _text(json.loads(key))
    except ValueError:
        return


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


# --- What speaks against it -----------------------------------------------------------------------------------------


def refused_parts(
    selection: Selection,
    whole: Captured,
    part: Captured,
    state: LedgerState,
    hellos: Mapping[str, Hello],
    appends: Mapping[TopicPartition, int],
) -> Iterator[Refusal]:
    """Find the reasons not to restore a part, besides those of a whole restore.

    Args:
        whole, part: the snapshot, and its selected part.
        appends: the number of records to append to each input.
    """
    if not selection:
        return
    if selection.keys:
        for cut in part.changelogs[:1]:
            if cut.key_codec not in KEY_CODECS:
                yield Refusal(
                    code="keys-codec",
                    what=f"keys of table {cut.table} are in {cut.key_codec}, which cannot be compared with text",
                    hint="restore the whole table",
                )
    read = {cut.topic for cut in whole.inputs}
    for topic in sorted({cut.topic for cut in part.changelogs} & read - {cut.topic for cut in part.inputs}):
        yield Refusal(
            code="changelog-is-input",
            what=f"topic {topic} is a changelog, and an input of another app",
            hint="its readers would take appended state for new changes: this cannot be restored",
        )
    for tp, position in sorted(lowest_positions(part).items()):
        base = state.restores.bases.get(tp)
        if base is not None and base.end > position:
            yield Refusal(
                code="restored-since",
                what=f"plan {base.plan} has restored {tp} since the snapshot",
                hint="restore all apps of the snapshot, or choose a snapshot taken since",
            )
    apps = apps_of(part)
    for tp, count in sorted(appends.items()):
        others = sorted(
            app
            for app, hello in hellos.items()
            if app not in apps and tp.topic in {source.topic for source in hello.inputs}
        )
        if count and others:
            yield Refusal(
                code="shared-input",
                what=f"app {others[0]} reads {tp}, too, and would receive {count:,} messages again",
                hint=f"restore it with the others (--app {others[0]}), or add --force",
                forceable=True,
            )


def sent_by(
    selection: Selection, whole: Captured, part: Captured, state: LedgerState
) -> Callable[[int], bool] | None:
    """Return a test whether a process is one of the selected apps, or of a restore; None: all apps are selected.

    The test raises RestoreRefusedError for a process that the ledger no longer names.
    """
    if not selection or not part.inputs:
        return None
    apps = {*apps_of(part)}
    known = {view.process: view.app for view in whole.processes}
    restores = {view.author for view in state.restores.views.values()}
    for process, view in state.processes.items():
        known[process] = view.hello.app
        if view.hello.mode == RESTORE:
            restores.add(process)

    def test(process: int) -> bool:
        if process in restores:
            return True
        if process not in known:
            raise RestoreRefusedError(
                f"nothing was changed: the ledger no longer names the app of sender {process} (process-unknown)",
                hint="restore all apps of the snapshot",
            )
        return known[process] in apps

    return test
