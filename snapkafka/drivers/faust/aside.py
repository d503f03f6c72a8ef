"""What is left of us where Faust is not the one that we are sewn to: a line in the log, and the pages that say so."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from .web import serve

if TYPE_CHECKING:
    from .driver import FaustDriver

__all__ = ["stand_aside"]

logger = logging.getLogger("snapkafka")


def stand_aside(driver: FaustDriver, found: Sequence[str]) -> None:
    """Leave the app as it is (R15).

    Args:
        found: what is not as expected.
    """
    driver.absent = f"found that faust-streaming {version('faust-streaming')} is not as expected"

    def tell() -> None:
        logger.error(
            "snapkafka: %s (%s); this worker goes on without taking part",
            driver.absent,
            ", ".join(found),
            extra=driver.about(),
        )

    if driver.config.web and hasattr(driver.app, "_new_web"):
        serve(driver)
    if not hasattr(driver.app, "on_start"):
        tell()
        return
    start = driver.app.on_start

    async def started() -> None:
        await start()
        tell()

    driver.app.on_start = started
