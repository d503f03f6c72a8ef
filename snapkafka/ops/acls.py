"""`doctor --acls`: list the rights that each role needs, with the names of the namespace. It needs no rights itself.

Roles are separate, so that none has more than it uses: a service takes part; the operator runs the command; the
assembly job reads everything and changes nothing but the ledger; a reader lists snapshots.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from snapkafka.config import namespace_problem
from snapkafka.errors import BadInputError, SnapkafkaError
from snapkafka.kafka.ledger.kafka_ledger import topic_name
from snapkafka.kafka.ledger.reading import latest_of_apps, opened, outputs_of
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.preflight import OWN_GROUPS
from snapkafka.ports import Cluster
from snapkafka.wire.audit import TOPIC as AUDIT

#: Stand for names that are not known: nobody has joined, or the ledger cannot be read.
SOME_TOPIC: Final = "TOPIC"
SOME_GROUP: Final = "GROUP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Operations that a role needs on some topics, groups, or the cluster. `prefixed`: on all with that prefix.

    `without`: the consequence if it is not granted; empty: the role cannot do its work.
    """

    role: str
    kind: str  # "topic", "group" or "cluster"
    names: tuple[str, ...]
    operations: tuple[str, ...]
    prefixed: bool
    why: str
    without: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """The rights of each role. `guessed`: why names of topics and groups are placeholders; empty: they are real."""

    namespace: str
    rights: tuple[Right, ...]
    guessed: str


@dataclass(frozen=True, slots=True)
class _Names:
    """The topics and groups of a namespace."""

    ledger: str
    audit: str
    own_groups: str
    inputs: tuple[str, ...]
    changelogs: tuple[str, ...]
    outputs: tuple[str, ...]
    apps: tuple[str, ...]


async def rights(where: Connection | Cluster | None, namespace: str) -> Rights:
    """List the rights that each role needs on the topics and groups of a namespace, as its ledger names them.

    Args:
        where: None, an unavailable broker, or an unauthorized ledger: placeholders stand for the names.

    Raises:
        BadInputError: the namespace is invalid.
    """
    if problem := namespace_problem(namespace):
        raise BadInputError(problem, hint="give --namespace, or set SNAPKAFKA_NAMESPACE")
    names, guessed = _placeholders(namespace), "no broker is given"
    if where is not None:
        try:
            names, guessed = await _names(where, namespace), ""
        except SnapkafkaError as error:
            guessed = str(error)
    if not guessed and not names.apps:
        names, guessed = _placeholders(namespace), "no app has joined yet"
    bootstrap = where.bootstrap if isinstance(where, Connection) else "BROKER"
    return Rights(namespace=namespace, rights=tuple(_all(names, bootstrap)), guessed=guessed)


def _placeholders(namespace: str) -> _Names:
    return _Names(
        ledger=topic_name(namespace),
        audit=AUDIT + namespace,
        own_groups=f"{OWN_GROUPS}{namespace}.",
        inputs=(SOME_TOPIC,),
        changelogs=(),
        outputs=(),
        apps=(SOME_GROUP,),
    )


async def _names(where: Connection | Cluster, namespace: str) -> _Names:
    async with opened(where, namespace) as work:
        state = work.reading.state
        views = latest_of_apps(state)
        inputs = {source.topic for view in views for source in view.hello.inputs}
        changelogs = {table.changelog for view in views for table in view.hello.tables}
        return _Names(
            ledger=topic_name(namespace),
            audit=AUDIT + namespace,
            own_groups=f"{OWN_GROUPS}{namespace}.",
            inputs=tuple(sorted(inputs)),
            changelogs=tuple(sorted(changelogs - inputs)),
            outputs=tuple(sorted(outputs_of(state) - inputs - changelogs)),
            apps=tuple(view.hello.app for view in views),
        )


class _Row(NamedTuple):
    """A right of a role: on topics, groups or the cluster. `without`: the consequence if it is not granted."""

    kind: str
    names: tuple[str, ...]
    operations: str
    why: str
    without: str = ""
    prefixed: bool = False


CLUSTER: Final = ("kafka-cluster",)
ANY: Final = ("*",)
NO_MARKERS: Final = "no markers are sent; headers alone mark the cut"
LEFT_OPEN: Final = "VERIFIED_OPEN at best where inputs hold external records"


