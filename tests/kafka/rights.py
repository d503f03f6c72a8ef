"""The rights of each role as docs/reference/ledger.md lists them, granted on a broker."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import admin

LEDGER_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "ledger.md"


class Right(NamedTuple):
    """An operation that a role needs on a topic, a group or the cluster."""

    role: str
    kind: str
    name: str
    operation: str
    prefixed: bool = False


def rights(
    namespace: str, *, inputs: Iterable[str], changelogs: Iterable[str] = (), apps: Iterable[str] = ()
) -> list[Right]:
    """Return the rights of the page's table, with the names of a namespace."""
    names: Mapping[str, list[str]] = {
        "LEDGER": [f"_snapkafka.{namespace}"],
        "INPUTS": [*inputs], "CHANGELOGS": [*changelogs], "OUTPUTS": [], "APPS": [*apps],
        "CLUSTER": ["kafka-cluster"], "ANY": ["*"], "OWN": [f"snapkafka.{namespace}."],
    }  # fmt: skip
    table = LEDGER_PAGE.read_text("utf-8").partition("| role | on | operations |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return [
        Right(role, on.split()[0], name, operation, prefixed=word == "OWN")
        for role, on, operations, _ in rows
        for word in on.partition(" ")[2].split(", ")
        for name in names[word]
        for operation in operations.split(", ")
    ]


def grant(bootstrap: str, wanted: Iterable[Right]) -> None:
    """Grant rights to users that have the names of the roles, in capitals."""
    of = admin.ResourceType
    kinds = {"topic": of.TOPIC, "group": of.GROUP, "cluster": of.BROKER}
    operations = {"".join(name.title().split("_")): it for name, it in admin.AclOperation.__members__.items()}
    patterns = (admin.ResourcePatternType.LITERAL, admin.ResourcePatternType.PREFIXED)
    bindings = [
        admin.AclBinding(
            kinds[it.kind], it.name, patterns[it.prefixed], f"User:{it.role.upper()}", "*",
            operations[it.operation], admin.AclPermissionType.ALLOW,
        )
        for it in wanted
    ]  # fmt: skip
    client = admin.AdminClient({"bootstrap.servers": bootstrap})  # it must outlive its futures
    for future in client.create_acls(bindings).values():
        future.result(60)
