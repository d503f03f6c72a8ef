"""The Airflow provider without Airflow: its files agree with each other and with this package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

import snapkafka

FOLDER = Path(__file__).parents[3] / "connectors" / "airflow"
PROJECT: dict[str, Any] = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
YAML: dict[str, Any] = yaml.safe_load((FOLDER / "src/snapkafka_airflow/provider.yaml").read_text())


def test_it_has_the_version_of_the_package_and_depends_on_its_command_alone() -> None:
    init = (FOLDER / "src/snapkafka_airflow/__init__.py").read_text()
    (version,) = re.findall(r'^__version__ = "(.+)"$', init, re.MULTILINE)
    assert {version, PROJECT["version"], YAML["versions"][0]} == {snapkafka.__version__}
    assert [name for name in PROJECT["dependencies"] if name.startswith("snapkafka")] == [
        f"snapkafka[cli]=={snapkafka.__version__}"
    ]
    assert PROJECT["name"] == YAML["package-name"]


def test_its_packages_have_the_license() -> None:
    assert PROJECT["license-files"] == ["LICENSE"]
    assert (FOLDER / "LICENSE").read_bytes() == (FOLDER.parents[1] / "LICENSE").read_bytes()
