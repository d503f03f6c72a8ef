"""Workers of an app that was restored: real Faust on a real broker, with a restore done by hand.

Two agents read one input, each with a table of its own in RocksDB. The snapshot has agent x behind agent y: a group
has one offset, so without the rules of the ledger y would process again what it had processed."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.admin import AdminClient

from snapkafka.protocol import (
    RESTORE,
    AgentPosition,
    Bye,
    Dead,
    Hello,
    LedgerRecord,
    LogEnd,
    Restore,
    TopicPartition,
)
from snapkafka.protocol.restores import RESTORED_METADATA
from snapkafka.testing import Broker, RunningSystem, Worker, create_topics, wait_until
from snapkafka.wire import headers as wire
from tests.observing import Observer, observing

from .harness import produce, read_topics

pytestmark = pytest.mark.timeout(300)

READY_S = 120.0
PLAN = "by-hand"


class App:
    """One app, its topics, and its workers, one at a time."""

    def __init__(self, bootstrap: str, folder: Path, observer: Observer, **env: str) -> None:
        self.id = f"r{uuid.uuid4().hex[:8]}"
        self.observer = observer
        self.system = RunningSystem(bootstrap=bootstrap, namespace=observer.namespace, folder=folder)
        self.env = {"FEATURES_ID": self.id, "FEATURES_DATA": str(folder / "data"), **env}
        self.input = TopicPartition(f"{self.id}-in", 0)
        self.changelogs = {name: TopicPartition(f"{self.id}-seen-{name}-changelog", 0) for name in ("x", "y")}
        create_topics(bootstrap, self.input.topic, f"{self.id}-out", partitions=1)
        changelogs = [tp.topic for tp in self.changelogs.values()]
        create_topics(bootstrap, *changelogs, partitions=1, config={"cleanup.policy": "compact"})

    def start(self, **env: str) -> Worker:
        return self.system.start_worker(self.id, self.env | env, module="tests.features.apps.restorable")

    def stop(self, worker: Worker) -> None:
        """In order, and until the group has no member."""
        self.system.interrupt(worker)
        wait_until(
            "the group to be empty",
            lambda: not self.call(self.observer.admin.group_members(self.id)),
            timeout_s=60,
        )

    def call(self, work: Any) -> Any:
        return self.observer.call(work)

    def send(self, letters: str) -> None:
        produce(
            self.system.bootstrap,
            self.input.topic,
            [("k", json.dumps(letter).encode(), None) for letter in letters],
        )

    def outputs(self) -> dict[str, list[str]]:
        """What each agent has sent, in order."""
        found: dict[str, list[str]] = {"x": [], "y": []}
        for record in read_topics(self.system.bootstrap, f"{self.id}-", "read_committed").get("out", ()):
            if record.key is not None and not record.key.startswith(b"_sk"):
                found[record.key.decode()[0]].append(json.loads(record.value or b'""'))
        return found

    def await_outputs(
        self, what: str, condition: Callable[[dict[str, list[str]]], bool]
    ) -> dict[str, list[str]]:
        wait_until(what, lambda: condition(self.outputs()), timeout_s=READY_S, period_s=0.5)
        return self.outputs()

    def forget_group(self) -> None:
        """Delete the group with all that it has committed, as its broker does a week after the last member left."""
        client = AdminClient({"bootstrap.servers": self.system.bootstrap})
        (done,) = client.delete_consumer_groups([self.id]).values()
        done.result(30)
        assert self.call(self.observer.admin.committed(self.id)) == {}

    # -- a restore by hand ----------------------------------------------------------------------------------------

    def append(self, record: LedgerRecord) -> int:
        offset: int = self.call(self.observer.ledger.append(record))
        wait_until("it to be read", lambda: self.observer.state.end > offset, timeout_s=20)
        return offset

    def notify(self, stage: Any, **fields: Any) -> int:
        n = random.getrandbits(62)
        return self.append(Restore(n=n, plan=PLAN, stage=stage, snapshot="s", apps=(self.id,), **fields))

    def write(self, author: int, tp: TopicPartition, key: bytes, value: bytes, seq: int = 0) -> None:
        header = wire.stamp(self.observer.ledger.ledger_id, wire.tp_check(*tp), 0, author, seq)

        async def send() -> None:
            async with AIOKafkaProducer(bootstrap_servers=self.system.bootstrap) as producer:
                await producer.send_and_wait(
                    tp.topic, key=key, value=value, partition=0, headers=[(wire.HEADER, header)]
                )

        asyncio.run(send())

    def run_and_begin_restore(self) -> int:
        """Read ten letters, stop, and begin a restore; return the process that has read them."""
        first = self.start()
        self.send("abcdefghij")
        self.await_outputs(
            "both to have read all", lambda found: all(len(sent) == 10 for sent in found.values())
        )
        (old,) = [view.process for view in self.observer.state.living()]
        self.stop(first)
        self.notify("begun")
        self.append(Dead(n=random.getrandbits(62), dead=old))
        return old

    def finish_restore(self, *, late: int | None = None) -> None:
        """Restore agent x to ten letters, and y to six.

        Args:
            late: a suspended worker that wakes up meanwhile, and sends.
        """
        author = self.append(Hello(n=random.getrandbits(62), app="snapkafka-restore", mode=RESTORE))
        self.notify("begun", author=author)
        ends = self.call(self.observer.admin.log_ends([self.input, *self.changelogs.values()]))
        self.write(author, self.changelogs["y"], b'"k"', json.dumps("abcdef").encode())
        if late is not None:
            self.write(late, self.input, b"k", b'"Z"', seq=99)
            self.write(late, self.changelogs["y"], b'"k"', b'"Z"', seq=99)
        self.call(self.observer.admin.commit_positions(self.id, {self.input: 6}, RESTORED_METADATA + PLAN))
        self.append(Bye(process=author, n=1))
        self.notify(
            "done",
            author=author,
            ends=tuple(LogEnd(topic=tp.topic, partition=tp.partition, end=end) for tp, end in ends.items()),
            positions=tuple(
                AgentPosition(app=self.id, agent=name, topic=self.input.topic, partition=0, offset=offset)
                for name, offset in (("x", 10), ("y", 6))
            ),
        )


@pytest.fixture
def observer(kafka: Broker) -> Iterator[Observer]:
    with observing(kafka.bootstrap, f"t{uuid.uuid4().hex[:8]}") as found:
        yield found


def test_a_restored_app_goes_on_where_each_of_its_agents_stood(
    kafka: Broker, observer: Observer, tmp_path: Path
) -> None:
    """Where its group has lost its offsets since, it starts only when they are set, whatever its reset policy: by
    `latest` what is in flight would never be read, without a word."""
    app = App(kafka.bootstrap, tmp_path, observer)
    old = app.run_and_begin_restore()
    second = app.start()
    wait_until(
        "it to say that it waits", lambda: "waits: plan by-hand" in second.log.read_text(), timeout_s=READY_S
    )
    assert not app.call(observer.admin.group_members(app.id)), "it has not joined its group"
    app.finish_restore(late=old)

    found = app.await_outputs(
        "y to have gone on", lambda found: found["y"][-1:] == ["abcdefghij"] and len(found["y"]) > 10
    )
    app.send("k")
    found = app.await_outputs(
        "both to have read the next", lambda found: all("k" in s[-1] for s in found.values())
    )
    assert found["x"][10:] == ["abcdefghijk"], "x had processed them all"
    assert found["y"][10:] == ["abcdefg", "abcdefgh", "abcdefghi", "abcdefghij", "abcdefghijk"], (
        "y from its position"
    )
    log = second.log.read_text()
    assert "before plan by-hand: table seen-y is read again" in log, "the disk held ten letters"
    (cut,) = observer.state.captured(observer.take("after", ttl_ms=20_000).epoch).inputs
    assert {agent.offset for agent in cut.agents} == {12}
    app.stop(second)

    app.forget_group()
    refused = app.start(FEATURES_RESET="latest")
    wait_until("it to end", lambda: refused.status is not None, timeout_s=READY_S)
    assert refused.status != 0
    assert f"--group {app.id} --topic {app.input.topic}:0 --to-offset 6" in refused.log.read_text()
    app.call(observer.admin.commit_positions(app.id, {app.input: 12}, ""))
    third = app.start(FEATURES_RESET="latest")
    app.send("l")
    found = app.await_outputs("both to go on", lambda found: all("l" in sent[-1] for sent in found.values()))
    assert {name: sent[-1] for name, sent in found.items()} == dict.fromkeys("xy", "abcdefghijkl")
    app.stop(third)
    app.system.stop()
