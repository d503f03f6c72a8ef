"""The embedded Kafka, as far as it needs no JVM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from snapkafka.testing import EmbeddedKafka, embedded


def test_what_is_fetched_first_takes_nothing_from_the_time_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first start ever Kafka is downloaded."""
    now_s, left_s = [0.0], []

    def fetch(_: str) -> list[Path]:
        now_s[0] += 100
        return []

    def await_ready(_: Any, deadline: float, timeout_s: float) -> None:
        left_s.append(deadline - now_s[0])

    monkeypatch.setattr(embedded, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(embedded, "java", lambda: SimpleNamespace(executable="java", home=Path("no Java")))
    monkeypatch.setattr(embedded, "locked_jars", fetch)
    for step in ("_format", "_launch"):
        monkeypatch.setattr(EmbeddedKafka, step, lambda *_: None)
    monkeypatch.setattr(EmbeddedKafka, "_await_ready", await_ready)
    with EmbeddedKafka():
        assert (now_s, left_s) == ([100], [embedded.START_TIMEOUT_S])
