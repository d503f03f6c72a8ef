"""The scenarios of the suite, each with the systems that it runs with on a real broker: the libraries of spender and
keeper. The simulator has the same and more, with its judge in the place of the money (tests/sim/test_campaign.py)."""

from __future__ import annotations

from typing import Any, Final

import pytest


def cases(*systems: tuple[str, str], short: int) -> list[Any]:
    """The systems, as parameters of a test; only the first so many run each time."""
    return [
        pytest.param(*system, marks=() if number < short else pytest.mark.nightly)
        for number, system in enumerate(systems)
    ]


MONEY: Final = cases(
    ("faust", "confluent"),
    ("aiokafka", "faust"),
    ("confluent threads", "confluent stores"),
    ("confluent", "confluent"),
    ("aiokafka", "aiokafka"),
    ("confluent", "aiokafka"),
    short=3,
)
MEMBERS: Final = cases(("confluent", "confluent"), ("aiokafka", "aiokafka"), short=1)
TRANSACTIONS: Final = cases(("confluent tx", "confluent tx"), ("aiokafka tx", "aiokafka tx"), short=1)
ALIGNED: Final = cases(
    ("faust", "faust"),
    ("confluent", "aiokafka"),
    ("faust", "confluent"),
    ("aiokafka", "faust"),
    ("confluent threads", "confluent threads"),
    ("confluent tx", "aiokafka tx"),
    short=3,
)
