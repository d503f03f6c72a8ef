"""A note beside the tables on a worker's disk: which inputs they hold effects of, written when the worker stops in
order.

Faust reads no changelog for a store that is complete. A worker that starts on such a store meets no causes, and would
have to report that any event of the inputs may have had effects. So a worker that stops notes up to which offset
events had effects, as far as it knew, and the state of its store files. Opening a store changes its files, with
snapkafka or without, and so does writing to it: the note is valid as long as the files are unchanged.

While a worker runs, its mark takes the place of the note. A worker that finds the mark of another one follows a crash
or shares the disk: then it leaves no note. The same holds for a worker that finds its own mark missing.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

#: (topic check, partition) of an input.
Place = tuple[int, int]

NAME: Final = "snapkafka-tables.json"
VERSION: Final = 1


class StoreNote:
    """The tables on the disk, as they are before any store is opened.

    Attributes:
        noted: whether there is a valid note.
        effects: input -> one past its last event that had effects in the stores; inputs without effects are missing.
        known: the inputs for which `effects` is complete; None: all inputs.

    Args:
        tables: the folder where Faust keeps them.
    """

    def __init__(self, tables: Path) -> None:
        self._tables, self._note = tables, tables.parent / NAME
        self._mine = uuid.uuid4().hex
        self.noted = False
        self.effects: dict[Place, int] = {}
        self.known: frozenset[Place] | None = frozenset()
        found, files = _read(self._note), _files(tables)
        self._alone = "mark" not in found
        if files is None and self._alone:
            self.known = None  # a fresh disk
        elif found.get("version") == VERSION and found.get("files") == files:
            self.effects = {(check, partition): until for check, partition, until in found["effects"]}
            only = found["only"]
            self.known = None if only is None else frozenset((check, partition) for check, partition in only)
            self.noted = True
        self._write({"mark": self._mine})

    def leave(self, effects: Mapping[Place, int], known: Collection[Place] | None) -> None:
        """Write the note. All stores are closed by now."""
        if not self._give_up():
            return
        files = _files(self._tables)
        if self._alone and files is not None:
            rows = [[*place, until] for place, until in sorted(effects.items())]
            only = None if known is None else sorted(known)
            self._write({"version": VERSION, "files": files, "effects": rows, "only": only})

    def leave_nothing(self) -> None:
        """Note that the effects that the stores hold are unknown."""
        self._give_up()

    def _give_up(self) -> bool:
        """Remove the mark. False: it is missing, so another process uses this disk."""
        mine = _read(self._note).get("mark") == self._mine
        if mine:
            self._note.unlink()
        return mine

    def _write(self, said: dict[str, Any]) -> None:
        fresh = self._note.with_suffix(f".{self._mine}")
        fresh.write_text(json.dumps(said), "utf-8")
        fresh.replace(self._note)

    def is_noted(self, table: Any, partition: int) -> bool:
        """Return whether the effects in the store of this partition were known at the start."""
        store = store_of(table, partition)
        return self.noted and store is not None and store.is_relative_to(self._tables)


def store_of(table: Any, partition: int) -> Path | None:
    """Return where a table keeps a partition on disk; None: it lies in memory, or the place is unknown."""
    store = getattr(table.data, "storage", table.data)
    path = getattr(store, "partition_path", None)
    return None if path is None else Path(path(partition))


def _read(note: Path) -> dict[str, Any]:
    try:
        said = json.loads(note.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _files(tables: Path) -> str | None:
    """Hash names, sizes and times of all files below a folder; None: there are none."""
    entries = []
    for path in sorted(tables.rglob("*")):
        if path.is_file():
            status = path.stat()
            entries.append((str(path.relative_to(tables)), status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(entries).encode()).hexdigest() if entries else None
