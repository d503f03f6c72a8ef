"""The scenarios of the suite: one table, which runs on the simulator, on Faust, and on plain clients.

On a real broker (`test_members`, `test_aligned`) each runs with the libraries that are listed here; on the simulator
with many seeds, the judge in the place of the money.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from snapkafka.sim import AgentPlan, App, Op, WorldPlan

from .money import PARTITIONS, Names

NAMES: Final = Names("sim")


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    `systems`: the libraries of spender and keeper; only the first so many run each time (`short`); `faults`: of the
    simulator, with their chances; it counts what it `shows`.
    """

    name: str
    systems: tuple[tuple[str, str], ...]
    short: int = 2
    one_way: bool = False
    exactly_once: bool = False
    members: int = 1
    faults: Mapping[str, float] = field(default_factory=dict)
    shows: str = "VERIFIED"

    def cases(self) -> list[Any]:
        """The systems, as parameters of a test."""
        return [
            pytest.param(*system, marks=() if number < self.short else pytest.mark.nightly)
            for number, system in enumerate(self.systems)
        ]

    def plan(self) -> WorldPlan:
        """The same two services in the simulator."""
        names = Names(NAMES.run, self.one_way)
        back: tuple[Op, ...] = () if self.one_way else (("send", names.change),)
        agents: dict[str, dict[str, tuple[Op, ...]]] = {
            "spender": {
                names.ticks: (("write", "x"), ("send", names.coins)),
                names.change: (("write", "x"),),
            },
            "keeper": {names.coins: (("read", "y"), ("write", "y"), *back)},
        }
        apps = tuple(
            App(
                names.app(role),
                tuple(
                    AgentPlan(f"{role}.{topic}", topic, 1, (tuple(agents[role][topic]),))
                    for topic in names.inputs(role)
                ),
                PARTITIONS,
                self.members,
            )
            for role in ("spender", "keeper")
        )
        topics = tuple(sorted({topic for app in apps for topic in app.topics}))
        return WorldPlan(
            apps=apps,
            externals=topics,  # the world outside writes to all of them: no coins are counted there
            marker_topics=() if self.exactly_once else topics,
            exactly_once=self.exactly_once,
            inputs=10,
            hops=3,
            steps=400,
            faults=dict(self.faults),
            align=self.one_way,
            acyclic=self.one_way,
        )


MONEY: Final = Scenario(
    "money",
    (
        ("faust", "confluent"),
        ("aiokafka", "faust"),
        ("confluent threads", "confluent stores"),
        ("confluent", "confluent"),
        ("aiokafka", "aiokafka"),
        ("confluent", "aiokafka"),
    ),
    short=3,
)
MEMBERS: Final = Scenario(
    "members",
    (("confluent", "confluent"), ("aiokafka", "aiokafka")),
    short=1,
    members=2,
    faults={"crash": 0.006, "restart": 0.02, "rebalance": 0.006, "stop": 0.002},
    shows="rebalances",
)
TRANSACTIONS: Final = Scenario(
    "transactions",
    (("confluent tx", "confluent tx"), ("aiokafka tx", "aiokafka tx")),
    short=1,
    exactly_once=True,
    faults={"abort": 0.05, "crash": 0.002, "restart": 0.05},
    shows="aborted_transactions",
)
ALIGNED: Final = Scenario(
    "aligned",
    (
        ("faust", "faust"),
        ("confluent", "aiokafka"),
        ("faust", "confluent"),
        ("aiokafka", "faust"),
        ("confluent threads", "confluent threads"),
        ("confluent tx", "aiokafka tx"),
    ),
    short=3,
    one_way=True,
    shows="aligned",
)
SCENARIOS: Final = (MONEY, MEMBERS, TRANSACTIONS, ALIGNED)
