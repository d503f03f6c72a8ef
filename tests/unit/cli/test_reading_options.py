"""Options of every command that runs the Spark job: how it reads the log."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest
import typer
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli.job_options import AS_IT_IS, Reading, reads_the_log
from snapkafka.cli.verbs import app

WANTED = {item.name for item in fields(ops.HowToRead)}


@pytest.mark.parametrize("name", ["assemble", "verify", "watch", "keep", "drill"])
def test_a_command_that_runs_the_job_has_all_of_them(name: str) -> None:
    command = typer.main.get_group(app).commands[name]
    assert {parameter.name for parameter in command.params} >= WANTED


def test_they_stand_where_the_parameter_stands_and_reach_the_command() -> None:
    given = []

    @reads_the_log
    def command(first: str, reading: Reading = AS_IT_IS, last: bool = False) -> None:
        given.append((first, reading(), last))

    names = list(inspect.signature(command).parameters)
    assert (names[0], names[-1], {*names[1:-1]}) == ("first", "last", WANTED)
    options = dict.fromkeys(WANTED) | {"strict": True, "sinks": ["audit"], "isolation": ""}
    options |= {"around": 7}
    command(first="a", last=True, **options)
    ((first, read, last),) = given
    assert (first, last) == ("a", True)
    assert (read.strict, read.sinks, read.sources) == (True, ["audit"], ())
    assert read.around == 7


def test_a_wrong_value_is_one_line() -> None:
    found = CliRunner().invoke(app, ["assemble", "latest", "--bootstrap", "127.0.0.1:1", "--around", "-1"])
    assert found.exit_code == 2
    assert found.stderr.splitlines()[0].startswith("error: --around must be 0 to")
