"""What the demo takes, and where it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.demo import System
from snapkafka.demo import __main__ as demo
from snapkafka.demo.practice import Practice


def test_standard_output_is_the_result_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--keep --json` invites first, and prints the JSON when it ends."""
    Practice(System(bootstrap="localhost:1", namespace="demo", folder=tmp_path), tmp_path).invite(
        "Page: none"
    )
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err


@pytest.mark.parametrize("port", ["0", "-1", "65536", "kafka"])
def test_a_port_that_there_is_not_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        demo.main(["--kafka-only", port])
    assert refused.value.code == 2
    assert f"--kafka-only: invalid port value: '{port}'" in capsys.readouterr().err
