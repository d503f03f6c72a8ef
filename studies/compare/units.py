"""Bytes and seconds as people read them; thousands, not 1,024."""

from __future__ import annotations

from typing import Final

BYTES: Final = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def bytes_text(size: float, digits: int = 3) -> str:
    """Format bytes: 1.98 GB, 726 kB, 0."""
    if not size:
        return "0"
    for unit, worth in BYTES:
        if abs(size) >= 0.9995 * worth:
            return f"{_rounded(size / worth, digits)} {unit}"
    return f"{size:.0f} B"


def seconds_text(seconds: float) -> str:
    """Format seconds: 2.03 s, 26.2 ms, 0."""
    if seconds < 1e-5:
        return "0"
    if seconds < 0.9995:
        return f"{_rounded(seconds * 1000, 3)} ms"
    return f"{_rounded(seconds, 3)} s"


def _rounded(value: float, digits: int) -> str:
    """Format `digits` significant digits, never as a power of ten."""
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(0, digits - whole)}f}"
