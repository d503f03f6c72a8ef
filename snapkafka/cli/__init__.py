"""The command `snapkafka`: arguments in, tables or --json out. `snapkafka.ops` does the work."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from snapkafka.errors import DependencyMissingError
from snapkafka.lazy import lazily
from snapkafka.runtime.extras import require_extra
from snapkafka.runtime.signals import raise_on_ending_signals

if TYPE_CHECKING:
    from .running import console
    from .screen import Screen
    from .verbs import app
else:
    __getattr__ = lazily(__name__, {"running": "console", "screen": "Screen", "verbs": "app"})


def main() -> None:
    """Run the command; never return."""
    raise_on_ending_signals()
    try:
        require_extra("cli", "the command")
    except DependencyMissingError as error:
        print(f"error: {error.message}\n       {error.hint}", file=sys.stderr)
        sys.exit(error.exit_status)
    from .verbs import app

    app(prog_name="snapkafka")
