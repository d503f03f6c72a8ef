"""The golden files: whatever moves in the code, some twenty commands print the same at 80 columns, byte for byte."""

import pytest

from .calls import FROZEN, printed


def test_everything_is_as_it_is_frozen(pytestconfig: pytest.Config) -> None:
    """After a change that is meant: `--rewrite`; read the difference before you commit it."""
    found = printed()
    if pytestconfig.getoption("--rewrite"):
        for path in FROZEN.iterdir():
            path.unlink()
        for name, text in found.items():
            (FROZEN / name).write_bytes(text.encode())
    assert found == {path.name: path.read_bytes().decode() for path in FROZEN.iterdir()}
