"""What becomes of pains of plain Faust with snapkafka, by the thread they were told in
(docs/explanation/known-pains.md), on real workers."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from snapkafka.errors import TriggerRefusedError
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics, wait_until
from tests.driver.live import live, take

from .harness import Pair, Side, read_topics, running
from .judging import Judge

pytestmark = pytest.mark.timeout(300)

INPUTS = ["by-hand", "in-batches"]
#: Of one partition each: "noack", one by one, and "noack_take".
AGENTS = pytest.mark.parametrize("agent", [pytest.param("by-hand", marks=pytest.mark.nightly), "in-batches"])


def test_93_a_worker_without_partitions_neither_holds_a_snapshot_up_nor_spoils_it(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    with live(kafka, namespace, tmp_path) as run:
        for _ in range(3):
            run.start()
        run.await_workers()
        view = run.take("with an idle one", ttl_ms=15_000)
        living = {view.process for view in run.observer.state.living()}
        (idle,) = (view.process for view in run.observer.state.living() if not view.inputs)
        assert view.failure is None
        captured = run.observer.state.captured(view.epoch)
        assert idle in {cut.process for cut in captured.processes}
        assert {source.receiver for source in captured.inputs} == living - {idle}


def test_137_a_snapshot_is_refused_where_partition_counts_differ(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """A worker that has started like any other tells the ledger both counts."""
    with live(kafka, namespace, tmp_path, tables=()) as run:
        create_topics(kafka.bootstrap, run.topic("counts-changelog"), partitions=3)
        run.start()
        run.await_workers()
        with pytest.raises(TriggerRefusedError) as refused:
            run.take("refused", ttl_ms=15_000)
    assert run.topic("counts-changelog") in str(refused.value)


@AGENTS
@pytest.mark.parametrize(
    ("values", "committed", "again"),
    [
        pytest.param(["acknowledge", "hold"], 1, True, id="the-last"),
        pytest.param(
            ["acknowledge", "hold", "acknowledge"], 3, False, id="before-another", marks=pytest.mark.nightly
        ),
    ],
)
def test_604_over_a_rebalance(
    kafka: Broker, namespace: str, tmp_path: Path, agent: str, values: list[str], committed: int, again: bool
) -> None:
    """Faust commits past a record that was not acknowledged if the next one was, and whoever has the partition after
    the rebalance does not see it again; with snapkafka or without. As long as somebody has it in hand it counts as
    running: a snapshot fails and names the process. After the rebalance it is what it became: handed out again and
    done, or nobody's, and what it wrote is in the snapshot."""
    let_go = tmp_path / "let go"
    with running(
        kafka.bootstrap,
        namespace,
        tmp_path,
        "tests.features.apps.pains",
        inputs=INPUTS,
        outputs=[f"{name}-out" for name in INPUTS],
        env={"FEATURES_LET_GO": str(let_go)},
    ) as pair:
        send(pair, agent, values)
        tp = TopicPartition(f"{pair.input}-{agent}", pair.sent[agent][0][0])
        pair.wait_for({f"{agent}-out": len(values)})
        for side in pair.sides:
            wait_until(
                f"{side.id} to commit {committed}",
                partial(has_committed, pair, side, tp, committed),
                timeout_s=30,
                system=side.system,
            )
        failure = take(pair.observer, "held", ttl_ms=1_000).failure
        assert failure is not None
        assert failure.code == "ttl"
        assert "to finish events that began before the cut" in failure.culprit

        let_go.touch()
        for side in pair.sides:
            pair.start(side)
            wait_for_members(pair, side, 2)
            wait_until(
                f"{side.id} to hand out what was held back",
                partial(has_handed_out, pair, side, agent, 2 if again else 1),
                timeout_s=30,
                system=side.system,
            )
        pair.observer.wait_for_workers(pair.ours.system)
        assert position(pair, agent) == len(values)
        for side in pair.sides:
            side.system.interrupt(side.system.workers[-1])
            wait_for_members(pair, side, 1)
        send(pair, agent, ["acknowledge"])
        for side in pair.sides:
            wait_until(
                f"{side.id} to commit what came last",
                partial(has_committed, pair, side, tp, len(values) + 1),
                timeout_s=30,
                system=side.system,
            )
        assert position(pair, agent) == len(values) + 1
        pair.end()
        for side in pair.sides:
            assert (handed_out(pair, side, agent)["hold"] > 1) == again, (
                f"{side.id}: handed out again, or not"
            )
        for epoch in pair.epochs:
            assert {finding.kind for finding in Judge(pair).findings(epoch)} <= {"replayed", "ran-twice"}


def has_committed(pair: Pair, side: Side, tp: TopicPartition, position: int) -> bool:
    return pair.observer.call(pair.observer.admin.committed(side.id)).get(tp, (0, ""))[0] == position


def send(pair: Pair, agent: str, values: list[str]) -> None:
    pair.send({agent: [("k", f'"{value}"'.encode(), None) for value in values]}, seconds=0.1)


def has_handed_out(pair: Pair, side: Side, agent: str, times: int) -> bool:
    return handed_out(pair, side, agent)["hold"] >= times


def handed_out(pair: Pair, side: Side, agent: str) -> Counter[str]:
    """How often each value was handed to the agent."""
    found = read_topics(pair.bootstrap, f"{side.id}-{agent}-out")[""]
    return Counter(json.loads(record.value or b'""') for record in found if record.value is not None)


def position(pair: Pair, agent: str) -> int:
    """Of a new snapshot: how far the agent is, with nothing of it left open."""
    topic, partition = f"{pair.input}-{agent}", pair.sent[agent][0][0]
    (cut,) = (cut for cut in pair.snapshot().inputs if (cut.topic, cut.partition) == (topic, partition))
    (found,) = cut.agents
    assert not found.started_above
    return found.offset


def wait_for_members(pair: Pair, side: Side, count: int) -> None:
    """Until a rebalance of the group is over and it has so many members."""
    admin = AdminClient({"bootstrap.servers": pair.bootstrap, "log_level": 0})

    def is_stable() -> bool:
        group = admin.describe_consumer_groups([side.id])[side.id].result(timeout=20)
        return len(group.members) == count and group.state is ConsumerGroupState.STABLE

    wait_until(f"the group {side.id} to have {count} members", is_stable, timeout_s=60, system=side.system)
