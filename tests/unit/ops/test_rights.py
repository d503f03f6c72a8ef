"""`doctor --acls`: the rights of each role, with the names of the namespace; it needs none itself."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import verbs as commands
from snapkafka.errors import BadInputError, LedgerUnusableError
from tests.worlds.fakes import FakeCluster, Worker

ROLES = ["service", "operator", "assembly", "reader"]


@pytest.fixture
async def cluster() -> FakeCluster:
    made = FakeCluster()
    Worker(made.the_ledger, "shop", "orders", sends=("bills",))
    await ops.trigger(made, "ns")
    return made


async def test_names_are_those_of_the_ledger(cluster: FakeCluster) -> None:
    found = await ops.rights(cluster, "ns")
    assert found.guessed == ""
    assert list(dict.fromkeys(right.role for right in found.rights)) == ROLES
    of_assembly = {right.names: right for right in found.rights if right.role == "assembly"}
    topics_and_groups = {("_snapkafka.ns",), ("orders", "bills"), ("orders",), ("snapkafka.ns.",)}
    assert set(of_assembly) == topics_and_groups | {("kafka-cluster",), ("*",)}
    assert of_assembly["snapkafka.ns.",].command == (
        "kafka-acls.sh --bootstrap-server BROKER --add --allow-principal User:ASSEMBLY --operation Read "
        "--group snapkafka.ns. --resource-pattern-type prefixed"
    )
    altering = {right.role: right for right in found.rights if "AlterConfigs" in right.operations}
    assert {role: right.names for role, right in altering.items()} == {"operator": ("orders",)}
    assert any(right.names == ("shop",) and right.kind == "group" for right in found.rights)


async def test_without_rights_placeholders_stand_for_the_names(cluster: FakeCluster) -> None:
    cluster.the_ledger.failure = LedgerUnusableError("not allowed to read _snapkafka.ns")
    found = await ops.rights(cluster, "ns")
    assert found.guessed == "not allowed to read _snapkafka.ns"
    assert ("TOPIC",) in {right.names for right in found.rights}
    assert ("_snapkafka.ns",) in {right.names for right in found.rights}
    assert (await ops.rights(None, "ns")).guessed == "no broker is given"
    assert (await ops.rights(FakeCluster(), "ns")).guessed == "no app has joined yet"


async def test_a_namespace_that_is_none() -> None:
    with pytest.raises(BadInputError):
        await ops.rights(None, "")


def test_the_command_needs_no_broker() -> None:
    result = CliRunner().invoke(
        commands.app, ["doctor", "--acls", "--namespace", "ns"], env={"SNAPKAFKA_BOOTSTRAP": ""}
    )
    assert result.exit_code == 0, result.output
    assert "_snapkafka.ns" in result.stdout
    assert "--allow-principal User:READER --operation Read --topic _snapkafka.ns\n" in result.stdout
    assert "TOPIC and GROUP are placeholders: no broker is given" in result.stdout
