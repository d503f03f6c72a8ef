"""`stream_publish_on_commit` where the partition is taken away before the commit, with snapkafka and without."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from snapkafka.demo import wait_until
from snapkafka.testing import Broker

from .harness import Pair, Side, count_records, is_marker, read_topics, running
from .judging import Judge
from .replaying import take

pytestmark = pytest.mark.timeout(300)

FEW = 20


@pytest.mark.nightly
def test_what_waits_for_a_commit_when_its_partition_is_taken_away(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """Faust keeps what waits, and commits nothing when it gives partitions away: events run again, and what waited in
    the first worker leaves with a later commit of the partition, or never. A snapshot under way fails and says so; the
    next ones are captured, and wait for nothing that may never leave."""
    sign = tmp_path / "commit"
    sign.touch()

    def commit() -> None:
        with sign.open("a") as reported:
            reported.write(".")

    with running(
        kafka.bootstrap,
        namespace,
        tmp_path,
        "tests.features.apps.attached",
        inputs=["held"],
        outputs=["held-out", "begun-out"],
        env={"FEATURES_COMMIT_WHEN": str(sign)},
    ) as pair:
        send(pair, 0)
        pair.wait_for({"begun-out": FEW})
        assert has_left(pair, 0), "sent at once: the test shows nothing"
        commit()
        pair.wait_for({"held-out": FEW})
        send(pair, FEW)
        pair.wait_for({"begun-out": 2 * FEW})
        assert has_left(pair, FEW), "sent at once: the test shows nothing"

        for side in pair.sides:
            pair.start(side)
        view = take(pair.observer, "taken away", ttl_ms=60_000)
        assert view.failure is not None
        assert view.failure.code == "send-failed"
        assert "revoked" in view.failure.reason
        pair.observer.wait_for_workers(pair.ours.system)
        wait_until(
            "both to run again what was not committed",
            lambda: all(
                count_records(pair.bootstrap, side.id, ["begun-out"])["begun-out"] >= 3 * FEW
                for side in pair.sides
            ),
            timeout_s=60,
        )
        commit()
        wait_until(
            "both to commit all of it",
            lambda: all(committed(pair, side) == 2 * FEW for side in pair.sides),
            timeout_s=60,
        )
        pair.snapshot()

        for side in pair.sides:
            side.system.interrupt(side.system.workers[-1])
        pair.observer.wait_for_workers(pair.ours.system)
        send(pair, 2 * FEW)
        pair.wait_for({"begun-out": 4 * FEW})
        commit()
        wait_until(
            "both to commit the rest",
            lambda: all(committed(pair, side) == 3 * FEW for side in pair.sides),
            timeout_s=60,
        )
        pair.snapshot()
        for side in pair.sides:
            counts = left(pair, side)
            assert set(counts) == set(range(3 * FEW)), f"{side.id}: each once at least"
            again = {counts[n] for n in range(FEW, 2 * FEW)}
            assert again == {2}, (
                f"{side.id}: what had waited has left as well, with the commit of the partition"
            )
        pair.end()
        judge = Judge(pair)
        for epoch in pair.epochs:
            assert {finding.kind for finding in judge.findings(epoch)} <= {"replayed", "ran-twice"}


def send(pair: Pair, first: int) -> None:
    records = [(f"k{n}", json.dumps({"n": n}).encode(), None) for n in range(first, first + FEW)]
    pair.send({"held": records}, seconds=0.5)


def has_left(pair: Pair, count: int) -> bool:
    """Have so many left on both sides, and no more?"""
    return all(
        count_records(pair.bootstrap, side.id, ["held-out"])["held-out"] == count for side in pair.sides
    )


def committed(pair: Pair, side: Side) -> int:
    found = pair.observer.call(pair.observer.admin.committed(side.id))
    return sum(position for position, _ in found.values())


def left(pair: Pair, side: Side) -> Counter[int]:
    """How often what an event sends has left, by its number."""
    found = read_topics(pair.bootstrap, f"{side.id}-held")["-out"]
    return Counter(json.loads(r.value or b"")["value"]["n"] for r in found if not is_marker(r))
