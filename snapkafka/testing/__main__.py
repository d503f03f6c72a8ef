"""`snapkafka broker`, `python -m snapkafka.testing`: a Kafka on this machine, in the foreground, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys

from snapkafka.errors import SnapkafkaError
from snapkafka.runtime.signals import Interrupted, exit_status, raise_on_ending_signals
from snapkafka.testing.embedded import EmbeddedKafka


def main(argv: list[str] | None = None) -> int:
    """Run a broker until a signal; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="snapkafka broker",
        description="Run a Kafka on this machine until Ctrl-C. Its data goes with it.",
    )
    parser.add_argument("--port", type=int, default=9092, help="1 to 65535; default: 9092")
    arguments = parser.parse_args(argv)
    if not 0 < arguments.port < 65_536:
        parser.error(f"--port must be 1 to 65535, got {arguments.port}")
    raise_on_ending_signals()
    try:
        with EmbeddedKafka(port=arguments.port) as broker:
            print(f"Kafka runs at {broker.bootstrap}. Ctrl-C stops it, and its data goes.", flush=True)
            while True:
                signal.pause()
    except Interrupted as interrupted:
        return exit_status(interrupted.number)
    except SnapkafkaError as error:
        print(f"error: {error.message}\nwhat to do: {error.hint}", file=sys.stderr)
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
