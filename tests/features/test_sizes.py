"""R15: a record that fits the limits of producer, broker and topic without our header arrives with snapkafka, too."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from snapkafka.protocol import SnapshotView
from snapkafka.testing import Broker, create_topics, wait_until

from .apps.sizes_limits import (
    CLIENT_FITS,
    PAIR_FITS,
    TOPIC_BYTES,
    TOPIC_FITS,
)
from .harness import Pair, Record, is_marker, produce, read_topics, running

pytestmark = pytest.mark.timeout(300)

LIMITED = ("sent-out", "soon-out", "pair-out", "relayed-mid")
OUTPUTS = (*LIMITED, "client-out", "relayed-out")
#: Large and small in turn: none may overtake another.
FEW = 12


def send(pair: Pair, way: str, sizes: list[int], *, first: int | str = 0) -> None:
    records = [
        (
            "key",
            json.dumps(
                {"way": way, "n": first if isinstance(first, str) else first + n, "size": size}
            ).encode(),
            None,
        )
        for n, size in enumerate(sizes)
    ]
    produce(pair.bootstrap, f"{pair.input}-sized", records)


def written(pair: Pair, side: str, name: str) -> list[Record]:
    found = read_topics(pair.bootstrap, f"{side}-", pair.isolation).get(name, [])
    return [record for record in found if not is_marker(record)]


def same_on_both_sides(pair: Pair, counts: dict[str, int]) -> None:
    """The same records in the same order."""
    pair.wait_for(counts)
    for name in counts:
        ours, plain = (
            [(record.partition, record.key, record.value) for record in written(pair, side.id, name)]
            for side in pair.sides
        )
        assert ours == plain, name


def bare(pair: Pair, name: str) -> int:
    """How many records went without a header."""
    return sum(record.stamp is None for record in written(pair, pair.ours.id, name))


def decided(pair: Pair) -> SnapshotView:
    return pair.observer.take(uuid.uuid4().hex, ttl_ms=20_000)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["plain", "exactly_once"])
def test_r15_a_record_that_fits_without_our_header_arrives_on_every_way_out(
    kafka: Broker, namespace: str, tmp_path: Path, kind: str
) -> None:
    hold = tmp_path / "hold"
    for side in ("ours", "plain"):
        names = [*LIMITED, "sized-changelog", "replies"]
        limited = {"max.message.bytes": str(TOPIC_BYTES)}
        create_topics(
            kafka.bootstrap,
            *(f"{namespace}-sizes-{side}-{name}" for name in names),
            partitions=2,
            config=limited,
        )
    with running(
        kafka.bootstrap,
        namespace,
        tmp_path,
        "tests.features.apps.sizes",
        inputs=["sized", "hold"],
        outputs=OUTPUTS,
        changelogs=["sized"],
        env={"FEATURES_KIND": kind, "FEATURES_HOLD": str(hold)},
        isolation="read_committed" if kind == "exactly_once" else "read_uncommitted",
    ) as pair:
        turns = [size for n in range(FEW) for size in (TOPIC_FITS, 10)]
        for way in ("table", "sent", "soon", "relayed"):
            send(pair, way, turns)
        send(pair, "client", [CLIENT_FITS, 10] * FEW)
        send(pair, "pair", [PAIR_FITS] * FEW)
        same_on_both_sides(
            pair,
            {
                "sized-changelog": 2 * FEW,
                "sent-out": 2 * FEW,
                "soon-out": 2 * FEW,
                "relayed-mid": 2 * FEW,
                "relayed-out": 2 * FEW,
                "client-out": 2 * FEW,
                "pair-out": 2 * FEW,
            },
        )
        for name in ("sized-changelog", "sent-out", "soon-out", "relayed-mid"):
            assert FEW <= bare(pair, name) < 2 * FEW, name
        assert bare(pair, "client-out") == 0, "the producer checks its own limit before there is a header"
        assert bare(pair, "pair-out") == 0, "a batch is no larger than it may be, so two make two batches"

        after = decided(pair)
        assert after.failure is None, after.failure

        while_open(pair, hold)
        in_flight(pair)
        after = decided(pair)
        assert after.failure is None, after.failure


def while_open(pair: Pair, hold: Path) -> None:
    """A record that leaves bare while a snapshot is open fails it by name."""
    hold.touch()
    try:
        produce(pair.bootstrap, f"{pair.input}-hold", [("key", b"{}", None)])
        wait_until("the event to run", hold.with_name(pair.ours.id).exists, timeout_s=20)
        epoch = pair.observer.ask(uuid.uuid4().hex, ttl_ms=20_000)
        # one that leaves before the worker has read the trigger is no fault
        view = pair.observer.decided(epoch, meanwhile=lambda: send(pair, "sent", [TOPIC_FITS]))
    finally:
        hold.unlink()
    assert view.failure is not None
    assert view.failure.code == "sent-bare", view.failure
    assert "sent-out" in view.failure.culprit


def in_flight(pair: Pair) -> None:
    """A record that left bare when none was open, and was not read yet at the next cut, fails that."""
    before = len(written(pair, pair.ours.id, "relayed-mid"))
    send(pair, "relayed", [10], first="slow")
    send(pair, "relayed", [TOPIC_FITS], first=1)
    wait_until(
        "both to be in the log",
        lambda: len(written(pair, pair.ours.id, "relayed-mid")) == before + 2,
        timeout_s=20,
        period_s=0.1,
    )
    view = decided(pair)
    assert view.failure is not None
    assert view.failure.code == "sent-bare", view.failure
    assert "in flight" in view.failure.reason
    wait_until(
        "the slow one to be through",
        lambda: len(written(pair, pair.ours.id, "relayed-out")) == before + 2,
        timeout_s=20,
        period_s=0.1,
    )
