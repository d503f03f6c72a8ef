"""A loop that only reads, beside one that only sends: what it has not read is in flight to it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from snapkafka.clients import participant
from snapkafka.drivers import Consumer
from snapkafka.testing import Broker
from snapkafka.until import blocking_until
from tests.conformance.running import Running, running

pytestmark = pytest.mark.timeout(200)


def test_a_source_and_a_sink_are_in_one_snapshot(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    """What the sink has read and what is in flight to it is what the source has sent: offset by offset."""
    with running(kafka, namespace, tmp_path) as run:
        seen: list[bytes] = []
        stopped = threading.Event()
        reading = threading.Thread(target=_read, args=(run, kafka.bootstrap, seen, stopped))
        reading.start()
        try:
            blocking_until(lambda: len(seen) > 50, 60, "the sink to read")
            run.await_ready(extra=2)
            taken = run.snapshot()
            assert taken.assert_consistent().verdict == "VERIFIED"
        finally:
            stopped.set()
            reading.join()
        assert not any(key.startswith(b"_sk") for key in seen), "no marker reaches the loop"
        positions = taken.query("SELECT app, topic, sum(position) AS read FROM positions GROUP BY ALL")
        assert [row["app"] for row in positions] == [run.names.app("sink")], positions
        assert positions[0]["read"] > 50


def _read(run: Running, bootstrap: str, seen: list[bytes], stopped: threading.Event) -> None:
    group = {"group.id": run.names.app("sink"), "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap} | group)
    with participant(namespace=run.system.namespace, consumer=consumer, inputs=[run.names.ticks]) as part:
        while not stopped.is_set():
            for message in part.poll(quiet_s=0.5):
                with part.event(message):
                    seen.append(message.key())
                    assert not message.headers()
                if stopped.is_set():
                    break
    consumer.close()
