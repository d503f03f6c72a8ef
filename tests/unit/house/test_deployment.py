"""Files for Docker, Kubernetes, systemd, Prometheus and the Airflow provider name versions, options, variables and
metrics that exist."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
import yaml
from prometheus_client.parser import text_string_to_metric_families

import snapkafka
from snapkafka import ops
from snapkafka.cli import app
from snapkafka.demo import changelog
from snapkafka.demo.settings import CHANGELOG_SETTINGS, TOPICS
from snapkafka.drivers import Metrics, rendered
from snapkafka.manifest import RestorableEntry
from snapkafka.runtime import EXTRAS

CHECKOUT = Path(__file__).parents[3]
DOCKER = CHECKOUT / "docker"
COMMAND: Any = typer.main.get_command(app)


def containers() -> list[dict[str, Any]]:
    """Every service of the compose files, and every container for Kubernetes: what has an image."""
    paths = *DOCKER.glob("compose*.yaml"), *(DOCKER / "k8s").glob("*.yaml")
    found, left = [], [it for path in paths for it in yaml.safe_load_all(path.read_text())]
    for item in left:
        if isinstance(item, dict):
            found += [item] if isinstance(item.get("image"), str) else []
            left += item.values()
        elif isinstance(item, list):
            left += item
    return found


def command_lines() -> Iterator[list[str]]:
    """Every command line of `snapkafka` in any of the files."""
    for container in containers():
        words = [str(word) for word in container.get("args") or container.get("command") or ("",)]
        if container["image"].startswith("snapkafka") and words[0] in COMMAND.commands:
            yield words
    for unit in (DOCKER / "systemd").glob("*.service"):
        yield from map(
            shlex.split, re.findall(r"^ExecStart=\S+/snapkafka (.*)$", unit.read_text(), re.MULTILINE)
        )


def test_images_are_pinned_and_ours_have_the_version_of_the_package() -> None:
    tags = [container["image"].rpartition(":") for container in containers()]
    assert len(tags) > 8
    for image, _, tag in tags:
        ours = image.startswith("snapkafka")
        assert tag == snapkafka.__version__ if ours else re.search(r"\d+\.\d+|\d{4}-", tag), image
    dockerfile = (DOCKER / "Dockerfile").read_text()
    assert f'image.version="{snapkafka.__version__}"' in dockerfile
    assert {*re.findall(r"--extra (\w+)", dockerfile)} <= {*EXTRAS}
    copied = " ".join(re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE)).split()
    assert len(copied) > 5 and [name for name in copied if not (CHECKOUT / name).exists()] == []


def test_every_command_and_option_exists_and_topics_are_those_of_the_demo() -> None:
    found = list(command_lines())
    assert {words[0] for words in found} >= {"serve", "keep"}
    assert len(found) >= 5
    for name, *arguments in found:
        COMMAND.commands[name].make_context(name, arguments, resilient_parsing=False).close()
    topics = sorted(words[2:] for words in found if words[0] == "topics")
    named = [[it for it in words if re.fullmatch(r"[a-z]+(-[a-z]+)*", it)] for words in topics]
    assert named == [[changelog("accounts", "balances"), changelog("clearing", "passed")], [*TOPICS]]
    assert f"--set=min.compaction.lag.ms={CHANGELOG_SETTINGS['min.compaction.lag.ms']}" in topics[0]


def test_every_variable_is_read_by_the_code() -> None:
    sources = "\n".join(path.read_text() for path in (CHECKOUT / "snapkafka").rglob("*.py"))
    given: set[str] = set()
    for container in containers():
        given |= {item["name"] for item in container.get("env", ())} | {*container.get("environment", ())}
    ours = {name for name in given if name.startswith("SNAPKAFKA_")}
    assert "SNAPKAFKA_BOOTSTRAP" in ours
    assert [name for name in ours if f'"{name}"' not in sources] == []


def test_every_metric_of_a_query_is_exported_with_its_labels() -> None:
    of: dict[str, Any] = {"invariants": (ops.Invariant.of("money", ()),), "verdicts": {"VERIFIED": 3}}
    of |= {"now_ms": 100_000, "captured_ms": 90_000, "verified_ms": 40_000}
    fresh = ops.Freshness(**of, restorable=RestorableEntry(how="always"))
    worker, _ = rendered(Metrics(), participating=True, ledger_lag=1)
    known: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(worker.decode()):
        for sample in family.samples:
            known.setdefault(sample.name, set()).update(sample.labels)
    for gauge in ops.gauges(fresh):
        known[gauge.name] = {"namespace", gauge.label} - {""}
    rules = yaml.safe_load((DOCKER / "prometheus/rules.yaml").read_text())["groups"]
    panels = json.loads((DOCKER / "grafana/dashboards/snapkafka.json").read_text())["panels"]
    queries = [rule["expr"] for group in rules for rule in group["rules"]]
    queries += [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(queries) > 10
    for query in queries:
        for name, selector in re.findall(r"(snapkafka_[a-z_]+)(?:\{([^}]*)\})?", query):
            assert name in known, f"{query}: nothing exports {name}"
            labels = {*re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector)} - {"instance", "job"}
            assert labels <= known[name], f"{query}: {name} has the labels {known[name]}"


def test_the_airflow_provider_has_the_version_and_license_of_the_package_and_depends_on_its_command() -> None:
    folder = CHECKOUT / "connectors" / "airflow"
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    described = yaml.safe_load((folder / "src/snapkafka_airflow/provider.yaml").read_text())
    init = (folder / "src/snapkafka_airflow/__init__.py").read_text()
    (version,) = re.findall(r'^__version__ = "(.+)"$', init, re.MULTILINE)
    assert {version, project["version"], described["versions"][0]} == {snapkafka.__version__}
    ours = [name for name in project["dependencies"] if name.startswith("snapkafka")]
    assert ours == [f"snapkafka[cli]=={snapkafka.__version__}"]
    assert project["license-files"] == ["LICENSE"]
    assert (folder / "LICENSE").read_bytes() == (CHECKOUT / "LICENSE").read_bytes()
