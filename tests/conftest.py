"""Options of the tests, and their order."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final

import pytest

#: About how long a file of a folder takes, in seconds. Those of the former wait for brokers and workers much of it,
#: those of the latter compute.
WAIT: Final = {"e2e": 60, "features": 22, "driver": 8, "kafka": 12, "chaos": 1, "bench": 1}
COMPUTE: Final = {"spark": 36, "sim": 25, "scenarios": 1, "protocol": 1, "golden": 15, "unit": 3}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="golden scenarios: write what comes out into the files, to be read before it is committed",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix the files of both kinds, each in its order, so that whoever runs two at a time has seldom two that wait, or
    two that compute."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)

    def folder(path: Path) -> str:
        return path.relative_to(Path(__file__).parent).parts[0]

    begins: dict[Path, float] = {}
    for kind in (WAIT, COMPUTE):
        order = list(kind)
        ordered = sorted(
            (path for path in files if folder(path) in kind),
            key=lambda path: (order.index(folder(path)), str(path)),
        )
        ends = list(itertools.accumulate(kind[folder(path)] for path in ordered))
        begins |= {
            path: (end - kind[folder(path)]) / ends[-1] for path, end in zip(ordered, ends, strict=True)
        }
    items[:] = [
        item for path in sorted(files, key=lambda path: begins.get(path, 1.0)) for item in files[path]
    ]
