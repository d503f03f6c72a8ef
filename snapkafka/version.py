"""The version of this release: one constant, for those who cannot import the root package."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
