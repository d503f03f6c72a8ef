"""The golden files: whatever moves in the code, people see the same, byte for byte."""

from .calls import FROZEN, printed


def test_everything_is_as_it_is_frozen() -> None:
    """After a change that is meant: `python -m tests.golden --write`."""
    assert printed() == {path.name: path.read_bytes().decode() for path in FROZEN.iterdir()}
