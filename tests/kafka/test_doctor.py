"""`doctor` on real brokers: the printed commands change settings and take them back; rights that are just enough."""

import asyncio
import contextlib
import os
import shlex
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.protocol import Bye, Hello, InputTopic, Status, Table, TopicPartition
from snapkafka.testing import EmbeddedKafka
from tests.kafka.doors import guarded_broker, login
from tests.kafka.processes import process
from tests.kafka.rights import grant, rights
from tests.kafka.waiting import until

WINDOWS = {"cleanup.policy": "compact,delete", "retention.ms": "60000", "min.compaction.lag.ms": "3600000"}


@pytest.fixture
async def changelog(connection: Connection, admin: KafkaTopicAdmin, namespace: str, topic_prefix: str) -> str:
    """That of a windowed table, as Faust makes it; its app has joined."""
    name = f"{topic_prefix}windows-changelog"
    await admin.create_topic(name, settings=WINDOWS)
    table = Table(name="windows", changelog=name, partitions=1, expires_ms=60_000)
    ledger = KafkaLedger(connection, namespace)
    await ledger.open()
    await ledger.append(Hello(n=1, app="shop", host="box", pid=7, tables=(table,)))
    await ledger.close()
    return name


async def shows(admin: KafkaTopicAdmin, topic: str, retention_ms: str) -> None:
    async def seen() -> bool:
        return (await admin.topic_settings(topic))[1] == WINDOWS | {"retention.ms": retention_ms}

    await until(seen)


@pytest.mark.nightly  # Kafka's tool has fifty jars of its own
async def test_the_printed_command_fixes_a_windowed_table_and_the_other_undoes_it(
    connection: Connection, admin: KafkaTopicAdmin, namespace: str, changelog: str
) -> None:
    (advice,) = [a for a in (await ops.doctor(connection, namespace)).found if a.subject == changelog]
    assert advice.code == "retention"
    await kafkas_own_tool(advice.command)
    await shows(admin, changelog, "3660000")  # and nothing else is another
    assert all(a.subject != changelog for a in (await ops.doctor(connection, namespace)).found)

    await kafkas_own_tool(advice.undo)
    await shows(admin, changelog, WINDOWS["retention.ms"])


async def kafkas_own_tool(line: str) -> None:
    """Run a line for `kafka-configs.sh`; the script does no more than this."""
    from snapkafka.runtime import java
    from tests.servers.jars import jars_with_dependencies

    tools = jars_with_dependencies("org.apache.kafka:kafka-tools:4.4.0")
    script, *words = shlex.split(line)
    assert script == "kafka-configs.sh"
    done = await asyncio.create_subprocess_exec(
        str(java().executable), "-cp", os.pathsep.join(map(str, tools)),
        "org.apache.kafka.tools.ConfigCommand", *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await asyncio.wait_for(done.communicate(), 120)
    assert done.returncode == 0, said.decode()


# -- rights ---------------------------------------------------------------------------------------------------


USERS = ("SERVICE", "OPERATOR", "ASSEMBLY", "READER")


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[EmbeddedKafka, str]]:
    with guarded_broker(USERS) as found:
        yield found


async def refused(work: Callable[[], Coroutine[Any, Any, object]]) -> bool:
    try:
        await work()
    except LedgerUnusableError:
        return True
    return False


async def test_the_rights_of_the_page_are_what_each_role_needs(
    guarded: tuple[EmbeddedKafka, str], namespace: str, topic_prefix: str
) -> None:
    """Before they are granted nobody can do anything; with those of the page each can do its work, and no more."""
    broker, address = guarded
    open_door = Connection(bootstrap=broker.bootstrap)
    topic, group = f"{topic_prefix}orders", f"{topic_prefix}reports"
    admin = KafkaTopicAdmin(open_door)
    await admin.create_topic(topic, settings={"retention.ms": "60000"})
    await admin.commit_positions(group, {TopicPartition(topic, 0): 0}, "a stranger")
    ledger = KafkaLedger(open_door, namespace)
    await ledger.open()
    hello = Hello(n=1, app="shop", inputs=(InputTopic(topic=topic, partitions=1),))
    await ledger.append(Bye(process=await ledger.append(hello), n=2))
    await ledger.close()

    as_reader, as_operator = login(address, "READER"), login(address, "OPERATOR")
    assert await refused(lambda: ops.list_snapshots(as_reader, namespace))
    grant(broker.bootstrap, rights(namespace, inputs=[topic], apps=["shop"]))

    async def granted() -> bool:
        return not await refused(lambda: ops.list_snapshots(as_reader, namespace))

    await until(granted)

    # the reader reads, and cannot ask for anything
    assert await refused(lambda: ops.pause(as_reader, namespace))
    reported = {advice.code for advice in (await ops.doctor(as_reader, namespace)).found}
    assert {"topics-unseen", "groups-unseen"} <= reported
    # a service joins; the operator triggers, with ends and with every reader seen, and is told what to mend
    async with process(login(address, "SERVICE"), namespace, topic):
        taken = await ops.trigger(as_operator, namespace, snapshot_id="s", wait=True)
        assert taken.status is Status.CAPTURED
        found_now = {advice.code: advice.what for advice in (await ops.doctor(as_operator, namespace)).found}
        assert f"group {group} reads {topic}" in found_now["external-reader"]
        assert "retention" in found_now
        assert not found_now.keys() & {"topics-unseen", "settings-unseen", "groups-unseen"}
    assert await service_sees(login(address, "SERVICE"), topic, group)
    now_ms = round(time.time() * 1_000) + 60_000
    assert (await ops.checkpoint(as_operator, namespace, now_ms=now_ms, keep_ms=0)).records > 5
    # nobody else may
    for role in ("service", "assembly", "reader"):
        as_other = login(address, role.upper())
        assert await refused(
            lambda where=as_other: ops.checkpoint(where, namespace, now_ms=now_ms, keep_ms=0)  # type: ignore[misc]
        ), role
    # assembly reads the topics, and commits where a snapshot stood
    job = KafkaTopicAdmin(login(address, "ASSEMBLY"))
    place = TopicPartition(topic, 0)
    assert await job.log_ends([place]) == {place: 0}
    assert (await job.topic_settings(topic))[0]["cleanup.policy"] == "delete"
    await job.commit_positions(f"snapkafka.{namespace}.shop", {place: 0}, "s")
    assert await refused(lambda: job.commit_positions("another", {place: 0}, "s"))
    for one in (job, admin):
        await one.close()


async def service_sees(connection: Connection, topic: str, group: str) -> bool:
    """Where an app stands that does not run, and who reads a topic."""
    with contextlib.suppress(LedgerUnusableError):
        async with KafkaTopicAdmin(connection) as admin:
            await admin.committed(group)
            seen = group in {found.name for found in await admin.groups()}
            return seen and bool(await admin.log_ends([TopicPartition(topic, 0)]))
    return False
