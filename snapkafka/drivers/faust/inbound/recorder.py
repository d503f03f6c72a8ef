"""The recorder: an ordinary Faust agent on an in-memory channel.

It gets every marker that the app receives, records the channel's state as an offset range, and writes the reports of
its process about a cut (`Report`) to the ledger. Snapshots wait for it; the app's own work does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from snapkafka.protocol import ChannelEnded, Report

from ..describe import RECORDER, runs_no_agents

if TYPE_CHECKING:
    from ..driver import FaustDriver


class Recorder:
    """The recorder of one app."""

    def __init__(self, driver: FaustDriver) -> None:
        self._driver = driver
        self._channel: Any = driver.app.channel()
        driver.app.agent(self._channel, name=RECORDER)(self._record)

    def take(self, item: ChannelEnded | Report) -> None:
        """Hand an item over without waiting, as `Channel.put` does with one reader and room in its queue.

        A full queue, or a recorder that has not started, fails the snapshot and nothing else. Where Faust runs no
        agents (client-only, producer-only, a worker that is stopping or has crashed) there is no channel to record,
        but snapshots still wait for the process: its reports go to the ledger directly.
        """
        app = self._driver.app
        if runs_no_agents(app) or app.should_stop:
            if isinstance(item, Report):
                self._driver.write(item)
            return
        for reader in self._channel._subscribers:
            if not reader.queue.full():
                reader.queue.put_nowait(item)

    async def _record(self, stream: Any) -> None:
        async for item in stream:
            does: Any = self._driver.write if isinstance(item, Report) else self._driver.feed
            self._driver.note("to record a channel", does, item)
