"""The command `snapkafka`: arguments in, tables or --json out. `snapkafka.ops` does the work."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from snapkafka.errors import DependencyMissingError, OutputError, SnapkafkaError
from snapkafka.lazy import lazily
from snapkafka.runtime.extras import require_extra
from snapkafka.runtime.signals import raise_on_ending_signals

if TYPE_CHECKING:
    from .running import console
    from .screen import Screen
    from .verbs import app
else:
    __getattr__ = lazily(__name__)


def main() -> None:
    """Run the command; never return."""
    raise_on_ending_signals()
    failed: SnapkafkaError
    try:
        require_extra("cli", "the command")
        from .verbs import app

        try:
            app(prog_name="snapkafka")
        finally:
            if sys.stdout is not None:  # it was closed before the start
                sys.stdout.flush()
    except DependencyMissingError as error:
        failed = error
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left in its buffer
        failed = OutputError(f"the output cannot be written: {error.strerror}")
    print(f"error: {failed.message}\n       {failed.hint}", file=sys.stderr)
    sys.exit(failed.exit_status)
