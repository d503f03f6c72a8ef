"""Damage on real topics: a verifier in a process of its own, with only the manifest and the broker, finds the very
offset. Run by `spark-submit`, so that this way is shown as well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from snapkafka.assembly import __main__ as entry
from snapkafka.assembly.spark import job
from snapkafka.assembly.spark.reading.session import JAVA_SMALL
from snapkafka.manifest import Manifest, content_digest, dump
from snapkafka.manifest_entries import LedgerEntry, Times
from snapkafka.protocol import TopicPartition
from snapkafka.runtime import locked_jars, spark_java_home
from snapkafka.testing import Broker
from tests.spark.scene import Sender, Stage, play

pytestmark = pytest.mark.nightly


@dataclass
class Verified:
    """What the verifier said: its exit status, and per scene the checks by name; `embedded`: what the other engine said
    of each scene, without the work that it took."""

    status: int
    stages: dict[str, Stage]
    said: dict[str, dict[str, dict[str, Any]]]
    verdicts: dict[str, str]
    by_spark: dict[str, Any]
    embedded: dict[str, Any]

    def places(self, scene: str, check: str) -> list[tuple[str, int, int]]:
        return [(w["topic"], w["partition"], w["offset"]) for w in self.said[scene][check]["witnesses"]]


def _manifest(stage: Stage) -> Manifest:
    """What a verifier gets to see of a snapshot: no table."""
    assert stage.captured is not None
    return Manifest(
        id=stage.captured.id,
        attempt=1,
        epoch=stage.epoch,
        namespace=stage.namespace,
        verdict="VERIFIED",
        content=content_digest([]),
        ledger=LedgerEntry(topic=stage.ledger.topic, topic_id=stage.ledger.topic_id),
        times=Times(assembled_at="now"),
        tables=(),
        checks=(),
        captured=stage.captured,
    )


def _delete_before(stage: Stage, tp: TopicPartition, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": stage.bootstrap, "log_level": 0})
    for done in admin.delete_records([KafkaPartition(*tp, offset)]).values():
        assert done.result().low_watermark == offset


def _submit(bootstrap: str, manifests: list[Path], folder: Path) -> subprocess.CompletedProcess[str]:
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    jars = ",".join(str(jar) for jar in locked_jars("spark"))
    arguments = [item for path in manifests for item in ("--manifest", str(path))]
    return subprocess.run(
        [
            str(submit),
            *("--master", "local[2]", "--jars", jars, "--driver-java-options", JAVA_SMALL),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
            str(entry.__file__),
            *("--bootstrap", bootstrap, "--result", str(folder / "result.json"), *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=folder,
        env={
            **os.environ,
            "JAVA_HOME": str(spark_java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(Path(job.__file__).parents[2]),
        },
    )


@pytest.fixture(scope="module")
def verified(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Verified:
    """Five scenes, one of them left as it was, and one verifier that looks at all of them."""
    folder = tmp_path_factory.mktemp("alone")
    damage: dict[str, dict[str, Any]] = {"red": {"red_received": True}, "cause": {"later_cause": True}}
    stages = {
        name: play(kafka.bootstrap, f"d{os.getpid()}-{name}", **damage.get(name, {}))
        for name in ("sound", "late", "gone", *damage)
    }
    manifests = []
    for stage in stages.values():
        manifests.append(folder / f"{stage.namespace}.json")
        manifests[-1].write_text(dump(_manifest(stage)))

    late = stages["late"]
    forger = Sender(late, 2, "beta")  # in the name of beta's process, behind its marker, in white
    assert forger.send(late.tp("orders"), b"forged", b"{}", seq=77) == 10
    _delete_before(stages["gone"], stages["gone"].tp("orders"), 3)

    done = _submit(kafka.bootstrap, manifests, folder)
    assert done.returncode in (0, 30), done.stderr[-3000:]
    found = _results(folder / "result.json")
    by_scene = {name: found[f"{stage.namespace}-snap"] for name, stage in stages.items()}
    return Verified(
        done.returncode,
        stages,
        {name: {check["name"]: check for check in item["checks"]} for name, item in by_scene.items()},
        {name: item["verdict"] for name, item in by_scene.items()},
        found,
        _embedded(kafka.bootstrap, manifests, folder),
    )


def _results(place: Path) -> dict[str, Any]:
    return {item["id"]: item | {"work": None} for item in json.loads(place.read_text())["snapshots"]}


def _embedded(bootstrap: str, manifests: list[Path], folder: Path) -> dict[str, Any]:
    """What the embedded engine says, in a process that cannot import pyspark."""
    place = folder / "embedded.json"
    code = "import sys; sys.modules['pyspark'] = None; from snapkafka.assembly.command import main; sys.exit(main())"
    arguments = [item for path in manifests for item in ("--manifest", str(path))]
    where = ("--bootstrap", bootstrap, "--engine", "embedded", "--result", str(place))
    done = subprocess.run(
        [sys.executable, "-c", code, *where, *arguments], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 30, done.stderr[-3000:]
    return _results(place)


def test_what_was_not_damaged_passes(verified: Verified) -> None:
    assert verified.verdicts["sound"] == "VERIFIED"
    statuses = {name: check["status"] for name, check in verified.said["sound"].items() if check["run"]}
    assert statuses == dict.fromkeys(("V1", "V2", "V3", "V4", "V5"), "passed")


def test_v1_a_white_record_after_the_marker(verified: Verified) -> None:
    assert verified.verdicts["late"] == "INCONSISTENT"
    assert verified.said["late"]["V1"]["status"] == "failed"
    assert verified.places("late", "V1") == [(*verified.stages["late"].tp("orders"), 10)]
    assert verified.said["late"]["V2"]["status"] == verified.said["late"]["V4"]["status"] == "passed"


def test_v2_a_red_record_below_a_position(verified: Verified) -> None:
    assert verified.verdicts["red"] == "INCONSISTENT"
    assert verified.said["red"]["V2"]["status"] == "failed"
    assert verified.places("red", "V2") == [(*verified.stages["red"].tp("orders"), 8)]
    assert verified.said["red"]["V1"]["status"] == verified.said["red"]["V4"]["status"] == "passed"


def test_v4_an_in_flight_record_is_gone(verified: Verified) -> None:
    assert verified.verdicts["gone"] == "INCONSISTENT"
    assert verified.said["gone"]["V4"]["status"] == "failed"
    assert verified.places("gone", "V4") == [(*verified.stages["gone"].tp("orders"), 2)]
    assert verified.said["gone"]["V1"]["status"] == "passed"


def test_v5_an_effect_of_an_event_past_the_cut(verified: Verified) -> None:
    assert verified.verdicts["cause"] == "INCONSISTENT"
    assert verified.said["cause"]["V5"]["status"] == "failed"
    assert verified.places("cause", "V5") == [(*verified.stages["cause"].tp("balances"), 2)]
    assert {verified.said["cause"][name]["status"] for name in ("V1", "V2", "V4")} == {"passed"}


def test_the_embedded_engine_says_the_same(verified: Verified) -> None:
    """Findings, witnesses, what was examined and verdicts of every scene."""
    assert len(verified.embedded) == len(verified.stages)
    assert verified.embedded == verified.by_spark


def test_the_exit_status_says_that_not_all_is_well(verified: Verified) -> None:
    assert verified.status == 30
