"""What a service installs: Faust, and very little more. What needs which extra, and what it says without it."""

import os
import subprocess
import sys
from importlib.metadata import metadata, packages_distributions
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.utils import canonicalize_name

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime import EXTRAS, extras
from snapkafka.runtime.extras import require_extra
from tests.installed import installed, write_sitecustomize

PACKAGE = Path(__file__).parents[3] / "snapkafka"
#: What each part of the package can be imported with.
NEEDS = {
    "assembly": ("embedded", "spark"),
    "cli": ("cli",),
    "demo": ("demo",),
    "drivers": ("faust", "clients"),
    "kafka": ("faust",),
    "ops": ("faust",),
    "restore": ("faust",),
    "service": ("service",),
}
#: What every installation has: one for the codec of the ledger, one for values that other processes read.
BASE = {"fastavro", "msgspec"}


def test_a_service_gets_at_most_three_packages_more_than_faust_needs() -> None:
    more = installed("snapkafka", "faust") - installed("faust-streaming") - {"snapkafka"}
    assert more >= BASE and len(more) <= 3, more
    assert "obstore" not in installed("snapkafka", "cli", "spark", "query")
    assert {"pyspark", "typer"} <= installed("snapkafka", "faust", "cli", "spark")  # the test can see them


@pytest.mark.parametrize("part", sorted(NEEDS))
def test_every_part_is_imported_with_its_extra_alone(part: str, tmp_path: Path) -> None:
    write_sitecustomize(tmp_path, *NEEDS[part])
    code = (
        f"import importlib, pkgutil, snapkafka.{part} as part\n"
        "for it in pkgutil.walk_packages(part.__path__, part.__name__ + '.'):\n"
        "    if not it.name.endswith('__main__'): importlib.import_module(it.name)"
    )
    environ = {"SNAPKAFKA_BOOTSTRAP": "broker:1", "SNAPKAFKA_NAMESPACE": "ns"}
    environ = os.environ | environ | {"PYTHONPATH": f"{tmp_path}:{PACKAGE.parent}"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_extras_are_those_of_the_package_and_bring_their_modules() -> None:
    reported = set(metadata("snapkafka").get_all("Provides-Extra") or ())
    assert reported - {"dev", "mutation"} == set(EXTRAS)
    where = packages_distributions()
    for extra, modules in EXTRAS.items():
        brought = installed("snapkafka", extra)
        for module in modules:
            assert brought & {canonicalize_name(name) for name in where[module]}, (extra, module)
    whole = {module for extra in ("faust", "cli", "spark", "query") for module in EXTRAS[extra]}
    assert set(EXTRAS["demo"]) >= whole


def test_what_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    require_extra("demo", "the demo")
    # any finder's word counts: a checkout installed in place has its own
    with monkeypatch.context() as patch:
        patch.setitem(EXTRAS, "own", ("in_place",))
        patch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=lambda name, path: name)])
        require_extra("own", "the demo")
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in ("duckdb", "faust") else name)
    with pytest.raises(DependencyMissingError) as raised:
        require_extra("demo", "the demo")
    assert raised.value.message == "the demo needs faust, duckdb, which are not installed"
    assert raised.value.hint.startswith("pip install '.[demo]'")
