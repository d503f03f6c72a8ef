"""Settings are checked as a whole, and what is wrong is named."""

from typing import Any

import pytest

from snapkafka.config import Config
from snapkafka.errors import InstallError


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_sources_may_be_any_collection(kind: Any) -> None:
    config = Config(namespace="shop", sources=kind(["a", "b"]))
    config.validate()
    assert config.sources == ("a", "b")


WRONG: dict[str, tuple[Any, ...]] = {
    "namespace": ("", None, "two words", "a/b", "x" * 151),
    "cause": ("yes",),
    "mode": ("stamps",),
    "ttl_ms": (99, "5 s", True),
    "every": (0.5, float("nan"), float("inf"), "1m"),
    "markers": ("often", None),
    "web": (0,),
    "sources": ("orders", [""]),
}


@pytest.mark.parametrize(("setting", "value"), [(name, it) for name, of in WRONG.items() for it in of])
def test_each_setting_is_looked_at(setting: str, value: Any) -> None:
    config = Config(**{"namespace": "shop", setting: value})
    with pytest.raises(InstallError, match=setting):
        config.validate()
