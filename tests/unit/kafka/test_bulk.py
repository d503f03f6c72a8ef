"""The settings of the clients that move many records."""

from __future__ import annotations

from snapkafka.kafka.cluster.group_hold import SESSION_S
from snapkafka.kafka.records.bulk import PRODUCER


def test_a_record_is_not_sent_any_more_once_the_hold_of_its_groups_may_be_over() -> None:
    """A run that was suspended for longer than its hold finds what it had in hand timed out when it wakes up."""
    assert PRODUCER["message.timeout.ms"] / 1_000 < SESSION_S
