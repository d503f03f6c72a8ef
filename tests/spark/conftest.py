"""One Spark session for all tests of this folder: starting one takes longer than most of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.engines import Engine


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from snapkafka.assembly import session

    with session() as running:
        yield running


@pytest.fixture(scope="session", params=["embedded", pytest.param("spark", marks=pytest.mark.nightly)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each of the two; Spark at night."""
    return Engine(request.param, request.getfixturevalue("spark") if request.param == "spark" else None)
