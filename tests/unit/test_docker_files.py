"""Docker, Kubernetes and systemd files agree with the package: versions, commands, options, ports, variables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

import snapkafka
from snapkafka.cli.app import app
from snapkafka.runtime.extras import EXTRAS

CHECKOUT = Path(__file__).parents[2]
DOCKER = CHECKOUT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE = ("compose.minimal.yaml", "compose.yaml")
COMMAND: Any = typer.main.get_command(app)
CRONJOB: dict[str, Any] = yaml.safe_load((DOCKER / "k8s/cronjob.yaml").read_text())
(CONTAINER,) = CRONJOB["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
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
    yield "cronjob.yaml", [str(part) for part in CONTAINER["args"]]
    for where, service in services():
        if (
            service.get("image", "").startswith(("snapkafka-job", "snapkafka-command"))
            and "command" in service
        ):
            yield where, [str(part) for part in service["command"]]
        for script in service.get("entrypoint", ()):
            for line in re.findall(r"snapkafka (?=\w+ --)([^;&|]*)", str(script)):
                yield where, shlex.split(line)
    for unit in (DOCKER / "systemd").glob("*.service"):
        for line in re.findall(r"^ExecStart=\S+/snapkafka (.*)$", unit.read_text(), re.MULTILINE):
            yield unit.name, shlex.split(line)


def test_every_version_is_that_of_the_package() -> None:
    images = [service["image"] for _, service in services()] + [CONTAINER["image"]]
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
        "cronjob.yaml", "compose.yaml keep", "compose.yaml metrics", "snapkafka-keep.service",
    }  # fmt: skip
    for where, (name, *arguments) in found:
        command = COMMAND.commands[name]
        # click refuses what it does not know; nothing is run.
        command.make_context(name, arguments, resilient_parsing=False).close()
        assert where


def test_every_variable_is_read_by_the_code() -> None:
    sources = "\n".join(path.read_text() for path in (CHECKOUT / "snapkafka").rglob("*.py"))
    given = {item["name"] for item in CONTAINER["env"]}
    for _, service in services():
        given |= set(service.get("environment", ()))
    ours = {name for name in given if name.startswith("SNAPKAFKA_")}
    assert {"SNAPKAFKA_BOOTSTRAP", "SNAPKAFKA_NAMESPACE", "SNAPKAFKA_STORAGE"} <= ours
    for name in ours:
        assert f'"{name}"' in sources, name


def test_every_image_runs_as_nobody_in_particular_and_ends_when_asked() -> None:
    found = stages()
    for target in ("worker", "command", "job"):
        assert re.search(r"^USER 10001$", found[target], re.MULTILINE), target
        assert re.search(r"^STOPSIGNAL SIG(INT|TERM)$", found[target], re.MULTILINE), target
        assert re.search(r"^HEALTHCHECK ", found[target], re.MULTILINE), target
        assert re.search(r"^ENTRYPOINT \[", found[target], re.MULTILINE), (
            f"{target}: a shell would eat signals"
        )
    extras = set(re.findall(r"--extra (\w+)", DOCKERFILE))
    assert extras <= set(EXTRAS)
    security = CRONJOB["spec"]["jobTemplate"]["spec"]["template"]["spec"]["securityContext"]
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
    ports = {"metrics": "9100", "accounts": "6066", "clearing": "6066"}
    for job in jobs:
        for target in (target for config in job["static_configs"] for target in config["targets"]):
            host, _, port = target.partition(":")
            assert ports[host] == port
            assert host in compose("compose.yaml")["services"]
    assert "EXPOSE 6066" in stages()["worker"]
