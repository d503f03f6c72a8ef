"""`exactly_once` together with `producer_threaded`, `stream_publish_on_commit` and tables in RocksDB, with snapkafka
and without. What of it Faust does not do is in docs/reference/features.md."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from snapkafka.demo.system import wait_until
from snapkafka.errors import TimedOutError
from snapkafka.testing import Broker
from tests.driver.test_install import take

from .harness import Pair, Side, count_records, running
from .judging import Judge, Row

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.timeout(300)]

APP = "tests.features.apps.transactional_ways"
ROWS = [
    Row("table", ("counted",), ("counted-out",), tables=("counted",), inner=("counted-mid",)),
    Row("rocksdb", ("rocks",), ("rocks-out",), tables=("rocks",), inner=("rocks-mid",)),
    Row("send_soon", ("soon",), ("soon-out",), inner=("soon-mid",)),
    Row("both-ways", ("both",), ("both-out",), order="none", inner=("both-mid",)),
]
ACROSS = Row("across", ("across",), (), inner=("across-mid",))
WAYS: dict[str, dict[str, str]] = {
    "by-default": {},
    "producer_threaded": {"FEATURES_THREADED": "1"},
    "stream_publish_on_commit": {"FEATURES_ON_COMMIT": "1"},
}
INPUTS = [name for row in ROWS for name in row.inputs]
OUTPUTS = [name for row in ROWS for name in (*row.outputs, *row.inner)]
CHANGELOGS = ["counted", "rocks"]
SECONDS = 5.0
COUNT = 200
RECORDS: Sequence[tuple[str, bytes, int | None]] = [
    (f"k{n % 11}", json.dumps({"n": n}).encode(), None) for n in range(COUNT)
]


@pytest.fixture(
    scope="module",
    params=list(WAYS),
)
def judge(
    request: pytest.FixtureRequest, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judge]:
    with running(
        kafka.bootstrap,
        f"t{uuid.uuid4().hex[:8]}",
        tmp_path_factory.mktemp("ways"),
        APP,
        inputs=[*INPUTS, *ACROSS.inputs],
        outputs=[*OUTPUTS, *ACROSS.inner],
        changelogs=CHANGELOGS,
        isolation="read_committed",
        env=WAYS[request.param],
    ) as pair:
        pair.load(dict.fromkeys(INPUTS, RECORDS), seconds=SECONDS, stretch=False)
        pair.wait_for(dict.fromkeys(OUTPUTS, COUNT))
        pair.finish()
        yield Judge(pair)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(judge: Judge, row: Row) -> None:
    judge.same(row)
    judge.captured(row)


def test_every_snapshot_is_consistent(judge: Judge) -> None:
    assert len(judge.snapshots) >= 3, "two under load, and the last one"
    assert judge.in_flight(), "nothing was on its way in any snapshot: the test shows nothing"
    judge.consistent()


def test_the_same_leaves_in_transactions(judge: Judge) -> None:
    """Told by what ends them: it takes offsets of a partition, and they hold no record."""
    ours, plain = (
        {name: _in_transactions(side, name) for name in (*OUTPUTS, *(f"{n}-changelog" for n in CHANGELOGS))}
        for side in judge.pair.sides
    )
    assert ours == plain
    assert {True, False} <= set(plain.values()), "all in transactions, or none: the test shows nothing"


def _in_transactions(side: Side, name: str) -> bool:
    """Some of a topic: its offsets have gaps (its own records, and those of snapkafka, have none)."""
    for partition in range(2):
        offsets = [record.offset for record in side.records[name] if record.partition == partition]
        if max(offsets) + 1 > len(offsets):
            return True
    return False


def test_the_same_exceptions(judge: Judge) -> None:
    judge.same_errors()


@pytest.mark.parametrize(("workers", "keys"), [(1, 1), (2, 11)])
def test_what_the_thread_sends_is_in_no_transaction(
    kafka: Broker, tmp_path: Path, workers: int, keys: int
) -> None:
    """`producer_threaded`: of the partition that it goes to nobody may commit a position, or another worker has it.
    Everything gets there all the same, as it does without us, and the worker goes on."""
    with running(
        kafka.bootstrap,
        f"t{uuid.uuid4().hex[:8]}",
        tmp_path,
        APP,
        inputs=[*INPUTS, *ACROSS.inputs],
        outputs=[*OUTPUTS, *ACROSS.inner],
        changelogs=CHANGELOGS,
        isolation="read_committed",
        env=WAYS["producer_threaded"],
        workers=workers,
    ) as pair:
        records = [(f"k{n % keys}", value, at) for n, (_, value, at) in enumerate(RECORDS)]
        pair.load({"across": records}, seconds=SECONDS, stretch=False)
        pair.wait_for({"across-mid": COUNT})
        pair.finish()
        judge = Judge(pair)
        judge.captured(ACROSS)
        judge.consistent()
        judge.same_errors()


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
        inputs=[*INPUTS, *ACROSS.inputs],
        outputs=[*OUTPUTS, *ACROSS.inner],
        changelogs=CHANGELOGS,
        isolation="read_committed",
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
