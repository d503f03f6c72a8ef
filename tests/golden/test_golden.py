"""The golden files: whatever moves in the code, people see the same, byte for byte."""

from __future__ import annotations

import pytest

from snapkafka import manifest

from . import FROZEN
from .calls import SNAPSHOTS, printed
from .making import FOLDER


def test_everything_is_as_it_is_frozen() -> None:
    """After a change that is meant: `python -m tests.golden --write`."""
    assert printed() == {path.name: path.read_bytes().decode() for path in FROZEN.iterdir()}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_manifest_is_written_as_it_was_read(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text("utf-8")
    assert manifest.dump(manifest.load(text)) == text
