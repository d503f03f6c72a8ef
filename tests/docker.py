"""`make test-docker`: the images are built and compose.yaml runs end to end, where a Docker engine answers.

Not a test of pytest: where no engine answers nothing was run, and that is not a success. Exit status 0: all of it ran;
1: something failed; 77: not run.
"""

import json
import subprocess
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import Final

COMPOSE: Final = ("docker", "compose", "-f", str(Path(__file__).parents[1] / "docker" / "compose.yaml"))
NOT_RUN: Final = 77
PAGE: Final = "http://127.0.0.1:8023/"
VERIFIED_WITHIN_S: Final = 600


def main() -> int:
    """Run what can be run; the exit status."""
    run = partial(subprocess.run, check=True)
    for needed in (["docker", "version"], ["docker", "compose", "version"]):
        if not _answers(*needed):
            print(f"not run: `{' '.join(needed)}` fails")
            return NOT_RUN
    run([*COMPOSE, "--profile", "full", "config", "--quiet"])
    try:
        run([*COMPOSE, "up", "--build", "--detach", "--wait", "kafka", "accounts", "clearing"])
        run([*COMPOSE, "up", "--detach", "load", "keep", "door"])
        run([*COMPOSE, "up", "--detach", "--wait", "service"])
        with urllib.request.urlopen(PAGE, timeout=10) as page:
            print(f"page: {page.status}")
        found = _await_verified()
        print(f"verified: {found}")
        return 0 if found else 1
    except subprocess.CalledProcessError as error:
        print(f"failed: {' '.join(error.cmd)} ended with status {error.returncode}", file=sys.stderr)
        return 1
    finally:
        subprocess.run([*COMPOSE, "--profile", "tools", "down", "--volumes"])


def _answers(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _await_verified() -> str:
    """The id of a verified snapshot; empty: there was none in time."""
    deadline = time.monotonic() + VERIFIED_WITHIN_S
    while time.monotonic() < deadline:
        listed = subprocess.run(
            [*COMPOSE, "run", "--rm", "command", "list", "--json"], capture_output=True, text=True
        )
        if listed.returncode == 0:
            for item in json.loads(listed.stdout)["snapshots"]:
                if (item["verdict"] or "").startswith("VERIFIED"):
                    return str(item["snapshot_id"])
        time.sleep(10)
    return ""


if __name__ == "__main__":
    sys.exit(main())
