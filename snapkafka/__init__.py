"""Consistent global snapshots of running Faust services on Kafka: a vector of offsets, never a copy.

A service needs two lines::

    import snapkafka
    snapkafka.install(app, namespace="shop")

Names are resolved on first use, so that importing a part (the protocol, the setup) loads nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily
from snapkafka.version import __version__

if TYPE_CHECKING:
    from snapkafka.drivers.faust import install
else:
    #: Imported by string: the root belongs to no layer, and must not tie them.
    __getattr__ = lazily(__name__)

__all__ = ["__version__", "install"]
