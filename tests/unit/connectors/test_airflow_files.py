"""The Airflow provider without Airflow: its files agree with each other and with this package."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import yaml

import snapkafka

FOLDER = Path(__file__).parents[3] / "connectors" / "airflow"
PROJECT: dict[str, Any] = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
YAML: dict[str, Any] = yaml.safe_load((FOLDER / "src/snapkafka_airflow/provider.yaml").read_text())


def tree(module: str) -> ast.Module:
    return ast.parse((FOLDER / "src" / Path(*module.split("."))).with_suffix(".py").read_text())


def defined(module: str) -> set[str]:
    return {node.name for node in tree(module).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


def exported(module: str) -> set[str]:
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError(f"{module} has no __all__")


def test_it_has_the_version_of_the_package_and_depends_on_its_command_alone() -> None:
    (init,) = [
        ast.literal_eval(node.value)
        for node in ast.parse((FOLDER / "src/snapkafka_airflow/__init__.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__"
    ]
    assert {init, PROJECT["version"], YAML["versions"][0]} == {snapkafka.__version__}
    assert [name for name in PROJECT["dependencies"] if name.startswith("snapkafka")] == [
        f"snapkafka[cli]=={snapkafka.__version__}"
    ]
    assert PROJECT["name"] == YAML["package-name"]


def test_provider_yaml_names_what_the_code_has() -> None:
    for kind in ("hooks", "operators", "sensors", "triggers"):
        for item in YAML[kind]:
            for module in item["python-modules"]:
                assert exported(module) <= defined(module)
    (connection,) = YAML["connection-types"]
    (assets,) = YAML["asset-uris"]
    for path in (connection["hook-class-name"], *YAML["extra-links"], assets["handler"], assets["factory"]):
        module, _, name = path.rpartition(".")
        assert name in exported(module)


def test_its_packages_have_the_license() -> None:
    assert PROJECT["license-files"] == ["LICENSE"]
    assert (FOLDER / "LICENSE").read_bytes() == (FOLDER.parents[1] / "LICENSE").read_bytes()
