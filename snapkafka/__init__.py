"""Consistent global snapshots of running Faust services on Kafka: a vector of offsets, never a copy.

A service needs two lines::

    import snapkafka
    snapkafka.install(app, namespace="shop")

Names are resolved on first use, so that importing a part (the protocol, the setup) loads nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from snapkafka.version import __version__

if TYPE_CHECKING:
    from snapkafka.drivers.faust import install

__all__ = ["__version__", "install"]

#: Public name -> the module that has it. Imported by string: the root belongs to no layer, and must not tie them.
_WHERE = {"install": "snapkafka.drivers.faust"}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
