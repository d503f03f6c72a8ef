"""What runs for every event, compiled: the same sources (`pyproject.toml` names them), and the same promises."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.compiling import CHECKOUT, compiled, compiler

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

SAYS_WHERE = (
    "import sys, importlib; print(*(importlib.import_module(m).__file__ for m in sys.argv[1:]), sep='\\n')"
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("compiled") / "copy")


def test_all_that_is_named_is_compiled(copy: Path) -> None:
    """Where there is no compiler the sources run as they are."""
    ending = ".so" if compiler() else ".py"
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    named = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]["include"]
    modules = [name.removesuffix(".py").replace("/", ".") for name in named]
    found = run(copy, "-c", SAYS_WHERE, *modules).split()
    assert len(found) == len(named) > 0
    for place, name in zip(found, named, strict=True):
        assert place.startswith(str(copy / name.removesuffix(".py"))), "of this copy, and no other"
        assert place.endswith(ending), f"{name} is not compiled"


def test_an_app_does_compiled_what_it_does_without_snapkafka_and_its_snapshots_are_verified(
    copy: Path,
) -> None:
    """The differential test of tables, run from the copy."""
    told = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/features/test_tables.py")
    assert " passed" in told
    assert "skipped" not in told


def run(copy: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=copy, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
