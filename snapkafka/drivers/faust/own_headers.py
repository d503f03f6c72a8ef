"""Headers under the name of ours that neither this process nor its peers wrote; the log reports each case once.

A header of the app's own with that name is overwritten and removed. A marker without its header has lost it in
transit: something removes headers there, and no reader of the topic learns of a snapshot by its markers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from snapkafka.wire import headers as wire

if TYPE_CHECKING:
    from .host import Host

logger = logging.getLogger("snapkafka")


class OwnHeaders:
    """Headers named like ours that snapkafka did not write.

    Args:
        host: whose logger is used.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._logged = False
        self._loses: set[str] = set()

    def met(self, header: object, where: str) -> None:
        """Note a header of this name that this process has not made. A copy of ours, as forwarding makes it, has the
        shape of one."""
        if not self._logged and not wire.looks_like_ours(header):
            self._logged = True
            logger.warning(
                "snapkafka: %s a header %s that snapkafka did not write; it is overwritten where this app sends it and"
                " removed where an agent would read it; rename it (docs/guide/risk.md)",
                where,
                wire.HEADER,
                extra=self._host.about(),
            )

    def sent(self, header: object) -> None:
        """Note a header of this name that the app sends."""
        self.met(header, "this app sends")

    def lost(self, topic: str) -> None:
        """Note a marker that came without its header."""
        if topic not in self._loses:
            self._loses.add(topic)
            logger.error(
                "snapkafka: something removes headers on the way to topic %s: a marker arrived without its"
                " header, so no snapshot that reads the topic is VERIFIED; let it pass the header %s"
                " (`snapkafka doctor`)",
                topic,
                wire.HEADER,
                extra=self._host.about(),
            )
