"""Alert rules and dashboard name metrics that the code has; `promtool` checks the rules where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from math import inf
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from snapkafka import ops
from snapkafka.drivers import Metrics, rendered
from snapkafka.manifest_entries import RestorableEntry

DOCKER = Path(__file__).parents[3] / "docker"
RULES: dict[str, Any] = yaml.safe_load((DOCKER / "prometheus/rules.yaml").read_text())
DASHBOARD: dict[str, Any] = json.loads((DOCKER / "grafana/dashboards/snapkafka.json").read_text())
FRESH = ops.Freshness(
    now_ms=100_000,
    captured_ms=90_000,
    verified_ms=40_000,
    verdicts={"VERIFIED": 3, "INCONSISTENT": 1},
    invariants=(ops.WatchedInvariant(name="money", violations=0, last_ok_ms=40_000),),
    restorable=RestorableEntry(how="always"),
)


def of_code() -> dict[str, set[str]]:
    """Every name that may stand in a query -> its labels, as code exports it."""
    metrics = Metrics(outcomes={"captured": 1})  # type: ignore[arg-type]
    worker, _ = rendered(metrics, participating=True, ledger_lag=1)
    text = worker.decode() + ops.exposition(FRESH, "shop")
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def queries() -> list[str]:
    rules = [rule["expr"] for group in RULES["groups"] for rule in group["rules"]]
    return rules + [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_every_metric_of_a_query_is_exported_with_its_labels() -> None:
    known = of_code()
    for query in queries():
        names = re.findall(r"snapkafka_[a-z_]+", query)
        assert names, query
        for name, selector in re.findall(r"(snapkafka_[a-z_]+)(?:\{([^}]*)\})?", query):
            assert name in known, f"{query}: nothing exports {name}"
            labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
            assert labels <= known[name] | {"instance", "job"}, (
                f"{query}: {name} has the labels {known[name]}"
            )


def test_rules_and_dashboard_have_what_their_readers_need() -> None:
    names = []
    for group in RULES["groups"]:
        for rule in group["rules"]:
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
            assert rule["labels"]["severity"] in {"critical", "warning"}
            assert {"summary", "description"} == set(rule["annotations"])
            assert re.fullmatch(r"\d+[smhd]", rule.get("for", "5m"))
            names.append(rule["alert"])
    assert len(set(names)) == len(names)
    assert {"SnapkafkaNoGoodSnapshot", "SnapkafkaInconsistent", "SnapkafkaSoonNotRestorable"} <= set(names)
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= set(DASHBOARD)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)


def test_alerts_fire_when_they_are_to_and_not_before(tmp_path: Path) -> None:
    """`promtool` runs the cases; where it is not installed, they are at least of alerts that exist."""
    rules = DOCKER / "prometheus/rules.yaml"
    cases = (Path(__file__).parent / "alerts.yaml").read_text().replace("{{ rules }}", str(rules))
    written = tmp_path / "alerts.yaml"
    written.write_text(cases)
    alerts = {rule["alert"] for group in RULES["groups"] for rule in group["rules"]}
    tested = {
        case["alertname"] for test in yaml.safe_load(cases)["tests"] for case in test["alert_rule_test"]
    }
    assert {"SnapkafkaSnapshotsFail", "SnapkafkaSoonNotRestorable"} <= tested <= alerts
    if promtool := shutil.which("promtool"):
        subprocess.run([promtool, "check", "rules", rules], check=True)
        subprocess.run([promtool, "test", "rules", written], check=True)


def test_freshness_as_prometheus_reads_it() -> None:
    families = {
        family.name: family for family in text_string_to_metric_families(ops.exposition(FRESH, "shop"))
    }
    values = {name: family.samples[0].value for name, family in families.items()}
    assert values["snapkafka_verified_age_seconds"] == 60
    assert values["snapkafka_captured_age_seconds"] == 10
    assert values["snapkafka_restorable_seconds"] == inf
    verdicts = {s.labels["verdict"]: s.value for s in families["snapkafka_verdicts"].samples}
    assert (verdicts["VERIFIED"], verdicts["INCONSISTENT"], verdicts["UNVERIFIABLE"]) == (3, 1, 0)
    assert {s.labels["namespace"] for s in families["snapkafka_verdicts"].samples} == {"shop"}
    unknown = ops.exposition(ops.Freshness(now_ms=1, verdicts={}), "shop")
    assert "snapkafka_verified_age_seconds" not in unknown
