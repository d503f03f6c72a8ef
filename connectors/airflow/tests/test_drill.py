"""The drill: a command of its own, whose exit status and result become the task's."""

from __future__ import annotations

import json
import logging
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from snapkafka_airflow.hooks.snapkafka import SnapkafkaHook
from snapkafka_airflow.operators import drill as drilling
from snapkafka_airflow.operators.drill import SnapkafkaDrillOperator

from snapkafka import ops
from snapkafka.errors import EXIT_NOT_GOOD, all_errors

APP = "python -m faust -A shop worker"
FOUND = {
    "trusted": True, "reasons": [], "snapshot_id": "friday", "epoch": 4, "fork": "drill-1", "rpo_s": 61.0,
    "rto_s": 12.5, "logs": {APP: "the app's last line"},
}  # fmt: skip
WITHIN_S = 20.0


class Command:
    """In the place of `snapkafka drill`: writes what it is to find, prints, and ends with a status."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.status, self.found, self.prints = 0, dict(FOUND), ["drill: find the snapshot"]
        self.line: list[str] = []
        self.environ: dict[str, str] = {}

        def run(command: list[str], heard: Any, *, env: dict[str, str], **_: Any) -> int:
            self.line, self.environ = command, env
            self.config = Path(self.option("--config")).read_text()
            for text in self.prints:
                heard(text)
            if self.status in (0, EXIT_NOT_GOOD):
                Path(self.option("--json")).write_text(json.dumps(self.found))
            return self.status

        async def run_child(*words: Any, **options: Any) -> int:
            return run(*words, **options)

        monkeypatch.setattr(drilling, "run_child", run_child)

    def option(self, name: str) -> str:
        (value,) = (word.removeprefix(f"{name}=") for word in self.line if word.startswith(f"{name}="))
        return value


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(monkeypatch)


def test_a_trusted_backup_is_reported_in_xcom_and_log(
    command: Command,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = SnapkafkaDrillOperator(
        task_id="drill", apps=[APP, APP], invariants=["money"], parameters=["total=7"], until="done.sql",
        env={"SHOP_MAIL": "off"}, spec=ops.JobSpec(sinks=("copies",)),
    )  # fmt: skip
    monkeypatch.setattr(type(task), "log", logging.getLogger("told"))
    with caplog.at_level(logging.INFO, "told"):
        assert task.execute(context) == {key: FOUND[key] for key in FOUND if key not in ("reasons", "logs")}
    assert "drill: find the snapshot" in caplog.text
    python = "/opt/spark/bin/python"
    start = [python, "-m", "snapkafka", "drill"]
    assert command.line[: len(start)] == start
    assert [word for word in command.line[len(start) :] if not word.startswith(("--json=", "--config="))] == [
        "--bootstrap=127.0.0.1:9", "--namespace=ns", f"--app={APP}", f"--app={APP}",
        "--storage=/snaps", "--until=done.sql", "--invariants=money", "--set=total=7",
    ]  # fmt: skip
    assert 'sinks = ["copies"]' in command.config
    assert command.environ["SNAPKAFKA_KAFKA_SASL_PASSWORD"] == "secret"
    assert command.environ["SHOP_MAIL"] == "off"
    assert not any("secret" in word for word in command.line)


def test_one_that_cannot_be_trusted_fails_for_good_with_every_reason(
    command: Command, context: dict[str, Any]
) -> None:
    command.status, command.found = (
        EXIT_NOT_GOOD,
        FOUND | {"trusted": False, "reasons": ["no rows", "no app"]},
    )
    task = SnapkafkaDrillOperator(task_id="drill", apps=[APP])
    with pytest.raises(AirflowFailException, match=r"\(exit status 30, not-good\): no rows; no app"):
        task.execute(context)


@pytest.mark.parametrize(
    ("status", "code"),
    [(cls.exit_status, cls.code) for cls in all_errors()],
)
def test_every_other_status_fails_by_its_name(
    command: Command, context: dict[str, Any], status: int, code: str
) -> None:
    command.status, command.prints = status, ["error: the broker is away", "       check it"]
    with pytest.raises(AirflowException, match=rf"status {status}, {code}: the broker is away") as found:
        SnapkafkaDrillOperator(task_id="drill", apps=[APP]).execute(context)
    hopeless = code in ("bad-input", "dependency-missing", "offsets-gone")
    assert isinstance(found.value, AirflowFailException) is hopeless
    assert context["ti"].pushed == {}


def test_a_status_without_a_name_and_a_signal_are_errors(command: Command, context: dict[str, Any]) -> None:
    task = SnapkafkaDrillOperator(task_id="drill", apps=[APP])
    command.status, command.prints = -signal.SIGKILL, []
    with pytest.raises(AirflowException, match="killed by SIGKILL: it printed nothing"):
        task.execute(context)
    command.status = 99
    with pytest.raises(AirflowException, match="status 99, unknown"):
        task.execute(context)


# -- the end of a task: a real process in the place of the command --------------------------------------------

#: Started as the command is; puts something away when it is asked to end, which takes longer than a Spark job gets.
PUTS_AWAY = (
    "import signal, sys, time\n"
    "def end(*_):\n"
    "    time.sleep(2.5)\n"
    "    open({mark!r}, 'w').write('put away')\n"
    "    sys.exit(143)\n"
    "signal.signal(signal.SIGTERM, end)\n"
    "print('ready', flush=True)\n"
    "time.sleep(600)\n"
)


def test_a_killed_task_lets_the_command_put_away_what_it_has_made(
    context: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, python = tmp_path / "mark", tmp_path / "python"
    code = tmp_path / "code.py"
    code.write_text(PUTS_AWAY.format(mark=str(mark)))
    python.write_text(f"#!/bin/sh\nexec {sys.executable} {code}\n")
    python.chmod(0o755)
    monkeypatch.setattr(
        SnapkafkaHook, "launch", lambda self: ops.Launch(python=str(python), environ=self.environ())
    )
    task = SnapkafkaDrillOperator(task_id="drill", apps=[APP])

    class Log(logging.Logger):
        def info(self, message: object, *arguments: Any, **_: Any) -> None:
            if arguments == ("ready",):
                task.on_kill()

    monkeypatch.setattr(type(task), "log", Log("told"))
    started = time.monotonic()
    with pytest.raises(AirflowException, match="killed"):
        task.execute(context)
    assert mark.read_text() == "put away"
    assert time.monotonic() - started < WITHIN_S
