"""What a reader of the ledger makes of an offset that is not there."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import OffsetOutOfRangeError

from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka.ledger.lost_tail import LedgerCutShortError
from snapkafka.kafka.ledger.reader import LedgerRecreatedError, _Reader
from snapkafka.kafka.login.connection import Connection

TP = KafkaPartition("_snapkafka.n", 0)


@pytest.mark.parametrize(
    ("found", "error", "said"),
    [
        (False, LedgerRecreatedError, "was deleted meanwhile"),
        (
            LedgerCutShortError(TP.topic, 3, 9),
            LedgerCutShortError,
            "nothing that was read is left from offset 3",
        ),
        (True, LedgerUnusableError, "it was trimmed"),
    ],
)
async def test_an_end_below_what_was_read_is_no_trimmed_beginning(
    found: bool | Exception, error: type[Exception], said: str
) -> None:
    """A ledger that lost its acknowledged tail was taken for one that was trimmed, and `run it again` did not help."""
    suspect = asyncio.Event()

    async def is_same() -> bool:
        assert suspect.is_set(), "or the records are not compared"
        if isinstance(found, Exception):
            raise found
        return found

    async def getmany(*_: Any, **__: Any) -> Any:
        raise OffsetOutOfRangeError({TP: 9})

    reader = _Reader(Connection(bootstrap="127.0.0.1:1"), TP.topic, 9, is_same, suspect, lambda *_: True)
    reader._consumer = SimpleNamespace(getmany=getmany)
    with pytest.raises(error, match=said) as raised:
        await reader.some()
    assert type(raised.value) is error
