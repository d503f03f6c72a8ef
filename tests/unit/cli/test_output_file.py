"""Files that commands write for their users."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from snapkafka.cli.output_file import write_whole


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
