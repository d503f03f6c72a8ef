"""A Python in which only what certain extras bring can be imported, whatever else the environment of the tests has."""

from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


def installed(name: str, *extras: str) -> set[str]:
    """Return a distribution and all that it requires with these extras, here and now, as their metadata has it."""
    found: set[tuple[str, str]] = set()
    left = [(canonicalize_name(name), extra) for extra in ("", *extras)]
    while left:
        wanted = left.pop()
        if wanted in found:
            continue
        found.add(wanted)
        for requirement in map(Requirement, requires(wanted[0]) or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": wanted[1]}):
                left += [(canonicalize_name(requirement.name), extra) for extra in ("", *requirement.extras)]
    return {name for name, _ in found}


def write_sitecustomize(folder: Path, *extras: str) -> None:
    """Write what makes a Python with this folder in `PYTHONPATH` import nothing but the extras, and the tests."""
    brought = installed("snapkafka", *extras)
    absent = {
        module
        for module, distributions in packages_distributions().items()
        if brought.isdisjoint(map(canonicalize_name, distributions))
    }
    assert "pytest" in absent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE.format(absent=sorted(absent)))
