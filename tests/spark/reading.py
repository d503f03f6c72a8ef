"""How tests read a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from snapkafka.assembly import JobSpec, Settings
from snapkafka.manifest import LedgerEntry


def settings_of(ledger: LedgerEntry, **options: Any) -> Settings:
    """Return settings without the table of pictures and with what was aborted, unless the options name them."""
    return Settings(spec=JobSpec(**{"isolation": "read_uncommitted", "around": 0, **options}), ledger=ledger)


def spec_file(folder: Path, **options: Any) -> list[str]:
    """Write options of the job to a file; return the arguments that name it."""
    path = folder / "spec.json"
    path.write_bytes(msgspec.json.encode(JobSpec(**options)))
    return ["--spec", str(path)]
