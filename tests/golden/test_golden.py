"""The golden files: whatever moves in the code, users and programs see the same, byte for byte."""

from __future__ import annotations

import pytest

from snapkafka import manifest

from . import FROZEN, contents
from .calls import SNAPSHOTS
from .making import FOLDER


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return contents()


def test_everything_is_as_it_is_frozen(made: dict[str, str]) -> None:
    """After a change that is meant: `python -m tests.golden --write`."""
    frozen = {path.relative_to(FROZEN).as_posix(): path for path in FROZEN.rglob("*.*")}
    assert sorted(made) == sorted(frozen)
    for name, text in made.items():
        assert text.encode() == frozen[name].read_bytes(), name


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_manifest_is_written_as_it_was_read(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text("utf-8")
    assert manifest.dump(manifest.load(text)) == text
