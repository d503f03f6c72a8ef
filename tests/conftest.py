"""Options of the tests, and their order."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

#: Tests of these folders wait for brokers and workers much of their time; those of others compute.
WAIT: Final = ("e2e", "features", "driver", "kafka", "chaos", "bench")
COMPUTE: Final = ("spark", "sim", "scenarios", "protocol", "unit")


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

    place: dict[Path, float] = {}
    for kind in (WAIT, COMPUTE):
        ordered = sorted(
            (path for path in files if folder(path) in kind),
            key=lambda path: (kind.index(folder(path)), str(path)),
        )
        place |= {path: number / len(ordered) for number, path in enumerate(ordered)}
    items[:] = [item for path in sorted(files, key=lambda path: place.get(path, 1.0)) for item in files[path]]
