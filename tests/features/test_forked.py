"""A real worker as a part of a fork runs like in production, and touches nothing of it; nor can any other client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from snapkafka.kafka import Connection, KafkaTopicAdmin, topic_name
from snapkafka.protocol import prefixed
from snapkafka.testing import Broker, RunningSystem, create_topics, wait_until
from tests.observing import observing

from .harness import produce, read_topics
from .production import ASPECTS, fingerprint, set_up

pytestmark = pytest.mark.timeout(400)

FORK = "f"
P = f"fork.{FORK}."
MODULE = "tests.features.apps.forkable"


def topics_and_groups(bootstrap: str, app: str) -> tuple[dict[str, int], set[str]]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = {
        name: len(it.partitions) for name, it in admin.list_topics(timeout=10).topics.items() if app in name
    }
    groups = {it.group_id for it in admin.list_consumer_groups().result(10).valid if app in it.group_id}
    return topics, groups


@pytest.mark.nightly
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_worker_of_a_fork_touches_nothing_of_production(
    kafka: Broker, tmp_path: Path, guarantee: str
) -> None:
    app, namespace = f"shop{uuid.uuid4().hex[:6]}", f"t{uuid.uuid4().hex[:8]}"
    env = {
        "FEATURES_ID": app,
        "FEATURES_DATA": str(tmp_path / "data"),
        "FEATURES_GUARANTEE": guarantee,
        "SNAPKAFKA_FORK": FORK,
    }
    system = RunningSystem(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    mistyped = system.start_worker("mistyped", env | {"SNAPKAFKA_FORK": "g"}, module=MODULE)
    wait_until("a worker of no fork to end", lambda: mistyped.status is not None, timeout_s=120)
    assert "there is no such fork here" in mistyped.log.read_text()
    system.workers.remove(mistyped)
    mistyped.end()

    create_topics(kafka.bootstrap, f"{app}-in", f"{app}-out", partitions=1)
    create_topics(kafka.bootstrap, f"{P}{app}-in", f"{P}{app}-out", partitions=1)
    before = topics_and_groups(kafka.bootstrap, app)
    with observing(kafka.bootstrap, prefixed(FORK, namespace)) as observer:
        system.start_worker(app, env, module=MODULE)
        produce(kafka.bootstrap, f"{P}{app}-in", [("k", json.dumps(x).encode(), None) for x in "abc"])

        def sent() -> list[tuple[bytes | None, str]]:
            records = read_topics(kafka.bootstrap, f"{P}{app}-", "read_committed").get("out", ())
            return [(it.key, json.loads(it.value)) for it in records if it.value]

        wait_until("three outputs", lambda: len(sent()) == 3, timeout_s=120, system=system, period_s=0.5)
        assert [value for _, value in sent()] == ["A", "AB", "ABC"]
        assert {key for key, _ in sent()} == {b"2"}, "both tries to write elsewhere were refused"
        (hello,) = [view.hello for view in observer.state.living()]
        assert hello.app == f"{P}{app}"
        assert {it.topic for it in hello.inputs} == {
            f"{P}{app}-in",
            f"{P}{app}-inner",
            f"{P}by-{app}-in-value-repartition",
        }
        assert [table.changelog for table in hello.tables] == [f"{P}{app}-seen-changelog"]
    system.stop()
    topics, groups = topics_and_groups(kafka.bootstrap, app)
    made = topics.keys() - before[0].keys()
    assert {name for name in made if not name.startswith(P)} == set()
    assert f"{P}{app}-__assignor-__leader" in made
    assert groups == {f"{P}{app}"}
    assert not any(read_topics(kafka.bootstrap, f"{app}-").values()), "production's topics are empty"
    assert (tmp_path / f"{P}data").is_dir()
    assert not (tmp_path / "data").exists()

    async def production() -> bool:
        admin = KafkaTopicAdmin(Connection(bootstrap=kafka.bootstrap))
        try:
            return topic_name(namespace) not in await admin.describe_topics()
        finally:
            await admin.close()

    assert asyncio.run(production()), "production has no ledger by this"


def harm(bootstrap: str, prefix: str, fork: str = "") -> dict[str, str]:
    """What came of each attempt."""
    env = os.environ | {"FEATURES_BROKER": bootstrap, "FEATURES_PREFIX": prefix}
    env |= {"SNAPKAFKA_FORK": fork} if fork else {}
    done = subprocess.run(
        [sys.executable, "-m", "tests.features.apps.harmful"],
        env=env, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line.partition(": ") for line in done.stdout.splitlines()]
    return {name: came for name, _, came in lines}


def test_a_process_of_a_fork_can_do_no_harm_by_any_client(kafka: Broker) -> None:
    prefix = f"p{uuid.uuid4().hex[:8]}-"
    set_up(kafka.bootstrap, prefix)
    before = fingerprint(kafka.bootstrap, prefix)

    tried = harm(kafka.bootstrap, prefix, fork="staging")
    assert {name: came for name, came in tried.items() if not came.startswith("refused: ")} == {}
    after = fingerprint(kafka.bootstrap, prefix)
    assert {aspect for aspect in ASPECTS if after[aspect] != before[aspect]} == set()

    done = harm(kafka.bootstrap, prefix)
    assert done.keys() == tried.keys()
    assert {name: came for name, came in done.items() if came != "done"} == {}, "it is no harm"
    after = fingerprint(kafka.bootstrap, prefix)
    assert {aspect for aspect in ASPECTS if after[aspect] != before[aspect]} == set(ASPECTS)
