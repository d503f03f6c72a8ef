"""Write schemas/ledger/*.avsc, which follow from the record classes: `python -m tools.schemas`."""

from __future__ import annotations

from pathlib import Path

from snapkafka.wire import schemas

if __name__ == "__main__":
    folder = Path(__file__).parents[1] / "schemas" / "ledger"
    for path in folder.glob("*.avsc"):
        path.unlink()
    for name, text in schemas.published().items():
        (folder / name).write_text(text, "utf-8")
