"""A header of the app's own that has the name of ours: it is overwritten and taken off, and the log reports it once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from snapkafka.wire import headers as wire

if TYPE_CHECKING:
    from .driver import FaustDriver

__all__ = ["OwnHeaders"]

logger = logging.getLogger("snapkafka")


class OwnHeaders:
    """Headers named like ours that snapkafka did not write.

    Args:
        driver: whose logger is used.
    """

    def __init__(self, driver: FaustDriver) -> None:
        self._driver = driver
        self._logged = False

    def met(self, header: object, where: str) -> None:
        """A header of this name was met that this process has not made. Copies of ours, as forwarding makes them, have
        the shape of one."""
        if not self._logged and not wire.looks_like_ours(header):
            self._logged = True
            logger.warning(
                "snapkafka: %s a header %s that snapkafka did not write; it is overwritten where this app sends it and"
                " removed where an agent would read it; rename it (docs/guide/risk.md)",
                where,
                wire.HEADER,
                extra=self._driver.about(),
            )
