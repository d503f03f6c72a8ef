"""The table `around` on a real log: its rows one by one, its bounds, and a picture of a system whose log is gone."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from snapkafka import ops
from snapkafka.manifest import AROUND, Manifest
from snapkafka.testing import Broker
from tests.spark.engines import Engine, rows
from tests.spark.scene import Stage, play
from tests.worlds.stores import LocalStore

ISOLATION = "read_uncommitted"
SVG = "{http://www.w3.org/2000/svg}"
COLUMNS = ("topic", "partition", "offset", "sender_app", "receiver_app", "side", "received")


@dataclass(frozen=True)
class Shown:
    """A snapshot that was assembled with its surroundings."""

    engine: Engine
    stage: Stage
    store: LocalStore
    manifest: Manifest


@pytest.fixture(scope="module")
def shown(engine: Engine, kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """The scene, and two records more, after everything else: what beta sent of an event, in red."""
    stage, store = (
        play(kafka.bootstrap, f"near{id(engine)}{engine.name}"),
        LocalStore(tmp_path_factory.mktemp("shown")),
    )
    _, beta = stage.players
    cause = (stage.tp("credits"), 0)
    for _ in range(2):
        beta.send(
            stage.tp("orders"), b'"caused"', b"1" * 500, epoch=stage.epoch, cause=cause
        )  # orders 10, 11
    manifest = engine.assemble(stage, store, isolation=ISOLATION, around=50)
    return Shown(engine, stage, store, manifest)


def test_rows_lie_about_the_cut_one_by_one(shown: Shown, tmp_path: Path) -> None:
    stage, store, manifest = shown.stage, shown.store, shown.manifest
    orders, back = stage.topic("orders"), stage.topic("credits")
    found = sorted(
        rows(store, manifest, AROUND), key=lambda row: (row["topic"], row["partition"], row["offset"])
    )
    assert [tuple(row[name] for name in COLUMNS) for row in found] == [
        (back, 0, 0, "alpha", "beta", "white", False),
        (back, 0, 1, "beta", "beta", "white", True),  # of a process that left; started out of turn
        (back, 0, 2, "alpha", "beta", "white", False),
        (back, 0, 4, "alpha", "beta", "red", False),  # the marker at 3 is no record
        (back, 1, 0, "alpha", "beta", "white", True),
        (orders, 0, 0, None, "alpha", "external", True),  # below what anything else reads
        (orders, 0, 1, "beta", "alpha", "white", True),
        (orders, 0, 2, "beta", "alpha", "white", False),
        (orders, 0, 3, None, "alpha", "external", False),
        (orders, 0, 4, "beta", "alpha", "white", False),
        (orders, 0, 5, "beta", "alpha", "white", False),
        (orders, 0, 6, "beta", "alpha", "white", False),
        (orders, 0, 7, None, "alpha", "external", False),
        (orders, 0, 9, "beta", "alpha", "red", False),
        (orders, 0, 10, "beta", "alpha", "red", False),
        (orders, 0, 11, "beta", "alpha", "red", False),
    ]
    at = {(row["topic"], row["partition"], row["offset"]): row for row in found}
    alpha, beta = (player.process for player in stage.players)
    assert {row["receiver"] for row in found if row["topic"] == orders} == {alpha}
    assert {row["receiver"] for row in found if row["topic"] == back} == {beta}
    caused = at[orders, 0, 10]
    assert (caused["cause_topic"], caused["cause_partition"], caused["cause_offset"]) == (back, 0, 0)
    assert caused["sender"] == beta
    assert (caused["key"], caused["value"], caused["bytes"]) == ("caused", "1" * 240, 8 + 500)
    assert at[back, 0, 0]["sent_ms"] < caused["sent_ms"] <= at[orders, 0, 11]["sent_ms"]
    undecodable = at[orders, 0, 5]
    assert (undecodable["key"], undecodable["value"], undecodable["bytes"]) == (None, None, 4)
    # No digest of the snapshot depends on it, and the other tables are what they are without it.
    without = shown.engine.assemble(stage, LocalStore(tmp_path), isolation=ISOLATION)
    assert AROUND not in {table.name for table in without.tables}
    assert without.content == manifest.content
    assert without.read == manifest.read


def test_no_channel_has_more_than_the_window(shown: Shown, tmp_path: Path) -> None:
    stage, store = shown.stage, LocalStore(tmp_path)
    _, beta = stage.players
    for number in range(200):  # far past the window
        beta.send(stage.tp("orders"), b'"more"', b"%d" % number, epoch=stage.epoch)
    manifest = shown.engine.assemble(stage, store, isolation=ISOLATION, around=1)
    found = sorted(
        (row["topic"].removeprefix(f"{stage.namespace}-"), row["partition"], row["offset"], row["side"])
        for row in rows(store, manifest, AROUND)
    )
    assert found == [
        ("credits", 0, 0, "white"),
        ("credits", 0, 1, "white"),
        ("credits", 0, 4, "red"),
        ("credits", 1, 0, "white"),
        ("orders", 0, 0, "external"),
        ("orders", 0, 1, "white"),
        ("orders", 0, 2, "white"),
        ("orders", 0, 3, "external"),
        ("orders", 0, 4, "white"),  # the channel of the process that left
        ("orders", 0, 9, "red"),
    ]


async def test_a_cut_is_drawn_when_its_topics_are_gone(shown: Shown) -> None:
    stage, store, manifest = shown.stage, shown.store, shown.manifest
    names = [stage.topic(name) for name in ("orders", "credits", "balances")]
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    for future in admin.delete_topics([*names, stage.ledger.topic]).values():
        future.result(20)
    place = store.manifest_place(manifest.id)
    drawn = await ops.draw(None, "", manifest=place)
    kinds = [element.get("class") for element in ET.fromstring(drawn.svg).iter(f"{SVG}g")]
    assert kinds.count("message flight") == drawn.shown == 6
    assert kinds.count("message near") == drawn.near == 10
    assert (drawn.hidden, drawn.near_hidden) == (0, 0)
