"""R15: on a Faust that is not the one snapkafka is sewn to, an app does what it does without snapkafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.testing import Broker

from .other_faust import renamed
from .unharmed import as_without_us

pytestmark = pytest.mark.timeout(300)

#: One of each kind; what they are seams for is in `snapkafka/drivers/faust/hooks.py`.
ONE = "_getmany"
OTHERS = (
    "_new_producer",
    "_send_pending",
    "_build_handler",
    "resume_flow",
    "perform_seek",
    "on_stream_event_in",
    "on_table_set",
    "persisted_offset",
    "on_changelog_event",
    "_unacked_messages",
    "_attachments",
    "_reply_consumer",
    "active_highwaters",
    "noack_take",
    "enable_acks",
)


@pytest.mark.parametrize("name", [ONE, *(pytest.param(name, marks=pytest.mark.nightly) for name in OTHERS)])
def test_r15_a_seam_that_has_another_name(kafka: Broker, namespace: str, tmp_path: Path, name: str) -> None:
    log = as_without_us(kafka.bootstrap, namespace, tmp_path, renamed(tmp_path / "other", name))
    said = [line for line in log.splitlines() if "snapkafka: " in line]
    assert len(said) == 1
    assert f".{name} is not there" in said[0]
