"""Split keys in Spark: the same findings as on lists; on a real broker beside a good verdict."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from snapkafka import ops
from snapkafka.assembly import Desk, main, verify
from snapkafka.assembly.spark.verify import split_keys as in_spark
from snapkafka.checks import split_keys
from snapkafka.kafka import Connection
from snapkafka.store import LocalStore
from snapkafka.testing import Broker

from .damaged_logs import damaged_state
from .reading import settings_of
from .scene import play, play_on

pytestmark = pytest.mark.nightly

COLUMNS = (
    "app string, table_name string, partition int, key string, key_raw binary, changelog_topic string, "
    "changelog_offset bigint"
)


@pytest.mark.parametrize("seed", range(3))
def test_lists_and_spark_agree_on_random_damage(spark: SparkSession, seed: int) -> None:
    view, rows = damaged_state(seed)
    found = split_keys.find(view, rows)
    assert [finding.topic for finding in found] == ["plain-changelog", "second-changelog"]
    assert in_spark.find(view, spark.createDataFrame(rows, COLUMNS)) == found


def test_whole_keys_have_no_finding(spark: SparkSession) -> None:
    view, rows = damaged_state(0)
    whole = list({(row["table_name"], row["key_raw"]): row for row in rows}.values())
    assert in_spark.find(view, spark.createDataFrame(whole, COLUMNS)) == []


def test_a_snapshot_its_child_and_a_verifier_name_the_key(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """A child names what its parent holds, though the key is not written again in both partitions."""
    stage = play(kafka.bootstrap, f"s{os.getpid()}", calm=True, split=True)
    parent, child = f"{stage.namespace}-snap", f"{stage.namespace}-next"
    where = ["--bootstrap", stage.bootstrap, "--namespace", stage.namespace, "--storage", str(tmp_path)]
    assert main([*where, "--snapshot", parent]) == 0
    play_on(stage, child, parent=parent, written=[(b'"other"', b"1")])
    assert main([*where, "--snapshot", child]) == 0
    for name in (parent, child):
        manifest = LocalStore(tmp_path).read(name)
        (notes,) = (check.notes for check in manifest.checks if check.name == "V3")
        (note,) = (note for note in notes if note.kind == "state-split")
        assert manifest.verdict.startswith("VERIFIED")
        assert note.what.startswith("table balances of alpha: 1 key lies in several partitions: x (0, 1);")
        with Desk(Connection(bootstrap=stage.bootstrap), stage.namespace) as desk:
            view = desk.look(desk.captured(name), "read_uncommitted")
        shown = asyncio.run(ops.show(Connection(bootstrap=stage.bootstrap), stage.namespace, name))
        assert [it for check in shown.checks for it in check.remarks] == [note.what], "the ledger has it"
        settings = settings_of(manifest.ledger, bootstrap=stage.bootstrap, namespace=stage.namespace)
        (again,) = (found for found in verify(spark, view, settings).outcomes if found.check == "V3")
        assert [witness.what for witness in again.notes if witness.kind == "state-split"] == [note.what]
