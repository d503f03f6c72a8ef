"""The main job, end to end, on real parts: 20 snapshots of a cycle under load, all captured, all verified, and the
money conserved in every one, recomputed by DuckDB from the Parquet alone."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from snapkafka.demo import TOTAL, count_money, read_naively
from tests.e2e.parts import assemble, command, live

SNAPSHOTS = 20


@pytest.mark.nightly
@pytest.mark.timeout(1700)
def test_twenty_snapshots_under_load_conserve_the_money(namespace: str, tmp_path: Path) -> None:
    """All captured, all verified, money conserved in every one; at least 15 with money in flight, at least 5 in both
    directions, the naive reading wrong in at least 5."""
    naive = {}
    with live(namespace) as system:
        for number in range(SNAPSHOTS):
            name = f"s{number:02}"
            view = system.take(name)
            naive[name] = system.observer.call(read_naively(system.observer.connection))
            assert {report.heard for _, report in view.reports.values()} == {"ledger"}
            time.sleep(0.2)  # spreads them over time; nothing is waited for
        system.observer.stop_load()
        assert assemble(system.bootstrap, namespace, sorted(naive), tmp_path)
        listed = {row["snapshot_id"]: row for row in command(system.observer, "list")["snapshots"]}
        groups = {
            group: system.observer.call(system.observer.admin.committed(group))
            for group in (f"snapkafka.{namespace}.accounts", f"snapkafka.{namespace}.clearing")
        }
    in_flight = both_ways = 0
    for name in naive:
        manifest = json.loads((tmp_path / f"{name}.json").read_text())
        assert manifest["verdict"] == "VERIFIED"
        run = {check["name"]: check["status"] for check in manifest["checks"] if check["run"]}
        assert run == dict.fromkeys(("V1", "V2", "V3", "V4", "V5", "V6 money"), "passed")
        money = count_money(tmp_path / f"{name}.json")
        assert money.total == TOTAL, f"{name}: {money}"
        in_flight += money.in_flight > 0
        both_ways += money.transfers > 0 and money.credits > 0
        assert (listed[name]["status"], listed[name]["verdict"]) == ("COMPLETED", "VERIFIED")
    assert in_flight >= 15, in_flight
    assert both_ways >= 5, both_ways
    assert sum(total != TOTAL for total in naive.values()) >= 5, naive
    _positions_are_committed(groups, json.loads((tmp_path / "s19.json").read_text()))


def _positions_are_committed(groups: dict, manifest: dict) -> None:  # type: ignore[type-arg]
    """Design, section 7: the positions of the latest verified snapshot are committed as a consumer group, so that any
    Kafka tool shows what was in flight as lag."""
    for source in manifest["captured"]["inputs"]:
        group = next(found for name, found in groups.items() if name.endswith("." + source["app"]))
        (offset, note) = group[source["topic"], source["partition"]]
        assert offset == source["position"]
        assert manifest["id"] in note
