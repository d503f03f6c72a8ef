"""What a reader of the ledger makes of an offset that is not there."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import OffsetOutOfRangeError

from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka.ledger.reader import LedgerCutShortError, LedgerRecreatedError, _Reader
from snapkafka.kafka.login.connection import Connection

TP = KafkaPartition("_snapkafka.n", 0)


@pytest.mark.parametrize(
    ("same", "end", "error", "said"),
    [
        (False, 3, LedgerRecreatedError, "was deleted meanwhile"),
        (
            True,
            3,
            LedgerCutShortError,
            "ends at offset 3, and was read up to 9: it has lost acknowledged records",
        ),
        (True, 20, LedgerUnusableError, "it was trimmed"),
    ],
)
async def test_an_end_below_what_was_read_is_no_trimmed_beginning(
    same: bool, end: int, error: type[Exception], said: str
) -> None:
    """A ledger that lost its acknowledged tail was taken for one that was trimmed, and `run it again` did not help."""

    async def is_same() -> bool:
        return same

    async def getmany(*_: Any, **__: Any) -> Any:
        raise OffsetOutOfRangeError({TP: 9})

    async def end_offsets(_: Any) -> dict[KafkaPartition, int]:
        return {TP: end}

    reader = _Reader(
        Connection(bootstrap="127.0.0.1:1"), TP.topic, 9, is_same, asyncio.Event(), lambda *_: True
    )
    reader._consumer = SimpleNamespace(getmany=getmany, end_offsets=end_offsets)
    with pytest.raises(error, match=said) as raised:
        await reader.some()
    assert type(raised.value) is error
