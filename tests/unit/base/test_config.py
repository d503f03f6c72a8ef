"""Settings are checked as a whole, and what is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from snapkafka.config import HEAR_ALL, Config
from snapkafka.errors import InstallError
from snapkafka.protocol import HEAR_ALL as HEAR_ALL_OF_THE_MACHINE


def test_the_defaults_are_good() -> None:
    config = Config(namespace="shop")
    config.validate()
    assert config.hear == HEAR_ALL == HEAR_ALL_OF_THE_MACHINE


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_hear_and_sources_may_be_any_collection(kind: Any) -> None:
    config = Config(namespace="shop", hear=kind(["markers"]), sources=kind(["a", "b"]))
    config.validate()
    assert (config.hear, config.sources) == (frozenset({"markers"}), ("a", "b"))
    one: Any = "markers"
    assert Config(namespace="shop", hear=one) == Config(namespace="shop", hear=frozenset({"markers"}))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("namespace", ""),
        ("namespace", None),
        ("namespace", "two words"),
        ("namespace", "a/b"),
        ("namespace", "x" * 151),
        ("hear", []),
        ("hear", "rumours"),
        ("hear", 7),
        ("cause", "yes"),
        ("enabled", None),
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
