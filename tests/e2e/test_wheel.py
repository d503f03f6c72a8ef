"""The wheel with each extra alone: a command works, or one line names the extra that it needs."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapkafka import errors
from snapkafka.cli.verbs import HELPS
from snapkafka.runtime import EXTRAS, cache_dir

CHECKOUT = Path(__file__).parents[2]
NO_BROKER = ("--bootstrap", "127.0.0.1:1", "--namespace", "ns")
MISSING, AWAY = errors.DependencyMissingError.exit_status, errors.BrokerUnavailableError.exit_status
UNKNOWN = errors.UnknownSnapshotError.exit_status
#: Arguments, the extras that the command needs besides `cli`, and how it ends with them.
WAYS: list[tuple[tuple[str, ...], str, int]] = [
    (("trigger", *NO_BROKER), "", AWAY),
    (("list", *NO_BROKER), "", AWAY),
    (("show", "one", *NO_BROKER), "", AWAY),
    (("assemble", "one", *NO_BROKER), "embedded", AWAY),
    (("verify", "one", *NO_BROKER), "embedded", AWAY),
    (("verify", "one", "--offline", "--storage", "tables"), "", UNKNOWN),
    (("keep", "--until", "termination", "--every", "10s", "--storage", "s", *NO_BROKER), "embedded", AWAY),
    (("keep", "--every", "10m", "--once", "--storage", "tables", *NO_BROKER), "embedded", AWAY),
    (("verdicts", *NO_BROKER), "", AWAY),
    (("query", "SELECT 1", "--storage", "tables"), "query", UNKNOWN),
    (("diff", "one", "two", "--storage", "tables"), "query", UNKNOWN),
    (("draw", "one", "--storage", "tables"), "", UNKNOWN),
    (("trace", "orders", "0", "1", *NO_BROKER), "", AWAY),
    (("doctor", *NO_BROKER), "", AWAY),
    (("doctor", "--offline", "nothing:app"), "faust", errors.BadInputError.exit_status),
    (("invariants", *NO_BROKER), "", AWAY),
    (("topics", "create", "orders", *NO_BROKER[:2]), "", AWAY),
    (("pause", *NO_BROKER), "", AWAY),
    (("resume", *NO_BROKER), "", AWAY),
    (("retire", "--app", "shop", *NO_BROKER), "", AWAY),
    (("checkpoint", *NO_BROKER), "", AWAY),
    (("prune", "--storage", "tables", "--keep-last", "1", "--dry-run"), "", errors.EXIT_OK),
    (("prune", "--storage", "s3a://bucket/tables", "--keep-last", "1", "--dry-run"), "s3", 8),
    (("serve", "--namespace", "ns", "--host", "0.0.0.0"), "service", errors.BadInputError.exit_status),
    (("restore", "one", "--storage", "tables", "--dry-run", *NO_BROKER), "restore", UNKNOWN),
    (("fork", "create", "a", "--from=one", "--storage=tables", "--dry-run", *NO_BROKER), "restore", UNKNOWN),
    (("drill", "--app=nothing", "--storage=none", *NO_BROKER), "restore embedded", errors.EXIT_NOT_GOOD),
    (("broker", "--port", "65536"), "", errors.BadInputError.exit_status),
    (("demo", "--storage", "/dev/null/here"), "demo", errors.StorageError.exit_status),
]
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


def outside() -> dict[str, str]:
    """This environment, without what makes Python find the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SNAPKAFKA"))}


def brings(extra: str, needed: str) -> bool:
    """Whether an extra brings all of another one; of none, anything does. Either engine assembles."""
    if needed == "embedded" and brings(extra, "spark"):
        return True
    return set(EXTRAS.get(needed, ())) <= set(EXTRAS.get(extra, ()))


def run(*command: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "tables").mkdir(exist_ok=True)
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True, text=True, timeout=900, cwd=folder, env=outside() | environment,
    )  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, CHECKOUT)
    done = run(*command, folder=folder)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(params=["", *sorted(EXTRAS)], scope="module")
def extra(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def venv(wheel: Path, extra: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The programs of an environment with the wheel and this extra."""
    folder = tmp_path_factory.mktemp("venv")
    python, uv = folder / "venv/bin/python", shutil.which("uv")
    make = f"{uv} venv --quiet --python {sys.executable}" if uv else f"{sys.executable} -m venv"
    install = f"{uv} pip install --python {python}" if uv else f"{python} -m pip install"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    for step in (f"{make} {folder}/venv", f"{install} --quiet {wanted}"):
        assert (done := run(*step.split(), folder=folder)).returncode == 0, done.stderr
    yield python.parent
    shutil.rmtree(folder)


def test_every_command_works_or_names_its_extra(venv: Path, extra: str, tmp_path: Path) -> None:
    assert {arguments[0] for arguments, _, _ in WAYS} == {name.split()[0] for name in HELPS}
    wrong = []
    for arguments, needed, status in WAYS:
        done = run(venv / "snapkafka", *arguments, folder=tmp_path, AWS_ENDPOINT_URL="http://127.0.0.1:1")
        missing = next((name for name in ("cli", *needed.split()) if not brings(extra, name)), None)
        expected = [status] if missing is None else [MISSING, f".[{missing}]"]
        reported = [done.returncode, *re.findall(r"pip install '(.+?)'", done.stderr)]
        too_long = missing is not None and len(done.stderr.splitlines()) > 2
        if reported != expected or "Traceback" in done.stderr or too_long:
            wrong.append((arguments, expected, reported, done.stderr))
    assert wrong == []


def test_what_is_no_command_works_or_names_its_extra(venv: Path, extra: str, tmp_path: Path) -> None:
    python = venv / "python"
    assert run(python, "-m", "snapkafka.sim", "--seed", "3", folder=tmp_path).returncode == 0
    if brings(extra, "faust"):
        code = "import faust, snapkafka; snapkafka.install(faust.App('a'), namespace='ns')"
        done = run(python, "-X", "dev", "-c", code, folder=tmp_path)
        assert (done.returncode, "snapkafka" in done.stderr) == (0, False), done.stderr
    done = run(python, "-m", "snapkafka.assembly", "--snapshot", "one", *NO_BROKER, folder=tmp_path)
    assert done.returncode in ((0, 2, AWAY) if brings(extra, "spark") else (MISSING,)), done.stderr
    assert brings(extra, "spark") or "pip install '.[spark]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("extra", ["demo"], indirect=True, scope="module")
def test_the_demo_runs_from_the_wheel(venv: Path, extra: str, tmp_path: Path) -> None:
    done = run(
        venv / "snapkafka", "demo", "--storage=here", folder=tmp_path, SNAPKAFKA_CACHE=str(cache_dir())
    )
    assert done.returncode == 0, done.stderr
    assert "VERIFIED" in done.stdout
