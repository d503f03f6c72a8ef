"""The report of a drill as evidence: the id, digests, the RTO by phase, rows, and what it does not show."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest
from msgspec import structs

from snapkafka import __version__, ops
from snapkafka.assembly import check_entries
from snapkafka.errors import BadInputError, DependencyMissingError, ForkFailedError
from snapkafka.kafka import Connection
from snapkafka.manifest_entries import CheckEntry
from snapkafka.ops.drill import parts as parts_module
from snapkafka.ops.drill import phases
from snapkafka.ops.drill.evidence import NEVER_SHOWN, new_id, versions, with_rows_read
from snapkafka.ops.drill.parts import KafkaParts
from snapkafka.protocol import Uncaptured, fork_problem

from .test_drill import CHECKS, WHERE, FakeParts, assembled, marker, run, until_started

__all__ = ["marker"]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "POLL_S", 0.02)


@pytest.fixture
async def found(marker: Path) -> ops.Drill:
    """A drill in which nothing went wrong."""
    source = structs.replace(
        assembled(),
        not_compared=("table around: it is open-ended",),
        uncaptured=(Uncaptured(app="shop", what="a thread"),),
    )
    parts = FakeParts({"missing": until_started(marker), "verify": source})
    return await run(parts, marker, invariants=["money.sql"], allow=[443])


# -- the id -------------------------------------------------------------------------------------------------------


def test_an_id_holds_its_second_and_is_another_each_time() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    ids = {new_id(now) for _ in range(200)}
    assert len(ids) == 200
    for it in ids:
        assert re.fullmatch(r"drill-20260102-030405-[0-9a-f]{8}", it)
        assert fork_problem(it) is None, "it is the name of a fork"


async def test_an_id_that_was_used_before_is_refused_before_anything_is_created(marker: Path) -> None:
    parts = FakeParts({"used": "fork.drill-1.orders"})
    drill = await run(parts, marker)
    assert drill.reasons == (f"find the snapshot: id {drill.id} was used before: fork.drill-1.orders",)
    assert parts.calls == ["used"], "nothing is created, and nothing of the other is dropped"


class Admin:
    """Topics and groups of a cluster."""

    topics: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    async def describe_topics(self) -> Mapping[str, Any]:
        return dict.fromkeys(self.topics)

    async def groups(self) -> list[Any]:
        @dataclass
        class Group:
            name: str

        return [Group(name) for name in self.names]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("topics", "groups", "used"),
    [
        (("orders", "fork.drill-2.orders"), ("shop", "fork.drill-2.shop"), ""),
        (("_snapkafka.fork.drill-1.shop",), (), "_snapkafka.fork.drill-1.shop"),
        (("orders",), ("fork.drill-1.shop",), "fork.drill-1.shop"),
    ],
)
async def test_topics_and_groups_show_that_an_id_was_used(
    monkeypatch: pytest.MonkeyPatch, topics: tuple[str, ...], groups: tuple[str, ...], used: str
) -> None:
    monkeypatch.setattr(Admin, "topics", topics)
    monkeypatch.setattr(Admin, "names", groups)
    monkeypatch.setattr(parts_module, "KafkaTopicAdmin", lambda where: Admin())
    assert await parts_of("drill-1").used() == used


def parts_of(fork: str, **options: Any) -> KafkaParts:
    values: dict[str, Any] = {
        "where": WHERE, "namespace": "shop", "fork": fork, "folder": "",
        "spec": ops.JobSpec(), "who": "", "notify": print,
    }  # fmt: skip
    return KafkaParts(request=ops.DrillRequest(apps=(), **options), **values)


async def test_groups_that_an_interrupted_creation_held_are_removed_without_any_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deleted: list[str] = []

    class Bulk:
        def __init__(self, where: Connection) -> None:
            assert where is WHERE

        def delete_groups(self, groups: list[str]) -> None:
            deleted.extend(groups)

    @dataclass
    class Plan:
        apps: tuple[str, ...] = ("fork.drill-1.shop", "fork.drill-1.till", "shop")

    monkeypatch.setattr(parts_module, "KafkaTopicAdmin", lambda where: Admin())
    monkeypatch.setattr(parts_module, "KafkaBulk", Bulk)
    parts = parts_of("drill-1")
    await parts.drop()
    assert deleted == [], "it has planned nothing"
    parts.planned = Plan()  # type: ignore[assignment]
    await parts.drop()
    assert deleted == ["fork.drill-1.shop", "fork.drill-1.till"], (
        "and nothing of production, whatever a plan names"
    )


# -- digests and versions -----------------------------------------------------------------------------------------


async def test_the_plan_is_the_one_that_the_fork_is_created_by(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    @dataclass
    class Plan:
        fingerprint: str = "p0"

    async def plan_recovery(where: Any, request: ops.RecoveryRequest) -> Plan:
        asked.append(request)
        return Plan()

    async def recover(where: Any, plan: Plan, **options: Any) -> Any:
        asked.append(plan)
        raise ForkFailedError("enough")

    monkeypatch.setattr(parts_module, "plan_recovery", plan_recovery)
    monkeypatch.setattr(parts_module, "recover", recover)
    source, parts = await FakeParts().find("latest"), parts_of("drill-1", storage="s3://b")
    assert await parts.plan(source, expires_s=9.0) == "p0"
    with pytest.raises(ForkFailedError):
        await parts.create()
    request = ops.RecoveryRequest(
        namespace="shop", fork="drill-1", name="friday", storage="s3://b", expires_s=9.0
    )
    assert asked == [request, parts.planned]
    assert parts.planned


def test_digests_of_what_was_drilled_and_versions(found: ops.Drill) -> None:
    text = "SELECT 1 FROM state -- and messages"
    assert found.digests == {
        "snapshot": "c0",
        "manifest": "m0",
        "plan of the fork": "p0",
        "invariant money": hashlib.sha256(text.encode()).hexdigest(),
        "the fork's snapshot": "",
    }
    assert found.versions["snapkafka"] == __version__
    assert found.versions["aiokafka"] == versions({})["aiokafka"] != "not installed"
    assert found.versions["spark of the snapshot"] == "4.1"


# -- times and rows -----------------------------------------------------------------------------------------------


def test_the_rto_is_there_by_phase(found: ops.Drill) -> None:
    assert list(found.rto_phases) == [
        "create the fork",
        "start the apps",
        "become stable",
        "work off what was in flight",
    ]
    assert found.rto_s == pytest.approx(sum(found.rto_phases.values()), abs=0.01)
    assert found.rto_phases["start the apps"] > 0


def test_an_invariant_has_the_rows_that_it_read_and_those_that_it_found(found: ops.Drill) -> None:
    assert found.source and found.of_fork
    assert [(it.records, it.found) for it in found.source.invariants] == [(5, 0)]
    assert [(it.records, it.found) for it in found.of_fork.invariants] == [(7, 0)], "of the fork's tables"


def test_tables_are_known_by_the_words_of_the_query() -> None:
    checks = [CheckEntry(name=f"V6 {name}", run=True, status="passed") for name in ("one", "two", "lost")]
    sql = {"one": "SELECT * FROM state JOIN messages -- positions", "two": "SELECT * FROM statement"}
    tables = {"state": 5, "messages": 3, "positions": 2}
    assert [it.records for it in with_rows_read(checks, sql, tables)] == [8, 0, None]


# -- what it does not show ----------------------------------------------------------------------------------------


def test_what_no_drill_shows_and_what_this_one_did_not_compare(found: ops.Drill) -> None:
    assert found.not_shown[: len(NEVER_SHOWN)] == NEVER_SHOWN
    assert found.not_shown[len(NEVER_SHOWN) :] == (
        "the snapshot: table around: it is open-ended",
        "the snapshot: state that it does not hold: app shop: a thread",
        "where the commands connected at the ports that were allowed: 443",
    )


async def test_what_was_not_run_is_not_shown(marker: Path) -> None:
    checks = (CHECKS[0], *check_entries(()))
    it = assembled("VERIFIED", checks)
    stops = FakeParts({"missing": until_started(marker), "assemble": it, "verify": it, "sql": {}})

    async def never() -> str:
        return "short"

    drill = await run(stops, marker, lock=False)
    of_this = drill.not_shown[len(NEVER_SHOWN) :]
    assert of_this == (
        "invariants: none was given",
        "the snapshot: check V5 was not run",
        "the snapshot: check V6 was not run",
        "the fork's snapshot: check V5 was not run",
        "the fork's snapshot: check V6 was not run",
        "that the commands reached nothing of production before they joined the fork: they were not locked",
    )
    stops = FakeParts({"missing": never})
    drill = await run(stops, marker, timeout_s=0.1)
    assert "phase not run: work off what was in flight" in drill.not_shown
    assert "phase not run: become stable" in drill.not_shown, "one that failed has shown nothing"
    assert "the snapshot: it was not verified" in drill.not_shown


def test_an_invariant_that_read_nothing_proves_nothing(found: ops.Drill) -> None:
    from snapkafka.ops.drill.evidence import not_shown

    assert found.source
    empty = replace(found.source, invariants=(replace(found.source.invariants[0], records=0),))
    sentences = not_shown(replace(found, source=empty), ops.DrillRequest(apps=(), invariants=["money"]))
    assert "the snapshot: V6 money read no row" in sentences


# -- both forms ---------------------------------------------------------------------------------------------------


def leaves(value: Any) -> Iterator[str]:
    """All texts and digests of a result."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in ("witnesses", "notes", "logs"):
                yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, str):
        yield value


