"""Options of the tests, and their order."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Final

import pytest

#: One process runs all of this folder: each other one would start a Spark of its own, and compile it once more.
IN_ONE_PROCESS: Final = "spark"
#: About how long a file of a folder takes, in seconds. Those of the former wait for brokers and workers much of it,
#: those of the latter compute.
WAIT: Final = {"e2e": 30, "conformance": 25, "features": 18, "driver": 8, "kafka": 12, "chaos": 1}
COMPUTE: Final = {"sim": 25, "scenarios": 1, "protocol": 1, "golden": 15, "unit": 3}
#: Files that take much longer than the others of their folder: one that begins late is all that runs in the end.
LONGEST: Final = {
    "features/test_with_and_without.py": 200,
    "e2e/test_demo.py": 100,
    "sim/test_campaign.py": 60,
    "driver/test_every_hook.py": 60,
    "conformance/test_members.py": 50,
    "sim/test_explore.py": 40,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="golden scenarios: write what comes out into the files, to be read before it is committed",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each file to a process, and all files of Spark to one."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return IN_ONE_PROCESS if file.startswith(f"tests/{IN_ONE_PROCESS}/") else file

    return Files(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix the files of both kinds, those of each that take longest first, so that whoever runs a few at a time has
    seldom all that wait, or all that compute, and nobody waits for one file in the end. What one process runs comes
    first."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    tests = Path(__file__).parent
    begins = dict.fromkeys((path for path in files if path.parent.name == IN_ONE_PROCESS), 0.0)
    for kind in (WAIT, COMPUTE):
        lasts = {
            path: LONGEST.get(name.as_posix(), kind[name.parts[0]])
            for path in files
            if (name := path.relative_to(tests)).parts[0] in kind
        }
        order = sorted(lasts, key=lambda path: (-lasts[path], str(path)))
        ends = list(itertools.accumulate(lasts[path] for path in order))
        begins |= {path: (end - lasts[path]) / ends[-1] for path, end in zip(order, ends, strict=True)}
    items[:] = [
        item for path in sorted(files, key=lambda path: begins.get(path, 1.0)) for item in files[path]
    ]