# fmt: off
def _of_service(names: _Names) -> Iterator[_Row]:
    ledger, taking_part = (names.ledger,), (*names.inputs, *names.changelogs)
    yield _Row("topic", ledger, "Read Write", "to take part")
    yield _Row("topic", ledger, "Create DescribeConfigs", "to create it, and to check its settings",
               "create it beforehand; its settings are not checked")
    yield _Row("topic", taking_part, "Describe", "ends of logs; it has Read and Write on its own topics anyway",
               "snapshots that meet a stopped app fail; assembly reads more")
    yield _Row("group", names.apps, "Describe", "positions of an app that does not run",
               "snapshots that meet a stopped app fail")
    yield _Row("cluster", CLUSTER, "Describe", "for its timer and its page: who reads a topic", NO_MARKERS)
    yield _Row("group", ANY, "Describe", "likewise", NO_MARKERS)
    yield _Row("topic", names.changelogs, "DescribeConfigs", "what compaction may take (V3)",
               "V3 is unverifiable where offsets are missing")
    yield _Row("topic", (names.audit,), "Write", "only audit", "its tables are not audited")


def _of_operator(names: _Names) -> Iterator[_Row]:
    ledger, taking_part = (names.ledger,), (*names.inputs, *names.changelogs)
    yield _Row("topic", ledger, "Read Write DescribeConfigs", "trigger, pause, resume, retire")
    yield _Row("topic", ledger, "Delete", "only checkpoint", "the ledger is never trimmed")
    yield _Row("topic", taking_part, "Describe DescribeConfigs", "ends of logs; doctor",
               "assembly reads more; doctor sees less")
    yield _Row("topic", taking_part, "AlterConfigs", "only doctor --fix", "no doctor --fix")
    yield _Row("cluster", CLUSTER, "Describe", "who reads a topic", NO_MARKERS)
    yield _Row("group", ANY, "Describe", "likewise", NO_MARKERS)
    yield _Row("topic", (names.audit,), "Create Read", "only audit, with the rights of assembly", "no audit")


def _of_assembly(names: _Names) -> Iterator[_Row]:
    taking_part = (*names.inputs, *names.changelogs)
    yield _Row("topic", (names.ledger,), "Read Write", "the snapshot; its verdict")
    yield _Row("topic", (*taking_part, *names.outputs), "Read", "the records themselves")
    yield _Row("topic", taking_part, "DescribeConfigs", "what compaction may have taken (V3), and may yet take",
               "V3 is unverifiable where offsets are missing; the time until which a snapshot is restorable is unknown")
    yield _Row("group", (names.own_groups,), "Read", "positions of the latest snapshot, for tools that show lag",
               "they are not committed", prefixed=True)
    yield _Row("cluster", CLUSTER, "Describe", "who reads outputs", LEFT_OPEN)
    yield _Row("group", ANY, "Describe", "likewise", LEFT_OPEN)


def _of_reader(names: _Names) -> Iterator[_Row]:
    yield _Row("topic", (names.ledger,), "Read", "list, show")
# fmt: on


ROLES: Final = {
    "service": _of_service,
    "operator": _of_operator,
    "assembly": _of_assembly,
    "reader": _of_reader,
}


def _all(names: _Names, bootstrap: str) -> Iterator[Right]:
    """Yield the table, role by role; without the rights on nothing."""
    for role, rows in ROLES.items():
        for row in rows(names):
            operations = tuple(row.operations.split())
            command = _command(bootstrap, role, row.kind, row.names, operations, prefixed=row.prefixed)
            if row.names:
                yield Right(role=role, **row._asdict() | {"operations": operations}, command=command)


def _command(
    bootstrap: str, role: str, kind: str, names: Iterable[str], operations: Iterable[str], *, prefixed: bool
) -> str:
    words = [
        "kafka-acls.sh",
        "--bootstrap-server",
        bootstrap,
        "--add",
        "--allow-principal",
        f"User:{role.upper()}",
    ]
    for operation in operations:
        words += ["--operation", operation]
    if kind == "cluster":
        words.append("--cluster")
    else:
        for name in names:
            words += [f"--{kind}", shlex.quote(name)]
    if prefixed:
        words += ["--resource-pattern-type", "prefixed"]
    return " ".join(words)
