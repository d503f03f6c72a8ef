"""The recorder: an ordinary Faust agent on an in-memory channel.

It gets every marker that the app receives, records the channel's state as an offset range, and writes the reports of
its process about a cut (`CutReport`, `Closed`) to the ledger. Snapshots wait for it; the app's own work does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from snapkafka.protocol.records import Closed, CutReport

if TYPE_CHECKING:
    from snapkafka.protocol.events import ChannelEnded

    from .driver import FaustDriver

__all__ = ["Recorder", "runs_no_agents"]

NAME = "snapkafka.recorder"


def runs_no_agents(app: Any) -> bool:
    """Return whether the app is client-only or producer-only: then it has no consumer group and reads no inputs."""
    return bool(app.client_only or app.producer_only)


class Recorder:
    """The recorder of one app. It is created once the app is configured, and takes items from then on.

    Args:
        driver: feeds the machine and owns the ledger.
    """

    def __init__(self, driver: FaustDriver) -> None:
        self._driver = driver
        self._channel: Any = driver.app.channel()
        self.agent: Any = driver.app.agent(self._channel, name=NAME)(self._record)

    def take(self, item: ChannelEnded | CutReport | Closed) -> None:
        """Hand an item over without waiting, as `Channel.put` does with one reader and room in its queue.

        A full queue, or a recorder that has not started, fails the snapshot and nothing else. Where Faust runs no
        agents (client-only, producer-only, a worker that is stopping or has crashed) there is no channel to record,
        but snapshots still wait for the process: its reports go to the ledger directly.
        """
        if runs_no_agents(self._driver.app) or self._driver.app.should_stop:
            if isinstance(item, CutReport | Closed):
                self._driver.append(item)
            return
        for reader in self._channel._subscribers:
            if not reader.queue.full():
                reader.queue.put_nowait(item)

    async def _record(self, stream: Any) -> None:
        async for item in stream:
            try:
                if isinstance(item, CutReport | Closed):
                    self._driver.append(item)
                else:
                    self._driver.feed(item)
            except Exception as error:
                self._driver.stand_down("to record a channel", error)
