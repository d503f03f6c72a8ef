"""R16: what an assembled snapshot says of its alignment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from snapkafka.assembly.manifest import alignment_of
from snapkafka.protocol import Outcome

ALIGNED = Outcome(aligned=True)
LATE = Outcome(aligned=False, why="late")


def tables(in_flight: int) -> Any:
    return [SimpleNamespace(name="messages", rows=in_flight), SimpleNamespace(name="channels", rows=7)]


@pytest.mark.parametrize("alignment", [None, ALIGNED, LATE])
def test_r16_without_messages_it_is_what_the_ledger_says(alignment: Outcome | None) -> None:
    captured = cast(Any, SimpleNamespace(alignment=alignment))
    assert alignment_of(captured, tables(0)) == alignment


def test_r16_messages_of_who_had_left_make_a_snapshot_unaligned() -> None:
    found = alignment_of(cast(Any, SimpleNamespace(alignment=ALIGNED)), tables(1_200))
    why = "1,200 messages of processes that had left before were in flight"
    assert found == Outcome(aligned=False, why=why)
    assert alignment_of(cast(Any, SimpleNamespace(alignment=LATE)), tables(3)) == LATE
