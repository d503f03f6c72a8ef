"""docs/reference/cli.md tells the exit statuses that the command has."""

from __future__ import annotations

import re
from pathlib import Path

from snapkafka.cli.process import EXIT_UNREAD
from snapkafka.errors import all_errors
from snapkafka.runtime.interrupts import CODES, exit_status

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()


def test_every_exit_status_is_in_the_docs_and_no_other() -> None:
    told = {
        (int(status), code) for status, code in re.findall(r"^\| (\d+) \| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    }
    assert told == {(cls.exit_status, cls.code) for cls in all_errors()} | {
        (1, "not-good"),
        *((exit_status(number), code) for number, code in CODES.items()),
        (EXIT_UNREAD, "unread"),
    }
