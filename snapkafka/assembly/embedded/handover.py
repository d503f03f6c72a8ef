"""The reason why the embedded engine leaves a snapshot to Spark."""

from __future__ import annotations


class HandOverError(Exception):
    """The embedded engine cannot do this exactly as Spark does; the text names it, for a sentence that ends with it."""
