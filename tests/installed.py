"""A Python in which only what certain extras bring can be imported, whatever else the environment of the tests has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

_SITECUSTOMIZE: Final = """
import sys

ABSENT = {absent!r}


class Present:
    def __init__(self, finder):
        self._finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else self._finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self._finder, name)


sys.meta_path[:] = map(Present, sys.meta_path)
"""


def distributions_of(extras: Iterable[str]) -> set[str]:
    """Return the names of the distributions that `pip install snapkafka[extras]` brings, as their metadata has it."""
    found: set[str] = set()
    _add("snapkafka", frozenset(extras), found, set())
    return found


def write_sitecustomize(folder: Path, *extras: str) -> None:
    """Write what makes a Python with this folder in `PYTHONPATH` import nothing but the extras, and the tests."""
    brought = distributions_of(extras)
    absent = {
        module
        for module, distributions in packages_distributions().items()
        if brought.isdisjoint(map(_canonical, distributions))
    }
    assert "pytest" in absent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE.format(absent=sorted(absent)))


def _add(name: str, extras: frozenset[str], found: set[str], seen: set[tuple[str, frozenset[str]]]) -> None:
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    found.add(name)
    for required in _required(name, extras):
        _add(_canonical(required.name), frozenset(required.extras), found, seen)


def _required(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    try:
        texts = requires(name) or []
    except PackageNotFoundError:  # for another platform
        return
    for requirement in map(Requirement, texts):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield requirement


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
