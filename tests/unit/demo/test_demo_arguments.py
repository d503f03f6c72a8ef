"""What the demo takes, and where it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.demo.__main__ import forget_other_systems
from snapkafka.demo.practice import Practice
from snapkafka.demo.settings import new_app
from snapkafka.testing import RunningSystem


def test_standard_output_is_the_result_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--keep --json` invites first, and prints the JSON when it ends."""
    Practice(RunningSystem(bootstrap="localhost:1", namespace="demo", folder=tmp_path), tmp_path).invite(
        "Page: none"
    )
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err


def test_the_demo_leaves_other_systems_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faust takes BROKER_URL and the like from the environment before it looks at the app."""
    monkeypatch.setenv("BROKER_URL", "kafka://production:9092")
    monkeypatch.setenv("PROCESSING_GUARANTEE", "exactly_once")
    monkeypatch.setenv("SNAPKAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("SNAPKAFKA_NAMESPACE", "demo")
    conf = new_app("accounts").conf
    assert [str(url) for url in conf.broker] == ["kafka://127.0.0.1:1"]
    assert conf.processing_guarantee.value == "at_least_once"
    kept = {"PATH": "/bin", "SNAPKAFKA_CACHE": "/c", "SNAPKAFKA_DEMO_SESSION_S": "9"}
    other = {"SNAPKAFKA": "off", "SNAPKAFKA_NAMESPACE": "shop", "F_DATADIR": "/var/faust"}
    environ = {**kept, **other}
    forget_other_systems(environ)
    assert environ == kept
