"""The command `snapkafka`: arguments in, tables or --json out. What it does is in `snapkafka.ops`."""

from __future__ import annotations

import sys

from snapkafka.errors import DependencyMissingError

from .process import call

__all__ = ["main"]


def main() -> None:
    """The entry point; never returns."""
    call(_main)


def _main() -> None:
    try:
        from .app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "aiokafka"):
            raise
        print(f"error: the command needs {error.name}, which is not installed", file=sys.stderr)
        print("       pip install 'snapkafka[faust,cli]'", file=sys.stderr)
        sys.exit(DependencyMissingError.exit_status)
    app(prog_name="snapkafka")
