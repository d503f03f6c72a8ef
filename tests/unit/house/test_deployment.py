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
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMMAND: Any = typer.main.get_command(app)


def containers() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every service of the compose files, and every container for Kubernetes."""
    for path in (*DOCKER.glob("compose*.yaml"), *(DOCKER / "k8s").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            for name, service in document.get("services", {}).items():
                yield f"{path.name} {name}", service
            yield from _of_pods(path.name, document)


def _of_pods(where: str, found: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(found, dict):
        for container in found.get("containers", ()):
            yield f"{where} {container['name']}", container
        for value in found.values():
            yield from _of_pods(where, value)


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every command line of `snapkafka` in any of the files."""
    for where, container in containers():
        if container.get("image", "").startswith("snapkafka"):
            words = container.get("args") or container.get("command") or ()
            if words and words[0] in COMMAND.commands:
                yield where, [str(word) for word in words]
    for unit in (DOCKER / "systemd").glob("*.service"):
        for line in re.findall(r"^ExecStart=\S+/snapkafka (.*)$", unit.read_text(), re.MULTILINE):
            yield unit.name, shlex.split(line)


def test_images_are_pinned_and_ours_have_the_version_of_the_package() -> None:
    images = [container["image"] for _, container in containers()]
    assert len(images) > 8
    for image in images:
        tag = image.rpartition(":")[2]
        assert (
            tag == snapkafka.__version__
            if image.startswith("snapkafka")
            else re.search(r"\d+\.\d+|\d{4}-", tag)
        )
    assert f'image.version="{snapkafka.__version__}"' in DOCKERFILE
    assert {*re.findall(r"--extra (\w+)", DOCKERFILE)} <= {*EXTRAS}
    copied = " ".join(re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)).split()
    assert len(copied) > 5 and [name for name in copied if not (CHECKOUT / name).exists()] == []


def test_every_command_and_option_exists() -> None:
    found = list(command_lines())
    assert {words[0] for _, words in found} >= {"serve", "keep"}
    assert len(found) >= 5
    for _, (name, *arguments) in found:
        COMMAND.commands[name].make_context(name, arguments, resilient_parsing=False).close()


def test_the_topics_of_the_demo_are_those_that_its_containers_create() -> None:
    made = [words for _, words in command_lines() if words[0] == "topics"]
    named = [[word for word in words[2:] if re.fullmatch(r"[a-z]+(-[a-z]+)*", word)] for words in made]
    assert named == [list(TOPICS), [changelog("accounts", "balances"), changelog("clearing", "passed")]]
    assert f"--set=min.compaction.lag.ms={CHANGELOG_SETTINGS['min.compaction.lag.ms']}" in made[1]


def test_every_variable_is_read_by_the_code() -> None:
    sources = "\n".join(path.read_text() for path in (CHECKOUT / "snapkafka").rglob("*.py"))
    given: set[str] = set()
    for _, container in containers():
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


# -- the Airflow provider, without Airflow --------------------------------------------------------------------


AIRFLOW = CHECKOUT / "connectors" / "airflow"


def test_the_provider_has_the_version_and_license_of_the_package_and_depends_on_its_command_alone() -> None:
    project: dict[str, Any] = tomllib.loads((AIRFLOW / "pyproject.toml").read_text())["project"]
    described = yaml.safe_load((AIRFLOW / "src/snapkafka_airflow/provider.yaml").read_text())
    init = (AIRFLOW / "src/snapkafka_airflow/__init__.py").read_text()
    (version,) = re.findall(r'^__version__ = "(.+)"$', init, re.MULTILINE)
    assert {version, project["version"], described["versions"][0]} == {snapkafka.__version__}
    ours = [name for name in project["dependencies"] if name.startswith("snapkafka")]
    assert ours == [f"snapkafka[cli]=={snapkafka.__version__}"]
    assert project["name"] == described["package-name"]
    assert project["license-files"] == ["LICENSE"]
    assert (AIRFLOW / "LICENSE").read_bytes() == (CHECKOUT / "LICENSE").read_bytes()
