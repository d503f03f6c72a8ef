"""What a test asks of an error beside its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapkafka.errors import SnapkafkaError


def because(**facts: Any) -> Callable[[SnapkafkaError], bool]:
    """Return the `check` of `pytest.raises`: the error has these facts, and maybe more."""
    return lambda error: error.facts.items() >= facts.items()
