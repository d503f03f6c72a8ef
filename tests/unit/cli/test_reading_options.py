"""Options of every command that runs the job: those of `JobSpec`."""

from __future__ import annotations

import inspect

import pytest
import typer
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.assembly import OPTIONS
from snapkafka.cli import app
from snapkafka.cli.job_options import READING, Spec, job_options


@pytest.mark.parametrize("name", ["assemble", "verify", "watch", "keep", "drill"])
def test_a_command_that_runs_the_job_reads_the_log_by_the_same_options(name: str) -> None:
    command = typer.main.get_group(app).commands[name]
    assert {parameter.name for parameter in command.params} >= set(READING)


def test_assemble_and_verify_have_every_option_of_the_job() -> None:
    """By the flags of the job; a snapshot is an argument there."""
    commands = typer.main.get_group(app).commands
    flags = {flag for name in ("assemble", "verify") for it in commands[name].params for flag in it.opts}
    assert flags >= {option.flag for option in OPTIONS.values() if option.flag} - {"--snapshot"}


def test_they_stand_where_the_parameter_stands_and_reach_the_command() -> None:
    given = []

    @job_options(*READING)
    def command(first: str, spec: Spec = ops.JobSpec, last: bool = False) -> None:
        given.append((first, spec(namespace="shop"), last))

    assert list(inspect.signature(command).parameters) == ["first", *READING, "last"]
    options = dict.fromkeys(READING) | {"strict": True, "sinks": ["audit"], "isolation": "", "around": 7}
    command(first="a", last=True, **options)
    read = ops.JobSpec(namespace="shop", strict=True, sinks=("audit",), around=7)
    assert given == [("a", read, True)]


def test_a_wrong_value_is_one_line() -> None:
    found = CliRunner().invoke(app, ["assemble", "latest", "--bootstrap", "127.0.0.1:1", "--around", "-1"])
    assert found.exit_code == 2
    assert found.stderr.splitlines()[0].startswith("error: --around must be 0 to")
