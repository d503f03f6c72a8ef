"""What users and programs see, frozen: a change of structure leaves every file below `frozen/` byte-equal.

    python -m tests.golden --write    writes the files anew; read the difference before you commit it

`help/` has the help of every command, `json/` and `text/` what each verb prints of the golden snapshots and of a
cluster in memory, `tables.ddl` the columns of tables, `schemas.sha256` the published schemas. `snapshots/` holds what
is read: `making` says how it was made.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from snapkafka.assembly.schemas import SCHEMAS, schema
from snapkafka.manifest import STATE_DELTA
from snapkafka.service.app import openapi

from .calls import printed
from .helps import helps

FROZEN: Final = Path(__file__).parent / "frozen"
ROOT: Final = Path(__file__).resolve().parents[2]


def contents() -> dict[str, str]:
    """Return the text of every frozen file, by its path below `FROZEN`."""
    return {
        **{f"help/{name}.txt": text for name, text in helps().items()},
        **printed(),
        "tables.ddl": "".join(f"{name}: {schema(name)}\n" for name in (*SCHEMAS, STATE_DELTA)),
        "schemas.sha256": _digests(),
    }


def write() -> None:
    """Write every frozen file, and remove those that are no longer made."""
    made = contents()
    for path in FROZEN.rglob("*.*"):
        if path.relative_to(FROZEN).as_posix() not in made:
            path.unlink()
    for name, text in made.items():
        path = FROZEN / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def _digests() -> str:
    """Return the SHA-256 of each published schema; the one that the service hands out is among them."""
    files = sorted(path for path in (ROOT / "schemas").rglob("*") if path.is_file())
    lines = {path.relative_to(ROOT).as_posix(): path for path in files} | {"served /openapi.yaml": openapi()}
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n" for name, path in lines.items()
    )
