"""The job on a Spark that has started before anybody knows what to verify: `python -m snapkafka.demo.spark_job`.

The options are those of `python -m snapkafka.assembly`; they name a pipe with the rest, read once Spark runs.
"""

from __future__ import annotations

import sys

from snapkafka.assembly import session
from snapkafka.assembly.command import main

if __name__ == "__main__":
    with session(record=False):
        status = main()
    sys.exit(status)
