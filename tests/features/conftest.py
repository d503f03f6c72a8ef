"""The order of tests that share the runs of an app."""

from __future__ import annotations

import pytest

from .compared import APPS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of an app together: each app runs once, and is put away before the next one starts."""
    places = [place for place, item in enumerate(items) if item.path.name == "test_with_and_without.py"]
    order = list(APPS)
    of_apps = sorted(
        (items[place] for place in places),
        key=lambda item: order.index(item.callspec.params["run"]),  # type: ignore[attr-defined]
    )
    for place, item in zip(places, of_apps, strict=True):
        items[place] = item
