"""The recorder: an ordinary Faust agent on an in-memory channel.

It is handed every marker that the app receives and records the channel's state as an offset range, and it writes what
its process has to report about a cut (`CutReport`, `Closed`) to the ledger. Nothing of the app's own work waits for it;
a snapshot does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from snapkafka.protocol.records import Closed, CutReport

from ..describe import runs_no_agents

if TYPE_CHECKING:
    from snapkafka.protocol.events import ChannelEnded
    from snapkafka.protocol.records import LedgerRecord

    from ..host import Host

__all__ = ["Recorder"]

NAME = "snapkafka.recorder"


class Recorder:
    """Made once the app is configured; takes items from then on.

    Args:
        host: its machine is informed.
        write: appends to the ledger.
    """

    def __init__(self, host: Host, write: Callable[[LedgerRecord], None]) -> None:
        self._host, self._write = host, write
        self._channel: Any = host.app.channel()
        self.agent: Any = host.app.agent(self._channel, name=NAME)(self._record)

    def take(self, item: ChannelEnded | CutReport | Closed) -> None:
        """Hand over without waiting, as `Channel.put` does with one reader and room in its queue.

        A full queue, or a recorder that has not started, fails the snapshot and nothing else. Where Faust runs no
        agents (client-only, producer-only, a worker that is stopping or has crashed) there is no channel to record,
        and the process is waited for all the same: what it has to report goes to the ledger directly.
        """
        if runs_no_agents(self._host.app) or self._host.app.should_stop:
            if isinstance(item, CutReport | Closed):
                self._write(item)
            return
        for reader in self._channel._subscribers:
            if not reader.queue.full():
                reader.queue.put_nowait(item)

    async def _record(self, stream: Any) -> None:
        async for item in stream:
            try:
                if isinstance(item, CutReport | Closed):
                    self._write(item)
                else:
                    self._host.feed(item)
            except Exception as error:
                self._host.stand_down("to record a channel", error)
