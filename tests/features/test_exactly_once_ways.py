"""`exactly_once` together with tables in RocksDB. What of it Faust does not do is in docs/reference/features.md."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from snapkafka.demo import wait_until
from snapkafka.errors import TimedOutError
from snapkafka.testing import Broker
from tests.driver.live import take

from .compared import APPS
from .harness import Pair, Side, count_records, running
from .judging import Judge

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]

APP = "tests.features.apps.transactional_ways"
TOPICS = APPS["exactly-once-ways"].topics
COUNT = 200


def test_a_table_in_rocksdb_keeps_what_was_aborted(kafka: Broker, tmp_path: Path) -> None:
    """A worker dies with a transaction open. What it wrote to RocksDB stays there, and recovery overwrites only keys
    that the changelog knows: events that run again count on top. With snapkafka or without; a snapshot holds what is in
    the changelog."""
    sign = tmp_path / "commit"
    sign.touch()
    known, new = ["k0", "k1", "k2"], ["n0", "n1", "n2"]
    with running(
        kafka.bootstrap,
        f"t{uuid.uuid4().hex[:8]}",
        tmp_path,
        APP,
        **TOPICS,
        env={
            "FEATURES_COMMIT": "600",
            "FEATURES_COMMIT_WHEN": str(sign),
            "FEATURES_DATA": str(tmp_path),
        },
    ) as pair:
        pair.send({"rocks": [(key, b"{}", None) for key in known]}, seconds=0.1)
        appended(pair, 3)
        sign.write_text(".")
        pair.wait_for({"rocks-mid": 3})
        pair.send({"rocks": [(key, b"{}", None) for key in (*known, *new)]}, seconds=0.1)
        appended(pair, 9)
        for side in pair.sides:
            assert {path.name for path in (tmp_path / side.id).rglob("*.db")} == {"rocks-0.db", "rocks-1.db"}
            start_again(pair, side, appended=9 + 6)
        sign.write_text("..")
        pair.wait_for({"rocks-mid": 9})
        take(pair.observer, "with a corpse", ttl_ms=1_000)
        wait_until("the dead to be named", lambda: len(list(pair.observer.state.living())) == 1, timeout_s=20)
        pair.finish()
        for side in pair.sides:
            events = Counter((record.key or b"").decode() for record in side.records["rocks-mid"])
            table = {
                json.loads(record.key or b""): record.value for record in side.records["rocks-changelog"]
            }
            assert set(new) <= events.keys()
            assert all(int(table[key] or b"") > events[key] for key in new), (side.id, table)
        assert {finding.kind for finding in Judge(pair).findings(pair.epochs[-1])} <= {"replayed"}


def appended(pair: Pair, count: int) -> None:
    """Wait until both have written so much to the table, committed or not."""
    for side in pair.sides:
        wait_until(
            f"{count} records in the changelog of {side.id}",
            partial(has_appended, pair, side, count),
            timeout_s=60,
            system=side.system,
        )


def has_appended(pair: Pair, side: Side, count: int) -> bool:
    return count_records(pair.bootstrap, side.id, ["rocks-changelog"])["rocks-changelog"] >= count


def start_again(pair: Pair, side: Side, *, appended: int) -> None:
    """Kill its worker and start it until what was not committed has run again: now and then Faust passes over what it
    fetched first (docs/reference/features.md)."""
    for _ in range(4):
        side.system.kill(side.system.workers[0])
        pair.start(side)
        with contextlib.suppress(TimedOutError):
            return wait_until(
                f"{side.id} to run again what was not committed",
                partial(has_appended, pair, side, appended),
                timeout_s=40,
                system=side.system,
            )
    raise AssertionError(f"{side.id} has not run again what was not committed, in four starts")
