"""The cluster is lost with all its data: from the storage alone the system goes on in another, and ends as known."""

import sys
from pathlib import Path
from typing import Final

import pytest

from snapkafka import ops
from snapkafka.kafka import Connection
from snapkafka.manifest import Manifest
from snapkafka.protocol import TopicPartition
from snapkafka.store import read_manifest
from snapkafka.testing import EmbeddedKafka, RunningSystem, wait_until
from tests.e2e.recovering import recovered
from tests.features.harness import Record
from tests.observing import observing

from .cycles import END_S, ITEMS, Cycle, assembled, assembled_cut, cycle_at_cut, outputs_kept, take
from .cycling_names import PARTITIONS

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

#: External records that lie in the old cluster at the cut, and when it is lost.
AT_CUT, AT_LOSS = ITEMS // 2, ITEMS // 2 + 50
#: Tables lie on the disks of the workers, which survive the cluster. Sums are slow: messages pile up before them.
ENV: Final = {"CYCLE_ON_DISK": "1", "CYCLE_SUM_S": "0.06"}


def read_through(cycle: Cycle) -> bool:
    """Have both agents of `work` processed all that lies there?"""
    tps = [TopicPartition(f"{cycle.prefix}work", n) for n in range(PARTITIONS)]
    ends = cycle.observer.call(cycle.observer.admin.log_ends(tps))
    committed = cycle.observer.call(cycle.observer.admin.committed(f"{cycle.prefix}left"))
    return sum(ends.values()) > 0 and all(committed.get(tp, (-1, ""))[0] == end for tp, end in ends.items())


def lose(kafka: EmbeddedKafka, tmp_path: Path, *, stored: bool) -> tuple[Cycle, list[Record]]:
    """Run the system until a snapshot of it is assembled, and kill it; returns what had come out.

    Args:
        stored: the snapshot is taken while external records are unread, and assembly stores them.
    """
    data = tmp_path / "data"
    data.mkdir()
    ready = (lambda cycle: cycle.sent() > AT_CUT // 10) if stored else read_through
    with cycle_at_cut(kafka, tmp_path, 2011, env=ENV, data=data, ready=ready) as (cycle, connection, _):
        at_cut = cycle.sent()
        cycle.feed(AT_CUT, AT_LOSS)
        wait_until("more outputs", lambda: cycle.sent() > at_cut, timeout_s=END_S, system=cycle.system)
        assembled_cut(connection, cycle.observer.namespace, with_inputs=stored)
        cycle.kill()
        return cycle, cycle.records()["out"]


def after_the_cut(manifest: Manifest, topic: str) -> list[ops.Irrevocable]:
    """The outputs that the cut does not hold."""
    ends = dict.fromkeys(range(PARTITIONS), 0)
    ends |= {it.partition: it.white_end for it in manifest.captured.senders if it.topic == topic}
    return [
        ops.Irrevocable(topic=topic, partition=partition, start=end, end=sys.maxsize)
        for partition, end in ends.items()
    ]


@pytest.mark.parametrize("stored", [False, True], ids=["sent-again", "stored"])
def test_a_system_whose_cluster_is_lost_goes_on_in_another_one(tmp_path: Path, *, stored: bool) -> None:
    storage = str(tmp_path / "storage")
    with EmbeddedKafka() as old:
        cycle, before = lose(old, tmp_path, stored=stored)
        old.kill()
    namespace = cycle.observer.namespace
    assert list((tmp_path / "data").rglob("*.sst")) or list((tmp_path / "data").rglob("CURRENT")), (
        "no table lies on the disk: the test shows less"
    )
    _, manifest = read_manifest(str(next((tmp_path / "storage").rglob("cut*.json"))))
    came_out = outputs_kept(before, after_the_cut(manifest, f"{cycle.prefix}out"))
    assert outputs_kept(before).total() > came_out.total(), "nothing came out after the cut"
    with EmbeddedKafka() as kafka:
        connection = Connection(bootstrap=kafka.bootstrap)
        done = recovered(connection, "", name="cut", storage=storage, into=True)
        assert done.messages > 0
        assert done.state > 0
        assert not done.plan.absent, "all external records before the cut were processed or stored"
        assert (done.inputs > AT_LOSS - AT_CUT) is stored
        with observing(kafka.bootstrap, namespace) as observer:
            cycle.observer = observer
            cycle.system = RunningSystem(
                bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path / "new"
            )
            cycle.system.folder.mkdir()
            try:
                cycle.start(ENV, data=tmp_path / "data")
                observer.wait_for_workers(cycle.system)
                take(connection, namespace, "first", storage)
                # What was sent after the cut, once more, and the rest.
                cycle.feed(AT_LOSS if stored else AT_CUT)
                cycle.finish(before=came_out)
            finally:
                cycle.system.stop()
        assembled(connection, namespace, "first")
