"""Settings are checked as a whole, and what is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from snapkafka.config import Config
from snapkafka.errors import InstallError


def test_the_defaults_are_good() -> None:
    Config(namespace="shop").validate()


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_sources_may_be_any_collection(kind: Any) -> None:
    config = Config(namespace="shop", sources=kind(["a", "b"]))
    config.validate()
    assert config.sources == ("a", "b")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("namespace", ""),
        ("namespace", None),
        ("namespace", "two words"),
        ("namespace", "a/b"),
        ("namespace", "x" * 151),
        ("cause", "yes"),
        ("mode", "stamps"),
        ("ttl_ms", 99),
        ("ttl_ms", "5 s"),
        ("ttl_ms", True),
        ("every", 0.5),
        ("every", float("nan")),
        ("every", float("inf")),
        ("every", "1m"),
        ("min_pause", -1),
        ("min_pause", None),
        ("min_pause", float("inf")),
        ("web", 0),
        ("sources", "orders"),
        ("sources", [""]),
    ],
)
def test_each_setting_is_looked_at(setting: str, value: Any) -> None:
    config = Config(**{"namespace": "shop", setting: value})
    with pytest.raises(InstallError, match=setting):
        config.validate()
