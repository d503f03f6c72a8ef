"""Docker, Kubernetes and systemd files agree with the package: versions, commands, options, ports, variables."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

import snapkafka
from snapkafka import ops
from snapkafka.cli import app
from snapkafka.runtime import EXTRAS, exit_status

CHECKOUT = Path(__file__).parents[3]
DOCKER = CHECKOUT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE = ("compose.minimal.yaml", "compose.yaml")
COMMAND: Any = typer.main.get_command(app)
#: Kind -> what the files for Kubernetes have of it, one of each.
K8S: dict[str, dict[str, Any]] = {
    document["kind"]: document
    for path in sorted((DOCKER / "k8s").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
}
CRONJOB, DEPLOYMENT = K8S["CronJob"], K8S["Deployment"]
#: Kind -> the pods that it makes.
PODS: dict[str, dict[str, Any]] = {
    "CronJob": CRONJOB["spec"]["jobTemplate"]["spec"]["template"],
    "Deployment": DEPLOYMENT["spec"]["template"],
}
CONTAINERS: dict[str, dict[str, Any]] = {kind: pod["spec"]["containers"][0] for kind, pod in PODS.items()}
#: Where the service listens.
PORT = 8023
#: Variables that code reads under a name that it puts together.
MADE_UP = {"SNAPKAFKA_KAFKA_SASL_USERNAME", "SNAPKAFKA_KAFKA_SASL_PASSWORD"}


def compose(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DOCKER / name).read_text())
    return found


def services() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in COMPOSE:
        for name, service in compose(file)["services"].items():
            yield f"{file} {name}", service


def stages() -> dict[str, str]:
    """Targets of the Dockerfile -> their instructions."""
    parts = re.split(r"^FROM \S+ AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def snapkafka_commands() -> Iterator[tuple[str, list[str]]]:
    """Every command line of `snapkafka` in any of the files."""
    for kind, container in CONTAINERS.items():
        yield kind, [str(part) for part in container["args"]]
    for where, service in services():
        if (
            service.get("image", "").startswith(("snapkafka-job", "snapkafka-command"))
            and "command" in service
        ):
            yield where, [str(part) for part in service["command"]]
        if service.get("entrypoint") == ["python", "-m", "snapkafka.demo.page"]:
            yield where, ["serve", *map(str, service["command"])]
    for unit in (DOCKER / "systemd").glob("*.service"):
        for line in re.findall(r"^ExecStart=\S+/snapkafka (.*)$", unit.read_text(), re.MULTILINE):
            yield unit.name, shlex.split(line)


def test_every_version_is_that_of_the_package() -> None:
    images = [service["image"] for _, service in services()]
    images += [container["image"] for container in CONTAINERS.values()]
    ours = [image for image in images if image.startswith("snapkafka")]
    assert ours
    assert {image.partition(":")[2] for image in ours} == {snapkafka.__version__}
    assert f'image.version="{snapkafka.__version__}"' in DOCKERFILE
    assert f"snapkafka-job:{snapkafka.__version__} ." in DOCKERFILE


def test_every_image_is_pinned() -> None:
    for where, service in services():
        tag = service["image"].rpartition(":")[2]
        assert re.search(r"\d+\.\d+|\d{4}-\d\d", tag), f"{where}: {service['image']}"
    assert re.search(r"^ARG PYTHON=\d+\.\d+-", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^COPY --from=\S+:\d+\.\d+\.\d+ ", DOCKERFILE, re.MULTILINE)


def test_every_command_and_option_exists() -> None:
    found = list(snapkafka_commands())
    assert {where for where, _ in found} >= {
        "CronJob", "Deployment", "compose.yaml keep", "compose.yaml service", "compose.minimal.yaml service",
        "snapkafka-keep.service",
    }  # fmt: skip
    for where, (name, *arguments) in found:
        command = COMMAND.commands[name]
        # click refuses what it does not know; nothing is run.
        command.make_context(name, arguments, resilient_parsing=False).close()
        assert where


def test_every_variable_is_read_by_the_code() -> None:
    sources = "\n".join(path.read_text() for path in (CHECKOUT / "snapkafka").rglob("*.py"))
    given = {item["name"] for container in CONTAINERS.values() for item in container["env"]}
    for _, service in services():
        given |= set(service.get("environment", ()))
    ours = {name for name in given if name.startswith("SNAPKAFKA_")}
    assert {"SNAPKAFKA_BOOTSTRAP", "SNAPKAFKA_NAMESPACE", "SNAPKAFKA_STORAGE"} <= ours
    for name in ours:
        assert f'"{name}"' in sources, name


def test_every_image_runs_as_nobody_in_particular_and_ends_when_asked() -> None:
    found = stages()
    for target in ("worker", "command", "service", "job"):
        assert re.search(r"^USER 10001$", found[target], re.MULTILINE), target
        assert re.search(r"^STOPSIGNAL SIG(INT|TERM)$", found[target], re.MULTILINE), target
        assert re.search(r"^HEALTHCHECK ", found[target], re.MULTILINE), target
        assert re.search(r"^ENTRYPOINT \[", found[target], re.MULTILINE), (
            f"{target}: a shell would eat signals"
        )
    extras = set(re.findall(r"--extra (\w+)", DOCKERFILE))
    assert extras <= set(EXTRAS)
    for pod in PODS.values():
        security = pod["spec"]["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 10001)
    assert CRONJOB["spec"]["concurrencyPolicy"] == "Forbid"


@pytest.mark.parametrize("name", COMPOSE)
def test_everything_that_a_compose_file_refers_to_is_there(name: str) -> None:
    found = compose(name)
    for service_name, service in found["services"].items():
        for other, condition in service.get("depends_on", {}).items():
            needed = found["services"][other]
            if condition["condition"] == "service_healthy":
                built = needed.get("build", {}).get("target")
                checks = "healthcheck" in needed or (built and "HEALTHCHECK --" in stages()[built])
                assert checks, f"{service_name} waits for the health of {other}"
        if "build" in service:
            assert service["build"]["target"] in stages()
            assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).exists()
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DOCKER / source).exists() if source.startswith(".") else source in found["volumes"]


def test_what_prometheus_asks_is_served() -> None:
    jobs = yaml.safe_load((DOCKER / "prometheus/prometheus.yaml").read_text())["scrape_configs"]
    ports = {"service": str(PORT), "accounts": "6066", "clearing": "6066"}
    for job in jobs:
        for target in (target for config in job["static_configs"] for target in config["targets"]):
            host, _, port = target.partition(":")
            assert ports[host] == port
            assert host in compose("compose.yaml")["services"]
    assert "EXPOSE 6066" in stages()["worker"]


def test_systemd_takes_an_orderly_end_for_none_and_ends_a_round_that_hangs() -> None:
    for name in ("snapkafka-keep.service", "snapkafka-keep-once.service"):
        unit = (DOCKER / "systemd" / name).read_text()
        (statuses,) = re.findall(r"^SuccessExitStatus=(.*)$", unit, re.MULTILINE)
        assert set(map(int, statuses.split())) == set(map(exit_status, (signal.SIGTERM, signal.SIGINT)))
    (minutes,) = re.findall(r"^TimeoutStartSec=(\d+)min$", unit, re.MULTILINE)
    within_s = ops.Schedule(every_ms=1).round_ms / 1_000
    assert within_s < int(minutes) * 60
    assert within_s <= CRONJOB["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"]


# -- Kubernetes -----------------------------------------------------------------------------------------------


def test_every_image_of_kubernetes_is_built_and_what_it_mounts_is_there() -> None:
    for kind, container in CONTAINERS.items():
        name = container["image"].partition(":")[0]
        assert name.removeprefix("snapkafka-") in stages(), f"{kind}: {name}"
        volumes = {volume["name"] for volume in PODS[kind]["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes, kind
    assert f"EXPOSE {PORT}" in stages()["service"]
    assert f"https://127.0.0.1:{PORT}/healthz" in stages()["service"]


def test_the_service_is_reached_where_it_listens_and_by_the_name_that_it_has() -> None:
    (container,) = PODS["Deployment"]["spec"]["containers"]
    options = dict(word.removeprefix("--").split("=") for word in container["args"][1:])
    (port,) = container["ports"]
    assert int(options["port"]) == port["containerPort"] == PORT
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    for option in ("tls-certificate", "tls-key", "storage-root"):
        assert any(options[option].startswith(place) for place in mounts), option
    (served,) = K8S["Service"]["spec"]["ports"]
    assert served["targetPort"] == port["name"]
    assert options["host-name"].split(".")[0] == K8S["Service"]["metadata"]["name"]
    labels = PODS["Deployment"]["metadata"]["labels"]
    assert labels == DEPLOYMENT["spec"]["selector"]["matchLabels"] == K8S["Service"]["spec"]["selector"]
    routes = (CHECKOUT / "snapkafka/service/app.py").read_text()
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert (asked["port"], asked["scheme"]) == (port["name"], "HTTPS")
        assert f'Route("{asked["path"]}"' in routes


def test_prometheus_finds_the_service_and_logs_in() -> None:
    (endpoint,) = K8S["ServiceMonitor"]["spec"]["endpoints"]
    (served,) = K8S["Service"]["spec"]["ports"]
    assert (endpoint["port"], endpoint["scheme"]) == (served["name"], "https")
    assert K8S["ServiceMonitor"]["spec"]["selector"]["matchLabels"] == K8S["Service"]["metadata"]["labels"]
    assert f'Route("{endpoint["path"]}"' in (CHECKOUT / "snapkafka/service/app.py").read_text()
    tokens = next(it for it in CONTAINERS["Deployment"]["env"] if it["name"] == "SNAPKAFKA_SERVICE_TOKENS")
    assert endpoint["authorization"]["credentials"]["name"] == tokens["valueFrom"]["secretKeyRef"]["name"]
    (name,) = (word for word in CONTAINERS["Deployment"]["args"] if word.startswith("--host-name="))
    assert endpoint["tlsConfig"]["serverName"] == name.removeprefix("--host-name=")
