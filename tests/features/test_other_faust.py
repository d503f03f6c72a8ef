"""R15: on a Faust that is not the one snapkafka is sewn to, an app does what it does without snapkafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.testing import Broker

from .other_faust import RELEASE, another_release
from .unharmed import as_without_us


@pytest.mark.timeout(300)
def test_r15_another_release(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    log = as_without_us(kafka.bootstrap, namespace, tmp_path, another_release(tmp_path / "other"))
    said = [line for line in log.splitlines() if "snapkafka: " in line]
    assert len(said) == 1
    assert f"faust-streaming {RELEASE} is not" in said[0]
