"""`doctor` on real brokers: the printed commands change settings and take them back; rights that are just enough."""

import os
import shlex
import subprocess
from collections.abc import Awaitable, Iterator

import pytest

from snapkafka import ops
from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.protocol import Hello, InputTopic, Status, Table, TopicPartition
from snapkafka.protocol.records import Bye, Checkpoint
from snapkafka.testing import EmbeddedKafka
from snapkafka.units import wall_ms
from tests.kafka.doors import guarded_broker, login
from tests.kafka.processes import process
from tests.kafka.rights import grant, rights
from tests.kafka.waiting import becomes

WINDOWS = {"cleanup.policy": "compact,delete", "retention.ms": "60000", "min.compaction.lag.ms": "3600000"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[EmbeddedKafka, str]]:
    with guarded_broker(("SERVICE", "OPERATOR", "ASSEMBLY", "READER")) as found:
        yield found


@pytest.fixture(scope="module")
def kafka(guarded: tuple[EmbeddedKafka, str]) -> EmbeddedKafka:
    """By its open door."""
    return guarded[0]


@pytest.mark.nightly  # Kafka's tool has fifty jars of its own
async def test_the_printed_command_fixes_a_windowed_table_and_the_other_undoes_it(
    connection: Connection, admin: KafkaTopicAdmin, ledger: KafkaLedger, namespace: str
) -> None:
    """Of a table as Faust makes it, whose app has joined."""
    await admin.create_topic(namespace, settings=WINDOWS)
    table = Table(name="windows", changelog=namespace, partitions=1, expires_ms=60_000)
    await ledger.append(Hello(n=1, app="shop", host="box", pid=7, tables=(table,)))
    (advice,) = [a for a in (await ops.doctor(connection, namespace)).found if a.subject == namespace]
    assert advice.code == "retention"

    async def own() -> dict[str, str]:
        return (await admin.topic_settings(namespace))[1]

    for command, retention_ms in ((advice.command, "3660000"), (advice.undo, WINDOWS["retention.ms"])):
        run(command)
        await becomes(own, WINDOWS | {"retention.ms": retention_ms})  # and nothing else is another
        found = {advice.subject for advice in (await ops.doctor(connection, namespace)).found}
        assert (namespace in found) == (command == advice.undo)


def run(command: str) -> None:
    """Run a line for `kafka-configs.sh`, Kafka's own tool; the script does no more than this."""
    from snapkafka.runtime import java
    from tests.servers.jars import jars_with_dependencies

    tools = os.pathsep.join(map(str, jars_with_dependencies("org.apache.kafka:kafka-tools:4.4.0")))
    script, *words = shlex.split(command)
    assert script == "kafka-configs.sh"
    line = [str(java().executable), "-cp", tools, "org.apache.kafka.tools.ConfigCommand", *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


async def told(where: Connection, namespace: str) -> tuple[object, ...]:
    """What a tool tells of snapshot `s`."""
    shown = await ops.show(where, namespace, "s")
    return await ops.list_snapshots(where, namespace), shown.processes


async def refused(work: Awaitable[object]) -> bool:
    try:
        await work
    except LedgerUnusableError:
        return True
    return False


async def test_the_rights_of_the_page_are_what_each_role_needs(
    guarded: tuple[EmbeddedKafka, str], admin: KafkaTopicAdmin, ledger: KafkaLedger, namespace: str
) -> None:
    """Before they are granted nobody can do anything; with those of the page each can do its work, and no more."""
    broker, address = guarded
    topic, group = f"{namespace}-orders", f"{namespace}-reports"
    place = TopicPartition(topic, 0)
    await admin.create_topic(topic, settings={"retention.ms": "60000"})
    await admin.commit_positions(group, {place: 0}, "an external one")
    hello = Hello(n=1, app="shop", inputs=(InputTopic(topic=topic, partitions=1),))
    await ledger.append(Bye(process=await ledger.append(hello), n=2))

    roles = {name: login(address, name.upper()) for name in ("service", "operator", "assembly", "reader")}
    assert await refused(ops.list_snapshots(roles["reader"], namespace))
    grant(broker.bootstrap, rights(namespace, inputs=[topic], apps=["shop"]))
    await becomes(lambda: refused(ops.list_snapshots(roles["reader"], namespace)), False)

    # the reader reads, and cannot ask for anything
    assert await refused(ops.pause(roles["reader"], namespace))
    reported = {advice.code for advice in (await ops.doctor(roles["reader"], namespace)).found}
    assert {"topics-unseen", "groups-unseen"} <= reported
    # a service joins; the operator triggers, with ends and with every reader seen, and is told what to fix
    now_ms = wall_ms() + 60_000
    async with process(roles["service"], namespace, topic):
        taken = await ops.trigger(roles["operator"], namespace, snapshot_id="s", wait=True)
        assert taken.status is Status.CAPTURED
        found = {it.code: it.what for it in (await ops.doctor(roles["operator"], namespace)).found}
        assert group in found["external-reader"] and topic in found["external-reader"]
        assert "retention" in found
        assert not found.keys() & {"topics-unseen", "settings-unseen", "groups-unseen"}
        # it alone trims the ledger, under a process that runs; another reads it from where it begins now
        before = await told(roles["reader"], namespace)
        for role in ("service", "assembly", "reader", "operator"):
            trims = ops.checkpoint(roles[role], namespace, now_ms=now_ms, keep_ms=0)
            assert await refused(trims) == (role != "operator"), role
        first = await anext(ledger.read(0))
        assert isinstance(first.record, Checkpoint) and 3 < first.offset == await ledger.start() - 1
        assert await told(roles["reader"], namespace) == before
        after = await ops.trigger(roles["operator"], namespace, snapshot_id="after", wait=True)
        assert after.status is Status.CAPTURED
    # a service sees where an app stands that does not run, and who reads a topic
    async with KafkaTopicAdmin(roles["service"]) as service:
        assert await service.committed(group) == {place: (0, "an external one")}
        assert group in {it.name for it in await service.groups()}
        assert await service.log_ends([place]) == {place: 0}
    # assembly reads the topics, and commits where a snapshot stood
    async with KafkaTopicAdmin(roles["assembly"]) as job:
        assert await job.log_ends([place]) == {place: 0}
        assert (await job.topic_settings(topic))[0]["cleanup.policy"] == "delete"
        await job.commit_positions(f"snapkafka.{namespace}.shop", {place: 0}, "s")
        assert await refused(job.commit_positions("another", {place: 0}, "s"))
