"""snapkafka in a Faust service: `snapkafka.install(app, namespace="...")`."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Any, Final, Unpack

from snapkafka.config import SETTINGS, Config, Settings
from snapkafka.errors import ForkIsolationError, InstallError

from .support import at_start, not_as_expected, run_without

#: The environment variable that goes before `Config.mode`.
SWITCH: Final = "SNAPKAFKA"
#: The variable that names the namespace where `install` does not.
NAMESPACE: Final = "SNAPKAFKA_NAMESPACE"
#: The one that makes the process a part of a fork, by its name.
FORK: Final = "SNAPKAFKA_FORK"


def install(app: Any, namespace: str | None = None, **config: Unpack[Settings]) -> Any:
    """Let a Faust app take part in snapshots.

    May be called right after `faust.App(...)` or at the end of the module, once per app. All that the app sends carries
    a header of 18 to 27 bytes from then on; everything else about the app stays as it was. With SNAPKAFKA_FORK=NAME in
    the environment the app is a part of that fork (docs/guide/fork.md).

    Args:
        app: a `faust.App`.
        namespace: the systems that are snapshotted together share one; it names the ledger `_snapkafka.<namespace>`.
            Not given: that of the environment variable SNAPKAFKA_NAMESPACE.
        config: further settings, see `snapkafka.config.Config`.

    Returns:
        The driver, also available as `app.snapkafka`: `await app.snapkafka.trigger()` requests a snapshot. None where
        SNAPKAFKA=off or the mode "off" or "observe" leaves the app as it is, or the driver cannot be loaded.

    Raises:
        InstallError: the app has snapkafka already, there is no namespace, or settings are unknown or invalid.
    """
    if getattr(app, "snapkafka", None) is not None:
        raise InstallError(
            "snapkafka is already installed on this app", hint="call snapkafka.install once per faust.App"
        )
    switch, fork = os.environ.get(SWITCH, ""), os.environ.get(FORK, "")
    namespace = os.environ.get(NAMESPACE) if namespace is None else namespace
    if fork:
        return _install_fork(app, namespace, config, switch, fork)
    # Switched off, a setting that this release does not know is no reason to fail.
    settings = Config(namespace="", mode="off") if switch == "off" else _checked(namespace, config, switch)
    if settings.mode in ("off", "observe"):
        run_without(app, f"the mode of snapkafka is {settings.mode}")
        if settings.mode == "observe":
            from .offline import describe_when_started

            describe_when_started(app)
        return None
    try:
        from .driver import FaustDriver
        from .hooks import install_hooks
        from .web import serve
    except ImportError as error:  # of something that a later aiokafka has elsewhere
        run_without(app, f"its driver cannot be loaded here ({error})", error=True)
        return None
    driver = app.snapkafka = FaustDriver(app, settings)
    if not (found := not_as_expected()):
        install_hooks(driver)
        return driver
    driver.absent = f"found that {', '.join(found)}"
    run_without(app, driver.absent, error=True)
    if settings.web:
        at_start(app, after=partial(serve, driver))
    return driver


def _install_fork(app: Any, namespace: str | None, config: Settings, switch: str, fork: str) -> Any:
    """Install on a part of a fork. Nothing of it fails open: a process that is not isolated does not start, nor one
    without snapkafka, where the starts of agents are not honoured.

    Raises:
        InstallError: says why.
    """
    from snapkafka.protocol.forking import fork_problem, prefixed

    try:
        if problem := fork_problem(fork):
            raise ForkIsolationError(problem)
        settings = _checked(namespace, config, switch)
        if settings.mode in ("off", "observe"):
            raise ForkIsolationError(f"the mode is {settings.mode}")
        settings = replace(
            settings,
            namespace=prefixed(fork, settings.namespace),
            sources=tuple(prefixed(fork, topic) for topic in settings.sources),
        )
        settings.validate()
        if found := not_as_expected():
            raise ForkIsolationError(f"this release of Faust is not supported ({', '.join(found)})")
        from .driver import FaustDriver
        from .fork import become_fork, require_fork
        from .hooks import install_hooks

        become_fork(app, fork)
        driver = app.snapkafka = FaustDriver(app, settings)
        install_hooks(driver)
        if driver.absent:
            raise ForkIsolationError(f"snapkafka {driver.absent}")
    except (ForkIsolationError, ImportError, AttributeError, OSError) as error:
        raise InstallError(
            f"{FORK}={fork}: {getattr(error, 'message', '') or f'this process cannot be isolated ({error})'}",
            hint="a fork runs with snapkafka on, or not at all; leave the variable out for production",
        ) from error
    require_fork(app, fork, settings.namespace)
    return driver


def _checked(namespace: str | None, config: Settings, switch: str) -> Config:
    """Build the settings of an app, and validate them. `switch`: the mode that the environment sets; empty: none.

    Raises:
        InstallError: names all unknown settings, else the first invalid one.
    """
    known: dict[str, Any] = {**config, "mode": switch} if switch else {**config}
    if unknown := sorted(known.keys() - SETTINGS):
        raise InstallError(
            f"unknown settings: {', '.join(unknown)}", hint=f"the settings are {', '.join(sorted(SETTINGS))}"
        )
    settings = Config(namespace=namespace or "", **known)
    if problem := settings.problem():
        hint = f"docs/guide/operators.md describes each setting; {NAMESPACE} sets the namespace, too, {SWITCH} the mode"
        raise InstallError(problem, hint=hint)
    return settings
