"""`snapkafka.install` is typed: a type checker finds what would fail at the start of a service."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from importlib.resources import files
from pathlib import Path
from typing import get_type_hints

from snapkafka.config import Config, Mode, Settings

#: Kept between runs: what mypy makes of the package takes it seconds.
CACHE = Path(__file__).parents[3] / ".mypy_cache" / "install"

SNIPPET = """\
import snapkafka

app = object()
snapkafka.install(app)
snapkafka.install(app, "shop", every=60, mode="stamp", ttl_ms=10_000)
snapkafka.install(app, namespace="shop", evry=60)
snapkafka.install(app, namespace="shop", every="1m")
snapkafka.install(app, namespace=7)
"""


def test_the_typed_settings_are_those_of_the_config() -> None:
    typed, config = get_type_hints(Settings), get_type_hints(Config)
    del config["namespace"]
    assert (typed.pop("mode"), config.pop("mode")) == (str, Mode)
    assert typed.pop("sources") == Collection[str], "any collection of topics"
    assert config.pop("sources") == tuple[str, ...], "what these become"
    assert typed == config


def test_mypy_finds_a_setting_that_is_misspelt_or_of_another_type(tmp_path: Path) -> None:
    """The package says that it is typed (PEP 561); mypy runs as a user's does: elsewhere, and finds it installed."""
    assert (files("snapkafka") / "py.typed").is_file()
    (tmp_path / "service.py").write_text(SNIPPET)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "service.py"]
    done = subprocess.run([*command, f"--cache-dir={CACHE}"], cwd=tmp_path, capture_output=True, text=True)
    reported = done.stdout.splitlines()
    assert [line.split(":")[1] for line in reported if ": error:" in line] == ["6", "7", "8"], (
        done.stdout + done.stderr
    )
    assert 'Unexpected keyword argument "evry" for "install"; did you mean "every"?' in reported[0]
