"""The description of the provider: valid by Airflow's own schemas, naming what there is."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import snapkafka_airflow
import yaml
from airflow.dag_processing.dagbag import DagBag
from airflow.providers_manager import ProvidersManager
from snapkafka_airflow.get_provider_info import get_provider_info

FOLDER = Path(__file__).parents[1]
YAML: dict[str, Any] = yaml.safe_load((FOLDER / "src/snapkafka_airflow/provider.yaml").read_text())


def schema(name: str) -> Any:
    return json.loads((Path(airflow.__file__).parent / name).read_text())


def test_the_description_is_valid_by_the_schemas_of_airflow() -> None:
    assert YAML["versions"][0] == snapkafka_airflow.__version__
    jsonschema.validate(YAML, schema("provider.yaml.schema.json"))
    jsonschema.validate(get_provider_info(), schema("provider_info.schema.json"))


def test_everything_that_is_named_exists() -> None:
    info = get_provider_info()
    for kind in ("hooks", "operators", "sensors", "triggers"):
        for item in info[kind]:
            for module in item["python-modules"]:
                assert importlib.import_module(module).__all__
    paths = [info["connection-types"][0]["hook-class-name"], *info["extra-links"]]
    paths += [info["asset-uris"][0]["handler"], info["asset-uris"][0]["factory"]]
    for path in paths:
        module, _, name = path.rpartition(".")
        assert getattr(importlib.import_module(module), name)


def test_airflow_finds_the_provider() -> None:
    manager = ProvidersManager()
    assert manager.providers["snapkafka-airflow"].version == snapkafka_airflow.__version__
    assert "snapkafka" in manager.hooks
    assert any(name.endswith("ManifestLink") for name in manager.extra_links_class_names)


def test_the_example_dags_are_imported_without_errors() -> None:
    bag = DagBag(str(Path(snapkafka_airflow.__file__).parent / "example_dags"))
    assert bag.import_errors == {}
    assert set(bag.dags) == {
        "snapkafka_alert",
        "snapkafka_daily_full",
        "snapkafka_drill",
        "snapkafka_hourly",
        "snapkafka_report",
        "snapkafka_verify_again",
    }
    assert [task.task_id for task in bag.dags["snapkafka_hourly"].topological_sort()] == [
        "trigger", "captured", "assemble", "verify", "prune",
    ]  # fmt: skip
