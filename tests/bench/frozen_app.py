"""A service of the demo that freezes its objects for the garbage collection, and thaws them, by signals."""

from __future__ import annotations

import gc
import os
import signal
from importlib import import_module
from typing import Any, Final

FREEZE: Final = signal.SIGRTMIN
THAW: Final = signal.SIGRTMIN + 1


def _freeze(*_: object) -> None:
    gc.collect()
    gc.freeze()


def _thaw(*_: object) -> None:
    gc.unfreeze()
    gc.collect()


if name := os.environ.get("FROZEN_APP"):  # else the bench imports it, for the signals
    signal.signal(FREEZE, _freeze)
    signal.signal(THAW, _thaw)
    app: Any = import_module(f"snapkafka.demo.{name}").app
