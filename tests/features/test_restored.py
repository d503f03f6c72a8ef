"""Workers of an app that was restored: real Faust on a real broker, with a restore done by hand.

Two agents read one input, each with a table of its own in RocksDB. The snapshot has agent x behind agent y: a group
has one offset, so without the rules of the ledger y would process again what it had processed."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from snapkafka.errors import TimedOutError
from snapkafka.protocol.offsets import AgentPosition, TopicPartition
from snapkafka.protocol.records import RESTORE, Bye, Dead, Hello, LedgerRecord, Restore
from snapkafka.protocol.restores import RESTORED_METADATA
from snapkafka.testing import Worker, wait_until
from snapkafka.wire import headers as wire
from tests.driver.live import Live
from tests.observing import Place
from tests.protocol.world import log_ends

from .harness import produce, read_topics

pytestmark = pytest.mark.timeout(300)

READY_S = 120.0
PLAN = "by-hand"


class App(Live):
    """An app of two agents; its workers run one at a time."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.input, self.of_x, self.of_y = (
            TopicPartition(self.topic(name), 0)
            for name in ("in-letters", "seen-x-changelog", "seen-y-changelog")
        )

    def start_one(self, **env: str) -> Worker:
        disk = {"FEATURES_STORE": "rocksdb://", "SNAPKAFKA_DEMO_DATA": str(self.system.folder / "data")}
        return self.start("tests.features.apps.restorable", **disk, **env)

    def stop(self, worker: Worker) -> None:
        """In order, and until the group has no member."""
        self.system.interrupt(worker)
        self.await_empty_group()

    def write(self, author: int, tp: TopicPartition, key: str, *values: str, seq: int = 0) -> None:
        """Write records of a process; -1: of nobody of ours."""
        header = wire.stamp(self.observer.ledger.ledger_id, wire.tp_check(*tp), 0, max(author, 0), seq)
        headers = [(wire.HEADER, header)] if author >= 0 else []
        records = [(key, json.dumps(value).encode(), None) for value in values]
        produce(self.system.bootstrap, tp.topic, records, partition=0, headers=headers)

    def outputs(self) -> dict[str, list[str]]:
        """What each agent has sent, in order."""
        found: dict[str, list[str]] = {"x": [], "y": []}
        for record in read_topics(self.system.bootstrap, f"{self.app}-").get("out", ()):
            if record.key is not None and not record.key.startswith(b"_sk"):
                found[record.key.decode()[0]].append(json.loads(record.value or b'""'))
        return found

    def await_outputs(self, x: list[str], y: list[str]) -> None:
        with suppress(TimedOutError):
            wait_until("outputs", lambda: self.outputs() == {"x": x, "y": y}, timeout_s=READY_S, period_s=0.5)
        assert self.outputs() == {"x": x, "y": y}

    def commit(self, offset: int, metadata: str = "") -> None:
        self.observer.call(self.observer.admin.commit_positions(self.app, {self.input: offset}, metadata))

    def append(self, record: LedgerRecord) -> int:
        offset: int = self.observer.call(self.observer.ledger.append(record))
        wait_until("it to be read", lambda: self.observer.state.end > offset, timeout_s=20)
        return offset

    def notify(self, stage: Any, **fields: Any) -> None:
        n = random.getrandbits(62)
        self.append(Restore(n=n, plan=PLAN, stage=stage, snapshot="s", apps=(self.app,), **fields))

    def restore(self, late: int) -> None:
        """Restore agent x to ten letters, and y to six. `late` was suspended, wakes up meanwhile, and sends."""
        author = self.append(Hello(n=random.getrandbits(62), app="snapkafka-restore", mode=RESTORE))
        self.notify("begun", author=author)
        ends = self.observer.call(self.observer.admin.log_ends([self.input, self.of_x, self.of_y]))
        self.write(author, self.of_y, '"k"', "abcdef")
        self.write(late, self.input, "k", "Z", seq=99)
        self.write(late, self.of_y, '"k"', "Z", seq=99)
        self.commit(6, RESTORED_METADATA + PLAN)
        self.append(Bye(process=author, n=1))
        starts = tuple(
            AgentPosition(app=self.app, agent=name, topic=self.input.topic, partition=0, offset=offset)
            for name, offset in (("x", 10), ("y", 6))
        )
        self.notify("done", author=author, ends=log_ends(*ends.items()), positions=starts)


def grown(letters: str, start: int = 0) -> list[str]:
    """What an agent sends that has seen so many of them before."""
    return [letters[: n + 1] for n in range(start, len(letters))]


def test_each_agent_of_a_restored_app_goes_on(place: Place) -> None:
    """Where its group has lost its offsets since, it starts only when they are set, whatever its reset policy: by
    `latest` what is in flight would never be read, without a word."""
    topics, tables = ("in-letters", "out"), ("seen-x", "seen-y")
    with App.running(place, topics=topics, tables=tables, partitions=1) as app:
        observer, first = app.observer, app.start_one()
        app.write(-1, app.input, "k", *"abcdefghij")
        x, y = grown("abcdefghij"), grown("abcdefghij")
        app.await_outputs(x, y)
        (old,) = [view.process for view in observer.state.living()]
        app.stop(first)
        app.notify("begun")
        app.append(Dead(n=random.getrandbits(62), dead=old))
        second = app.start_one()
        app.until("it to say that it waits", lambda: "waits: plan by-hand" in second.log.read_text(), READY_S)
        assert not observer.call(observer.admin.group_members(app.app)), "it has not joined its group"
        app.restore(late=old)

        y += grown("abcdefghij", 6)  # from its position; x had processed them all
        app.await_outputs(x, y)
        app.write(-1, app.input, "k", "k")
        x, y = [*x, "abcdefghijk"], [*y, "abcdefghijk"]
        app.await_outputs(x, y)
        log = second.log.read_text()
        assert "before plan by-hand: table seen-y is read again" in log, "the disk held ten letters"
        (cut,) = observer.state.captured(app.take("after", ttl_ms=20_000).epoch).inputs
        assert {agent.offset for agent in cut.agents} == {12}
        app.stop(second)

        # Its broker deletes it with all that it has committed, a week after the last member left.
        client = AdminClient({"bootstrap.servers": place.bootstrap})
        client.delete_consumer_groups([app.app])[app.app].result(30)
        assert app.committed == {}
        refused = app.start_one(FEATURES_RESET="latest")
        wait_until("it to end", lambda: refused.status is not None, timeout_s=READY_S)
        assert refused.status != 0
        assert f"{app.input} (a restore put it at 6)" in refused.log.read_text()
        app.system.kill(refused)
        app.commit(12)
        app.start_one(FEATURES_RESET="latest")
        app.write(-1, app.input, "k", "l")
        app.await_outputs([*x, "abcdefghijkl"], [*y, "abcdefghijkl"])