def test_markdown_has_what_json_has(found: ops.Drill) -> None:
    data = json.loads(json.dumps(asdict(found)))
    text = ops.drill_markdown(found)
    words = {"done", "not-run"}
    missing = [it for it in leaves(data) if it and it not in text and it not in words]
    assert missing == []
    for title in ("## Phases", "## What was compared", "## Verdicts", "## What this drill does not show"):
        assert title in text
    assert "| V6 money of the snapshot | passed | 5 | 0 |" in text
    assert f"| drill | {found.id} |" in text
    assert "| RTO: become stable | " in text


# -- what is refused before ---------------------------------------------------------------------------------------


async def test_where_commands_cannot_be_locked_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["snapkafka.ops.drill"], "lock_problem", lambda allow: "no Landlock")
    parts = FakeParts()
    with pytest.raises(DependencyMissingError, match="isolated from the broker here: no Landlock") as caught:
        await ops.drill(WHERE, "shop", ops.DrillRequest(apps=["true"]), parts=parts)
    assert "--unlocked" in caught.value.advice
    assert parts.calls == []
    await ops.drill(WHERE, "shop", ops.DrillRequest(apps=["true"], lock=False), parts=parts)
    assert "create" in parts.calls, "who trusts the commands needs no lock"


async def test_a_port_of_the_brokers_is_not_allowed() -> None:
    parts = FakeParts()
    where = Connection(bootstrap="a:9092,b:9093")
    for port in (9092, 9093):
        with pytest.raises(BadInputError, match=f"--allow {port} is a port of the brokers"):
            await ops.drill(where, "shop", ops.DrillRequest(apps=["true"], allow=[443, port]), parts=parts)
    assert parts.calls == []


@pytest.mark.parametrize("port", [0, -1, 65_536])
async def test_a_port_that_is_none_is_refused(port: int) -> None:
    with pytest.raises(BadInputError, match=f"--allow {port} is not a port"):
        await ops.drill(WHERE, "shop", ops.DrillRequest(apps=["true"], allow=[port]), parts=FakeParts())
