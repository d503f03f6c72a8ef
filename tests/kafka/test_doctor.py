"""`doctor --fix` and `--acls` on real brokers: settings changed and taken back, rights that are just enough."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import shlex
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer

from snapkafka import ops
from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.protocol import Bye, Hello, InputTopic, Status, Table, TopicPartition
from tests.kafka.guarding import guarded_broker, login
from tests.kafka.processes import process
from tests.kafka.test_ops import command
from tests.kafka.waiting import until

if TYPE_CHECKING:
    from snapkafka.testing import EmbeddedKafka


WINDOWS = {"cleanup.policy": "compact,delete", "retention.ms": "60000", "min.compaction.lag.ms": "3600000"}
#: A record of three bytes, alone in its batch.
RECORD_BYTES = 71


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


async def own_settings(admin: KafkaTopicAdmin, topic: str) -> dict[str, str]:
    return (await admin.topic_settings(topic))[1]


async def shows(admin: KafkaTopicAdmin, topic: str, **expected: str) -> None:
    wanted = {name.replace("_", "."): value for name, value in expected.items()}

    async def seen() -> bool:
        return await own_settings(admin, topic) == WINDOWS | wanted

    await until(seen)


async def test_the_windowed_table_is_fixed_and_the_way_back_leads_back(
    connection: Connection, admin: KafkaTopicAdmin, namespace: str, changelog: str
) -> None:
    (advice,) = [a for a in (await ops.doctor(connection, namespace)).found if changelog in a.what]
    assert advice.code == "retention"
    assert "keeps records for 1 min, assembly needs them for 1 h 1 min" in advice.what
    (planned_fix,) = await ops.plan_fixes(connection, namespace)
    assert planned_fix.keeps == "unknown: the topic is empty"
    (fixed,) = await ops.apply_fixes(connection, namespace, (planned_fix,))
    assert (fixed.done, fixed.now) == (True, {"retention.ms": "3660000"})
    await shows(admin, changelog, retention_ms="3660000")  # and nothing else is another
    assert await ops.plan_fixes(connection, namespace) == ()

    await kafkas_own_tool(planned_fix.undo)
    await shows(admin, changelog)


async def kafkas_own_tool(line: str) -> None:
    """Run a line for `kafka-configs.sh`; the script does no more than this."""
    from snapkafka.runtime import JarSet, jars, java

    tools = JarSet(name="tools", modules=("org.apache.kafka:kafka-tools:4.4.0",), transitive=True)
    script, *words = shlex.split(line)
    assert script == "kafka-configs.sh"
    done = await asyncio.create_subprocess_exec(
        str(java().executable), "-cp", os.pathsep.join(map(str, jars(tools))),
        "org.apache.kafka.tools.ConfigCommand", *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await asyncio.wait_for(done.communicate(), 120)
    assert done.returncode == 0, said.decode()


async def test_what_it_keeps_longer_is_worked_out_from_what_is_there(
    connection: Connection, admin: KafkaTopicAdmin, namespace: str, changelog: str
) -> None:
    """One record in twenty minutes: one and a half more in the half hour that is added."""
    written_ms = round(time.time() * 1_000) - 1_200_000
    async with AIOKafkaProducer(bootstrap_servers=connection.bootstrap) as producer:
        await admin.alter_settings(changelog, {"retention.ms": "1800000"})
        await producer.send_and_wait(changelog, b"x", b"k", partition=0, timestamp_ms=written_ms)
    assert await admin.oldest_ms(changelog) == written_ms
    (size,) = (await admin.log_bytes(changelog)).values()
    assert size == pytest.approx(RECORD_BYTES, abs=10)
    (planned_fix,) = await ops.plan_fixes(connection, namespace, assembly_within_ms=3_540_000)
    assert planned_fix.keeps_bytes == pytest.approx(1.5 * size, abs=3)
    assert "on each replica, at its present growth" in planned_fix.keeps


async def fix_on_a_terminal(connection: Connection, namespace: str, answer: str) -> tuple[int, str]:
    """The command with a terminal for its standard input; status and what it said."""
    ours, theirs = pty.openpty()
    try:
        environment = os.environ | {
            "SNAPKAFKA_BOOTSTRAP": connection.bootstrap,
            "SNAPKAFKA_NAMESPACE": namespace,
        }
        done = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "snapkafka.cli", "doctor", "--fix",
            stdin=theirs, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=environment,
        )  # fmt: skip
        os.write(ours, f"{answer}\n".encode())
        out, _ = await asyncio.wait_for(done.communicate(), 120)
    finally:
        os.close(theirs)
        os.close(ours)
    assert done.returncode is not None
    return done.returncode, out.decode()


async def test_it_asks_and_obeys(
    connection: Connection, admin: KafkaTopicAdmin, namespace: str, changelog: str
) -> None:
    status, reported, _ = await command(connection, namespace, "doctor", "--fix")
    assert (status, reported["error"]["code"]) == (2, "bad-input")
    status, said = await fix_on_a_terminal(connection, namespace, "n")
    assert (status, "nothing was changed" in said) == (1, True), said
    assert "retention.ms: 60000 -> 3660000" in said
    await shows(admin, changelog)
    status, said = await fix_on_a_terminal(connection, namespace, "y")
    assert status == 0, said
    assert f"changed {changelog}: now retention.ms=3660000" in said
    await shows(admin, changelog, retention_ms="3660000")


async def test_a_value_that_the_broker_refuses_is_reported(admin: KafkaTopicAdmin, changelog: str) -> None:
    with pytest.raises(LedgerUnusableError, match=r"could not change retention.ms of topic .*Invalid value"):
        await admin.alter_settings(changelog, {"retention.ms": "soon"})
    await shows(admin, changelog)


# -- rights ---------------------------------------------------------------------------------------------------


USERS = ("SERVICE", "OPERATOR", "ASSEMBLY", "READER")


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[EmbeddedKafka, str]]:
    with guarded_broker(USERS) as found:
        yield found


def grant(bootstrap: str, lines: list[str]) -> None:
    """Do what these lines of `kafka-acls.sh` say."""
    import argparse

    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--topic", action="append", default=[])
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--resource-pattern-type", default="literal")
    operations = {
        "Read": AclOperation.READ, "Write": AclOperation.WRITE, "Create": AclOperation.CREATE,
        "Describe": AclOperation.DESCRIBE, "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
        "AlterConfigs": AclOperation.ALTER_CONFIGS, "Delete": AclOperation.DELETE,
    }  # fmt: skip
    wanted = []
    for line in lines:
        script, *words = shlex.split(line)
        assert script == "kafka-acls.sh"
        given = parser.parse_args(words)
        resources = [(ResourceType.TOPIC, name) for name in given.topic]
        resources += [(ResourceType.GROUP, name) for name in given.group]
        resources += [(ResourceType.BROKER, "kafka-cluster")] if given.cluster else []
        pattern = ResourcePatternType[given.resource_pattern_type.upper()]
        wanted += [
            AclBinding(
                kind, name, pattern, given.allow_principal, "*", operations[op], AclPermissionType.ALLOW
            )
            for kind, name in resources
            for op in given.operation
        ]
    client = AdminClient({"bootstrap.servers": bootstrap})
    for future in client.create_acls(wanted).values():
        future.result(60)


async def refused(work: Callable[[], Coroutine[Any, Any, object]]) -> bool:
    try:
        await work()
    except LedgerUnusableError:
        return True
    return False


async def test_the_rights_that_are_printed_are_what_each_role_needs(
    guarded: tuple[EmbeddedKafka, str], namespace: str, topic_prefix: str
) -> None:
    """Before they are granted nobody can do anything; with the lines as printed each can do its work, and no more."""
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
    guessed = await ops.rights(as_operator, namespace)
    assert "not allowed" in guessed.guessed
    found = await ops.rights(open_door, namespace)
    assert found.guessed == ""
    grant(broker.bootstrap, [right.command for right in found.rights])

    async def granted() -> bool:
        return not await refused(lambda: ops.list_snapshots(as_reader, namespace))

    await until(granted)

    # the reader reads, and cannot ask for anything
    assert await refused(lambda: ops.pause(as_reader, namespace))
    reported = {advice.code for advice in (await ops.doctor(as_reader, namespace)).found}
    assert {"ledger-rights", "topics-unseen", "groups-unseen"} <= reported
    # a service joins; the operator triggers, with ends and with every reader seen, and is told what to mend
    async with process(login(address, "SERVICE"), namespace, topic):
        taken = await ops.trigger(as_operator, namespace, snapshot_id="s", wait=True)
        assert taken.status is Status.CAPTURED
        found_now = {advice.code: advice.what for advice in (await ops.doctor(as_operator, namespace)).found}
        assert f"group {group} reads {topic}" in found_now["external-reader"]
        assert "retention" in found_now
        assert not found_now.keys() & {
            "ledger-rights",
            "topics-unseen",
            "settings-unseen",
            "groups-unseen",
            "ledger-unseen",
        }
    assert await service_sees(login(address, "SERVICE"), topic, group)
    fixed = await ops.apply_fixes(as_operator, namespace, await ops.plan_fixes(as_operator, namespace))
    assert [item.done for item in fixed] == [True]
    now_ms = round(time.time() * 1_000) + 60_000
    assert (await ops.checkpoint(as_operator, namespace, now_ms=now_ms, keep_ms=0)).records > 5
    # nobody else may
    for role in ("service", "assembly", "reader"):
        other = KafkaTopicAdmin(login(address, role.upper()))
        assert await refused(lambda other=other: other.alter_settings(topic, {"retention.ms": "1"})), role  # type: ignore[misc]
        await other.close()
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
        admin = KafkaTopicAdmin(connection)
        try:
            await admin.committed(group)
            return group in {found.name for found in await admin.groups()} and bool(
                await admin.log_ends([TopicPartition(topic, 0)])
            )
        finally:
            await admin.close()
    return False
