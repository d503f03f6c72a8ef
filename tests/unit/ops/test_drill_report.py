"""What surrounds the phases of a drill: its id, its plan, the RTO by phase, and what is refused before."""

# mypy: disable-error-code="arg-type"

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest

from snapkafka import ops
from snapkafka.errors import BadInputError, DependencyMissingError, ForkFailedError
from snapkafka.kafka import Connection
from snapkafka.ops.drill import new_id, phases
from snapkafka.ops.drill import parts as parts_module
from snapkafka.ops.drill.parts import Parts
from snapkafka.protocol import fork_problem

from .test_drill import WHERE, FakeParts, marker, run, until_started

__all__ = ["marker"]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "POLL_S", 0.02)


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


def parts_of(fork: str, **options: Any) -> Parts:
    values: dict[str, Any] = {
        "where": WHERE, "namespace": "shop", "fork": fork, "folder": "",
        "spec": ops.JobSpec(), "who": "", "notify": print,
    }  # fmt: skip
    return Parts(request=ops.DrillRequest(apps=(), **options), **values)


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


async def test_the_plan_is_the_one_that_the_fork_is_created_by(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Plan:
        pass

    async def plan_recovery(where: Any, request: ops.RecoveryRequest) -> Plan:
        asked.append(request)
        return Plan()

    async def recover(where: Any, plan: Plan, **options: Any) -> Any:
        asked.append(plan)
        raise ForkFailedError("enough")

    monkeypatch.setattr(parts_module, "plan_recovery", plan_recovery)
    monkeypatch.setattr(parts_module, "recover", recover)
    source, parts = await FakeParts().find("latest"), parts_of("drill-1", storage="s3://b")
    await parts.plan(source, expires_s=9.0)
    with pytest.raises(ForkFailedError):
        await parts.create()
    request = ops.RecoveryRequest(
        namespace="shop", fork="drill-1", name="friday", storage="s3://b", expires_s=9.0
    )
    assert asked == [request, parts.planned]
    assert parts.planned


async def test_the_rto_is_there_by_phase(marker: Path) -> None:
    found = await run(FakeParts({"missing": until_started(marker)}), marker)
    assert list(found.rto_phases) == [
        "create the fork",
        "start the apps",
        "become stable",
        "work off what was in flight",
    ]
    assert found.rto_s == pytest.approx(sum(found.rto_phases.values()), abs=0.01)
    assert found.rto_phases["start the apps"] > 0


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
