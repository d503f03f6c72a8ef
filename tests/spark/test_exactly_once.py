"""A snapshot of a service that runs exactly-once, from trigger to tables."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from snapkafka.demo import Observer, System, observing, wait_until
from snapkafka.kafka import compose_trigger
from snapkafka.protocol import SnapshotView
from snapkafka.testing import Broker, create_topics
from tests.features.harness import count_records, produce, read_topics

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(400)]

COUNT = 60


def test_what_was_aborted_is_in_no_table(kafka: Broker, tmp_path: Path) -> None:
    """Section 7: `read_committed` under exactly-once. A worker dies, what it sent is aborted, the next one sends it
    again; and both lie in what is read, as the reader of the topic stands below them at the cut."""
    namespace = f"t{uuid.uuid4().hex[:8]}"
    app, source = f"{namespace}-app", f"{namespace}-in"
    topics = [f"{app}-{name}" for name in ("exact-mid", "exact-out", "again-out")]
    create_topics(kafka.bootstrap, f"{source}-exact", *topics, partitions=2)
    create_topics(
        kafka.bootstrap, f"{app}-exact-changelog", partitions=2, config={"cleanup.policy": "compact"}
    )
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    env = {"FEATURES_ID": app, "FEATURES_INPUT": source}
    module = "tests.features.apps.transactional"
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            first = system.start_worker(app, env | {"FEATURES_COMMIT": "600"}, module=module)
            observer.wait_for_workers(system)
            produce(kafka.bootstrap, f"{source}-exact", [(f"k{n % 7}", b"{}", None) for n in range(COUNT)])
            _wait_for_mid(kafka.bootstrap, app, "read_uncommitted")
            system.kill(first)
            dead = next(iter(observer.state.living())).process
            system.start_worker(app, env | {"FEATURES_SLEEP": "15"}, module=module)
            wait_until(
                "the second worker to get the inputs",
                lambda: any(len(v.inputs) == 4 for v in observer.state.living() if v.process != dead),
                timeout_s=120,
                system=system,
            )
            _few(
                kafka.bootstrap, source
            )  # whatever Faust runs again of the first ones (docs/reference/features.md)
            _wait_for_mid(kafka.bootstrap, app, "read_committed")
            _decided(observer, "with a corpse", ttl_ms=500)
            wait_until(
                "the dead to be named",
                lambda: observer.state.processes[dead].left is not None,
                timeout_s=20,
                system=system,
            )
            view = _decided(observer, "s", ttl_ms=50_000)
            assert view.failure is None, view.failure
            captured = observer.state.captured(view.epoch)
            for worker in list(system.workers):  # its events sleep; nothing of it is needed any more
                system.kill(worker)
    finally:
        system.stop()
    (low,) = [cut for cut in captured.inputs if cut.topic.endswith("exact-mid") and cut.position == 0]
    everything = [
        r for r in read_topics(kafka.bootstrap, f"{app}-")["exact-mid"] if r.partition == low.partition
    ]
    log = read_topics(kafka.bootstrap, f"{app}-", "read_committed")
    end = max(s.white_end for s in captured.senders if (s.topic, s.partition) == (low.topic, low.partition))
    mid = {r.offset for r in log["exact-mid"] if r.partition == low.partition and r.offset < end}
    assert {r.offset for r in everything if r.offset < end} > mid, (
        "nothing was aborted: the test shows nothing"
    )
    assert mid, "nothing was committed: nor does it then"

    storage = tmp_path / "storage"
    arguments = ["--bootstrap", kafka.bootstrap, "--namespace", namespace, "--snapshot", "s"]
    arguments += ["--storage", str(storage)]
    done = subprocess.run(
        [sys.executable, "-m", "snapkafka.assembly", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert json.loads((storage / "s.json").read_text())["verdict"] == "VERIFIED"
    messages = [row for row in _rows(storage, "messages") if row["topic"] == low.topic]
    found = [row["offset"] for row in messages if row["partition"] == low.partition]
    assert sorted(found) == sorted(mid)
    ends = {cut.partition: cut.end for cut in captured.changelogs}
    fold = {(r.partition, r.key): r.value for r in log["exact-changelog"] if r.offset < ends[r.partition]}
    assert fold, "no state"
    assert {(row["partition"], row["key_raw"]): row["value_raw"] for row in _rows(storage, "state")} == fold


def _few(bootstrap: str, source: str) -> None:
    produce(bootstrap, f"{source}-exact", [(f"k{n % 7}", b"{}", None) for n in range(COUNT)])


def _wait_for_mid(bootstrap: str, app: str, isolation: str) -> None:
    wait_until(
        f"{COUNT} records to be there, {isolation}",
        lambda: count_records(bootstrap, app, ["exact-mid"], isolation)["exact-mid"] >= COUNT,
        timeout_s=90,
    )


def _decided(observer: Observer, name: str, ttl_ms: int) -> SnapshotView:
    work = compose_trigger(observer.admin, observer.state, snapshot_id=name, ttl_ms=ttl_ms)
    epoch = observer.call(observer.ledger.append(observer.call(work))) + 1
    snapshots = observer.state.snapshots
    wait_until(
        f"snapshot {name} to be decided",
        lambda: epoch in snapshots and not snapshots[epoch].open,
        timeout_s=60,
        period_s=0.02,
    )
    return snapshots[epoch]


def _rows(storage: Path, table: str) -> list[dict[str, Any]]:
    return list(pq.read_table(storage / "s" / table, partitioning=None).to_pylist())
