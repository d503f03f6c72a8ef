"""Parts of README that tests run: its service, and the commands that it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def text() -> str:
    """Return README."""
    return (ROOT / "README.md").read_text("utf-8")


def service() -> str:
    """Return the source of the service that README shows."""
    (found,) = re.findall(r"```python\n(.+?)```", text(), re.DOTALL)
    return str(found)


def commands() -> list[str]:
    """Return the `snapkafka` commands that README shows, each as one string for a shell."""
    return re.findall(r'^\$ (snapkafka (?:[^"\n]|"(?:\\"|[^"])*")+)', text(), re.MULTILINE)
