"""The main job, end to end, on real parts: 20 snapshots of a cycle under load, all captured, all verified, and the
money conserved in every one, recomputed by DuckDB from the Parquet alone. Then a foreign producer does damage."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from snapkafka.demo import TOTAL, count_money, read_naively
from snapkafka.protocol import TopicPartition
from tests.e2e.parts import Live, assemble, command, live, white_after_the_marker

HEALTHY = [f"s{number:02}" for number in range(20)]
PASSED = dict.fromkeys(("V1", "V2", "V3", "V4", "V5", "V6 money"), "passed")

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1700)]


def test_twenty_snapshots_under_load_conserve_the_money_and_damage_is_found(
    namespace: str, tmp_path: Path
) -> None:
    """At least 15 with money in flight, at least 5 in both directions, the naive reading wrong in at least 5."""
    with live(namespace) as system:
        naive = []
        for name in HEALTHY:
            view = system.take(name)
            naive.append(system.observer.call(read_naively(system.observer.connection)))
            assert {report.heard for _, report in view.reports.values()} == {"ledger"}
            time.sleep(0.2)  # spreads them over time; nothing is waited for
        assert sum(total != TOTAL for total in naive) >= 5, naive
        system.observer.stop_load()
        assert assemble(system.bootstrap, namespace, HEALTHY, tmp_path)
        manifests = {it: json.loads((tmp_path / f"{it}.json").read_text()) for it in HEALTHY}
        conserves_the_money(system, tmp_path, manifests)
        require_positions(system, manifests["s19"])
        require_damage_found(system, tmp_path, manifests["s19"])


def conserves_the_money(system: Live, storage: Path, manifests: dict[str, Any]) -> None:
    listed = {row["snapshot_id"]: row for row in command(system.observer, "list")["snapshots"]}
    in_flight = both_ways = 0
    for name in HEALTHY:
        assert manifests[name]["verdict"] == "VERIFIED"
        assert {it["name"]: it["status"] for it in manifests[name]["checks"] if it["run"]} == PASSED
        money = count_money(storage / f"{name}.json")
        assert money.total == TOTAL, f"{name}: {money}"
        in_flight += money.in_flight > 0
        both_ways += money.transfers > 0 and money.credits > 0
        assert (listed[name]["status"], listed[name]["verdict"]) == ("COMPLETED", "VERIFIED")
    assert in_flight >= 15, in_flight
    assert both_ways >= 5, both_ways


def require_positions(system: Live, manifest: dict[str, Any]) -> None:
    """The positions of the latest verified snapshot are committed as a consumer group: any Kafka tool shows what was in
    flight as lag."""
    for source in manifest["captured"]["inputs"]:
        group = f"snapkafka.{system.namespace}.{source['app']}"
        found = system.observer.call(system.observer.admin.committed(group))
        offset, note = found[TopicPartition(source["topic"], source["partition"])]
        assert offset == source["position"]
        assert manifest["id"] in note


def require_damage_found(system: Live, storage: Path, manifest: dict[str, Any]) -> None:
    """A verifier in a process of its own, with nothing but the manifest and the broker, names the very record."""
    path = storage / f"{manifest['id']}.json"
    status, before = verify(system, path)
    assert (status, {name: it["status"] for name, it in before.items() if it["run"]}) == (0, PASSED)
    late = white_after_the_marker(system, manifest["captured"])
    status, after = verify(system, path)
    assert (status, after["V1"]["status"]) == (30, "failed")
    assert [(it["topic"], it["partition"], it["offset"]) for it in after["V1"]["witnesses"]] == [late]


def verify(system: Live, manifest: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status, and the checks by name."""
    command = [sys.executable, "-m", "snapkafka.assembly", "--manifest", str(manifest)]
    command += ["--bootstrap", system.bootstrap]
    # nothing of the checkout or the storage is near
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")
    assert done.returncode in (0, 30), done.stderr[-3000:]
    (found,) = json.loads(done.stdout)["snapshots"]
    return done.returncode, {it["name"]: it for it in found["checks"]}
