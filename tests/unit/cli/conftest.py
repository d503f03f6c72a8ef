"""A terminal without bounds, and something at any address."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from snapkafka.cli import running
from snapkafka.cli.screen import UNBOUNDED
from tests.golden.calls import ENVIRONMENT


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    where = {"SNAPKAFKA_BOOTSTRAP": "127.0.0.1:1", "SNAPKAFKA_NAMESPACE": "ns"}
    for name, value in (ENVIRONMENT | where).items():
        monkeypatch.setenv(name, value)
    for screen in (running.console, running.notices):
        monkeypatch.setattr(screen.console, "width", UNBOUNDED)
    at = SimpleNamespace(from_environment=lambda hosts, *_: SimpleNamespace(hosts=hosts))
    monkeypatch.setattr(running, "Connection", at)
