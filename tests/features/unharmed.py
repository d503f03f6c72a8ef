"""What R15 asks of an app whose ledger is of no use to it: that it does what it does without us."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .harness import quick_and_slow
from .judging import Judge, Row

COUNT = 200
ROW = Row("quick", ("quick",), ("quick-out",), tables=("quick",))


def as_without_us(bootstrap: str, namespace: str, folder: Path, env: Mapping[str, str] | None = None) -> str:
    """The app starts, works and writes what it would without us, and says that it takes no part; the log of its
    worker."""
    with quick_and_slow(
        bootstrap,
        namespace,
        folder,
        env=env,
        joins=False,
    ) as pair:
        pair.send({"quick": [(f"k{n % 7}", b"{}", None) for n in range(COUNT)]}, seconds=4.0)
        pair.wait_for({"quick-out": COUNT})
        assert not pair.observer.state.processes, "it has joined: this shows nothing"
        pair.end()
        judge = Judge(pair)
        judge.same(ROW)
        judge.same_errors()
        assert "this worker runs without snapshots" in pair.ours.log
        return pair.ours.log
