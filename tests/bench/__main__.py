"""`python -m tests.bench [NAME]`: runs the benches, prints each figure, writes `build/bench.json`."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench import busy, mesh, older, restoring, scale
from tests.bench.figures import Figure

RESULTS = Path("build/bench.json")


def registered() -> dict[str, Callable[[], list[Figure]]]:
    """Every function `bench_<name>` of the bench modules."""
    return {
        name.removeprefix("bench_"): function
        for module in (busy, mesh, older, restoring, scale)
        for name, function in vars(module).items()
        if name.startswith("bench_")
    }


def main(arguments: list[str]) -> int:
    benches = registered()
    chosen = [name for name in arguments if name] or list(benches)
    if unknown := [name for name in chosen if name not in benches]:
        print(f"no bench {', '.join(unknown)}; there are {', '.join(benches)}", file=sys.stderr)
        return 2
    load = os.getloadavg()[0]  # of what else runs here: it is in every figure
    figures: list[Figure] = []
    for name in chosen:
        what, _, _ = (benches[name].__doc__ or "").partition("\n")
        print(f"... {name}: {what}", file=sys.stderr)
        for found in benches[name]():
            figures.append(found)
            mark = {True: "ok", False: "MISSED", None: ""}[found.ok]
            bar = "" if found.bar is None else f"bar {found.bar:g}"
            print(
                f"{found.name:28} {found.value:10.3f} {found.unit:6} [{found.low:.3f}, {found.high:.3f}]  {bar} {mark}"
            )
    RESULTS.parent.mkdir(exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()},"
        f" load {load:.1f} before"
    )
    result = {"commit": commit, "machine": machine, "results": [found.as_json() for found in figures]}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
