"""Snapshots as JSON. The text of a decided one is cached: a hundred requests a second for it cost little more than
one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from snapkafka.errors import SnapkafkaError
from snapkafka.manifest import RestorableEntry
from snapkafka.protocol.ledger_state import SnapshotView
from snapkafka.query.stored import StoredFiles, stored

from . import answers
from .access import within
from .cache import Kept, Recent
from .ledger_follower import LedgerFollower
from .settings import Settings

#: So many rows, whole answers and manifests' numbers are kept in memory.
ROWS_KEPT: Final = 2_000
WHOLE_KEPT: Final = 100
STORED_KEPT: Final = 2_000
#: A storage that does not answer in this time is taken for one that does not answer, and asked again after that one.
STORAGE_S: Final = 5.0
AGAIN_S: Final = 30.0
FOR_EVER: Final = float("inf")

#: The result that is kept, and all that it follows from.
_Text = tuple[object, str]


class Rows:
    """The cache of texts."""

    def __init__(self, follower: LedgerFollower, settings: Settings) -> None:
        self._follower, self._settings = follower, settings
        self._rows: Recent[int, _Text] = Recent(ROWS_KEPT)
        self._whole: Recent[int, _Text] = Recent(WHOLE_KEPT)
        self._stored: Kept[tuple[str, str], StoredFiles | None] = Kept(
            _read,
            lambda found: (AGAIN_S, FOR_EVER) if found is None else (FOR_EVER, FOR_EVER),
            clock=lambda: follower.clock() / 1_000,
            most=STORED_KEPT,
        )

    def row(self, view: SnapshotView, stored: StoredFiles | None) -> dict[str, Any]:
        """Describe a snapshot in a few numbers, as of now."""
        follower = self._follower
        good = follower.latest_good()
        return answers.row(follower.view(view), stored, latest_good=good, now_ms=follower.clock())

    async def texts(self, views: Sequence[SnapshotView]) -> list[str]:
        """Format the row of each as a JSON object."""
        found = [self._kept(self._rows, view) for view in views]
        missing = [view for view, text in zip(views, found, strict=True) if text is None]
        made = iter(await asyncio.gather(*(self._text(view) for view in missing)))
        return [next(made) if text is None else text for text in found]

    async def _text(self, view: SnapshotView) -> str:
        stored = await self.stored(view)
        text = json.dumps(self.row(view, stored))
        self._keep(self._rows, view, stored, text)
        return text

    async def whole(self, view: SnapshotView, restorable: RestorableEntry | None) -> str:
        """Format everything that is known of a snapshot as a JSON object."""
        if (text := self._kept(self._whole, view, restorable)) is not None:
            return text
        follower = self._follower
        stored = await self.stored(view)
        text = json.dumps(
            answers.detail(
                follower.view(view),
                follower.details(view),
                stored,
                restorable,
                latest_good=follower.latest_good(),
                now_ms=follower.clock(),
            )
        )
        self._keep(self._whole, view, stored, text, restorable)
        return text

    def _kept(self, texts: Recent[int, _Text], view: SnapshotView, *more: object) -> str | None:
        kept = texts.seen(view.epoch)
        return kept[1] if kept is not None and kept[0] == self._basis(view, more) else None

    def _keep(
        self,
        texts: Recent[int, _Text],
        view: SnapshotView,
        stored: StoredFiles | None,
        text: str,
        *more: object,
    ) -> None:
        """Keep the text of a decided snapshot, with the numbers of its manifest: it does not change by itself."""
        basis = self._basis(view, more)
        if basis is not None and (stored is not None or self._place_of(view) is None):
            texts.keep(view.epoch, (basis, text))

    def _basis(self, view: SnapshotView, more: tuple[object, ...]) -> object | None:
        basis = self._follower.basis(view)
        return None if basis is None else (basis, view.epoch == self._follower.latest_good(), *more)

    # -- manifests --------------------------------------------------------------------------------------------

    async def stored(self, view: SnapshotView) -> StoredFiles | None:
        """Return the numbers of its manifest, None if there is none to read."""
        verdict = view.verdict
        place = self._place_of(view)
        if verdict is None or place is None:
            return None
        key = (place, verdict.manifest_sha256 or verdict.digest)
        try:
            return await self._stored.get(key, STORAGE_S)
        except TimeoutError:
            return None

    def _place_of(self, view: SnapshotView) -> str | None:
        """Return the place of the manifest, below a root; None: there is none that may be read."""
        verdict = view.verdict
        if verdict is None or not verdict.manifest:
            return None
        return within(verdict.manifest, self._settings.roots)


async def _read(key: tuple[str, str]) -> StoredFiles | None:
    try:
        return await asyncio.to_thread(stored, key[0])
    except SnapkafkaError:
        return None
