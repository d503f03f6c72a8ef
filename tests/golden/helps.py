"""The help of every command, as a terminal of 80 columns without colours shows it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Final, NamedTuple

import pytest
from typer.main import get_command

from snapkafka.cli.verbs import app
from tests.reference.commands import commands

#: Of a terminal of 80 columns that knows no colours, whoever runs this.
ENVIRONMENT: Final = {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1", "TERM": "dumb"}
#: Made once: that takes half of the time of a call.
COMMAND: Final = get_command(app)
#: `demo` hands its arguments on, `--help` as well: to a program of its own.
OWN_HELP: Final = frozenset({"demo"})


class Printed(NamedTuple):
    """What a command printed, and its exit status."""

    status: int
    stdout: str
    stderr: str


def call(arguments: Sequence[str]) -> Printed:
    """Run a command here, with standard output and error as pipes."""
    pipes = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    with redirect_stdout(pipes[0]), redirect_stderr(pipes[1]), pytest.raises(SystemExit) as ended:
        COMMAND.main([*arguments], prog_name="snapkafka")
    texts = [pipe.buffer.getvalue().decode() for pipe in pipes]
    return Printed(ended.value.code or 0, *texts)  # type: ignore[arg-type]  # of ours each is a number


def helps() -> dict[str, str]:
    """Return the help of each command by its name, groups and `snapkafka` itself among them."""
    names = ["", *(name for name, _ in commands(COMMAND) if name not in OWN_HELP)]
    names += sorted({name.partition(" ")[0] for name in names if " " in name})
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        return {"-".join(["snapkafka", *name.split()]): _help(name) for name in names}


def _help(name: str) -> str:
    found = call([*name.split(), "--help"])
    assert (found.status, found.stderr) == (0, "")
    return "".join(f"{line.rstrip()}\n" for line in found.stdout.splitlines())
