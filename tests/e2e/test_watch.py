"""`keep --until` on a real computation that ends: not while its token is on its way, and then for good."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.demo import System, observing, wait_until
from snapkafka.kafka import Connection
from snapkafka.ops import Answer, KeptRound
from snapkafka.testing import Broker, create_topics
from snapkafka.verbs import Keep
from tests.features.harness import produce, read_topics

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


def test_termination_is_seen_when_the_last_message_is_taken_in_and_not_before(
    kafka: Broker, tmp_path: Path
) -> None:
    """The computation goes on until a round has said "not yet", so there is one at least."""
    namespace = f"t{uuid.uuid4().hex[:8]}"
    app, enough = f"{namespace}-app", tmp_path / "enough"
    create_topics(kafka.bootstrap, f"{app}-hops", partitions=2)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    report: list[KeptRound] = []

    def hops() -> int:
        return len(read_topics(kafka.bootstrap, f"{app}-").get("hops", ()))

    def heard(item: KeptRound) -> None:
        report.append(item)
        enough.touch()

    try:
        with observing(kafka.bootstrap, namespace) as observer:
            env = {"PASSING_ID": app, "PASSING_ENOUGH": str(enough)}
            system.start_worker(app, env, module="tests.e2e.passing")
            observer.wait_for_workers(system)
            produce(kafka.bootstrap, f"{app}-hops", [("0", b"0", None)])
            wait_until("the token to be passed on", lambda: hops() > 3, timeout_s=60, system=system)
            connection = Connection(bootstrap=kafka.bootstrap)
            watching = ops.keep(
                connection,
                namespace,
                Keep(
                    until="termination",
                    storage=str(tmp_path / "snaps"),
                    every_ms=1,
                    ttl_ms=20_000,
                    timeout_ms=400_000,
                ),
                report=heard,
            )
            found = asyncio.run(watching)
            at_the_end = hops()
            listed = asyncio.run(ops.list_snapshots(connection, namespace))
    finally:
        system.stop()
    first, *_, last = report
    assert first.answer is Answer.NOT_YET, first
    assert (first.found, first.witnesses[0].topic) == (1, f"{app}-hops"), "one token is in one place"
    assert last is found
    assert last.answer is Answer.HOLDS
    assert first.not_yet_ms is not None and last.not_yet_ms is not None and last.holds_ms is not None
    assert first.not_yet_ms <= last.not_yet_ms < last.holds_ms
    assert hops() == at_the_end, "what is stable stays"
    assert {item.verdict for item in listed} == {"VERIFIED"}, "not having ended is no fault of a snapshot"
