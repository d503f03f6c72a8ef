"""Entry for `python -m snapkafka.assembly` and for `spark-submit .../snapkafka/assembly/__main__.py`."""

import sys
from pathlib import Path

if not __package__ and sys.path and Path(sys.path[0]) == Path(__file__).parent:
    # Run as a file: the folder that Python puts first has modules with names that libraries have as well.
    del sys.path[0]

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime.extras import missing_of, require_extra

try:
    if missing_of("embedded"):
        require_extra("spark", "assembly")
except DependencyMissingError as error:
    print(f"error: {error}\nwhat to do: {error.hint}", file=sys.stderr)
    sys.exit(error.exit_status)

from snapkafka.assembly.entry import start

if __name__ == "__main__":
    sys.exit(start())
