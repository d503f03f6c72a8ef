"""Files that commands write for their users."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from snapkafka.cli.output_file import write_whole
from snapkafka.errors import OutputError
from tests.golden.making import make_snapshots


@pytest.mark.parametrize("through_link", [False, True])
def test_a_pipe_is_written_by_its_path(tmp_path: Path, *, through_link: bool) -> None:
    """`-o /dev/stdout` and `-o >(gzip)`: the link leads to no path."""
    read, write = os.pipe()
    place = Path(f"/dev/fd/{write}")
    if through_link:
        (tmp_path / "link").symlink_to(place)
        place = tmp_path / "link"
    code = "import pathlib, sys; from snapkafka.cli.output_file import *; write_whole(pathlib.Path(sys.argv[1]), 'é')"
    try:
        subprocess.run([sys.executable, "-c", code, str(place)], check=True, pass_fds=[write])
        assert os.read(read, 100) == "é".encode()
    finally:
        os.close(read)
        os.close(write)


def test_a_link_stays_and_its_file_is_replaced_with_its_mode(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_whole(link, "new")
    assert link.is_symlink()
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)
    assert sorted(tmp_path.iterdir()) == [file, link]


@pytest.mark.parametrize("options", [[], ["--json"], ["--csv"]])
def test_standard_output_on_a_full_disk_is_an_error_by_name(options: list[str], tmp_path: Path) -> None:
    make_snapshots(tmp_path)
    command = [sys.executable, "-m", "snapkafka.cli", "query", "SELECT 1", *options]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*command, "--storage", str(tmp_path)], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == OutputError.exit_status
    error, advice = done.stderr.splitlines()
    assert error.startswith("error: ") and "No space left" in error
    assert advice.strip()


def test_a_line_of_a_long_command_on_a_full_disk_is_one_too() -> None:
    code = (
        "from snapkafka.cli import main\n"
        "from snapkafka import ops\n"
        "async def verdicts(*_, **__):\n"
        "    yield {'id': 'a'}\n"
        "ops.verdicts = verdicts\n"
        "main()\n"
    )
    words = ["verdicts", "--bootstrap", "127.0.0.1:1", "--namespace", "ns"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr.count("\n")) == (OutputError.exit_status, 2), done.stderr
