"""snapkafka in a Faust service: `snapkafka.install(app, namespace="...")`."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from typing import Any, Final

from snapkafka.config import MODES, Config
from snapkafka.errors import InstallError

__all__ = ["install"]

#: The environment variable that goes before `Config.mode`.
SWITCH: Final = "SNAPKAFKA"
SETTINGS: Final = frozenset(setting.name for setting in fields(Config)) - {"namespace"}


def install(app: Any, namespace: str, **config: Any) -> Any:
    """Let a Faust app take part in snapshots.

    May be called right after `faust.App(...)` or at the end of the module, once per app. What the app sends carries a
    header of 18 to 27 bytes from then on; everything else about the app stays as it was.

    Args:
        app: a `faust.App`.
        namespace: the systems that are snapshotted together share one; it names the ledger `_snapkafka.<namespace>`.
        config: further settings, see `snapkafka.config.Config`.

    Returns:
        The driver, also to be had as `app.snapkafka`: `await app.snapkafka.trigger()` asks for a snapshot. None where
        `enabled=False`, SNAPKAFKA=off or the mode "observe" leaves the app as it is, or the driver cannot be loaded.

    Raises:
        InstallError: the app has snapkafka already, or a setting makes no sense (all of them are named).
    """
    if getattr(app, "snapkafka", None) is not None:
        raise InstallError(
            "snapkafka is installed on this app already", hint="call snapkafka.install once per faust.App"
        )
    switch = os.environ.get(SWITCH, "")
    if switch == "off":
        return (
            None  # whatever else is said: what an earlier or later release does not know is no reason to fail
        )
    if switch and switch not in MODES:
        raise InstallError(f"{SWITCH} is {switch!r}; it can be {', '.join(MODES)}")
    if unknown := sorted(config.keys() - SETTINGS):
        raise InstallError(
            f"there is no setting {', '.join(unknown)}",
            hint=f"those there are: {', '.join(sorted(SETTINGS))}",
        )
    settings = Config(namespace=namespace, **config)
    if switch:
        settings = replace(settings, mode=switch)
    settings.validate()
    if not settings.enabled or settings.mode == "off":
        return None
    if settings.mode == "observe":
        from .looking import look_when_started

        look_when_started(app)
        return None
    from .probe import not_as_expected

    try:
        from .driver import FaustDriver
    except ImportError as error:  # of something that a later aiokafka has elsewhere
        from .aside import cannot_be_loaded

        cannot_be_loaded(app, error)
        return None

    driver = app.snapkafka = FaustDriver(app, settings)
    if found := not_as_expected():
        from .aside import stand_aside

        stand_aside(driver, found)
    else:
        from .seams import sew

        sew(driver)
    return driver
