"""From a plain Python to a working checkout: `python3 -m tools.setup` (which is `make setup`).

Makes `.venv`, installs the checkout into it with everything that its tests need, and brings Java and jars where they
are missing; with `demo` behind it, what the demo needs and no more. It states first what it will fetch, and skips what
is there. Run again it does nothing, until pyproject.toml or a jar set changes. Only the standard library is used, and
down to the version check nothing that an old Python does not know.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 -- this file is there to be run by the wrong Python, too
    sys.exit(
        "error: snapkafka needs Python 3.11 or newer, and this is %d.%d\n" % sys.version_info[:2]  # noqa: UP031
        + "  hint: make setup PYTHON=python3.12"
    )

import hashlib
import importlib.util
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime.environment import child_environment
from snapkafka.runtime.fetching import cache_dir, relevant_line
from snapkafka.runtime.ivy import KAFKA_JARS, S3_JARS, SPARK_JARS, JarSet, cached_jars
from snapkafka.runtime.jdk import find_java
from tests.servers.jars import S3_SERVER_JARS

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECKOUT: Final = Path(__file__).resolve().parents[1]
VENV: Final = CHECKOUT / ".venv"
PYTHON: Final = VENV / "bin" / "python"
#: What the running command prints; stays where it failed.
LOG: Final = CHECKOUT / "setup.log"


@dataclass(frozen=True, kw_only=True, slots=True)
class Jars:
    """A set of jars: what it is called here and in `tools.toolchain`, its size, and how long it takes to fetch."""

    jar_set: JarSet
    what: str
    part: str
    megabytes: int
    seconds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What a checkout is set up for: extras of pyproject.toml, sets of jars, and how long pip takes."""

    extras: str
    jars: tuple[Jars, ...]
    megabytes: int
    seconds: int
    #: Written last; holds what the environment was made for. make compares its age with that of pyproject.toml.
    stamp: str


KAFKA: Final = Jars(jar_set=KAFKA_JARS, what="Kafka 4.4", part="kafka", megabytes=43, seconds=70)
SPARK: Final = Jars(jar_set=SPARK_JARS, what="Spark's Kafka source", part="spark", megabytes=10, seconds=20)
S3: Final = Jars(jar_set=S3_JARS, what="Spark's S3", part="s3", megabytes=10, seconds=30)
S3_SERVER: Final = Jars(jar_set=S3_SERVER_JARS, what="an S3 server", part="s3proxy", megabytes=13, seconds=30)
#: Sizes and times of a clean machine of two cores; those of the packages for the demo are estimates.
GOALS: Final = {
    "demo": Goal(extras="demo,service", jars=(KAFKA, SPARK), megabytes=560, seconds=110, stamp=".demo"),
    "all": Goal(extras="dev", jars=(KAFKA, SPARK, S3, S3_SERVER), megabytes=640, seconds=150, stamp=".ready"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One thing to fetch: its name, its size, the time that it takes on an ordinary line, and the commands for it."""

    what: str
    megabytes: int
    seconds: int
    commands: tuple[Sequence[str], ...]


def main(arguments: Sequence[str] = ()) -> int:
    """Set up the checkout; return 0 if it is ready, the exit status of the error otherwise."""
    try:
        return _setup(GOALS[arguments[0] if arguments else "all"])
    except DependencyMissingError as error:
        print(f"error: {error}\n  hint: {error.advice}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("\ninterrupted; `make setup` goes on where this stopped", file=sys.stderr)
        return 130


def _setup(goal: Goal) -> int:
    if _is_ready(goal):
        (VENV / goal.stamp).touch()
        print(f"{VENV.name} is ready, nothing to do")
        return 0
    steps = _plan(goal)
    _announce(steps)
    started = time.monotonic()
    for number, step in enumerate(steps, 1):
        _perform(step, f"[{number}/{len(steps)}] {step.what}")
    for stamp in {goal.stamp, GOALS["demo"].stamp}:  # who has everything has what the demo needs
        (VENV / stamp).write_text(_fingerprint(), encoding="utf-8")
    print(f"ready after {time.monotonic() - started:.0f} s. Next: make demo, make test, make help")
    return 0


def _is_ready(goal: Goal) -> bool:
    try:
        stamp = (VENV / goal.stamp).read_text("utf-8")
    except OSError:
        return False
    return (
        stamp == _fingerprint() and PYTHON.exists() and all(cached_jars(jars.jar_set) for jars in goal.jars)
    )


def _fingerprint() -> str:
    made_for = (CHECKOUT / "pyproject.toml").read_bytes() + str(CHECKOUT).encode()
    return hashlib.sha256(made_for).hexdigest() + "\n"


def _plan(goal: Goal) -> list[Step]:
    """List the missing parts."""
    toolchain = (str(PYTHON), "-m", "tools.toolchain")
    packages = (*_make_venv(), _install(goal.extras))
    steps = [Step(what="Python packages", megabytes=goal.megabytes, seconds=goal.seconds, commands=packages)]
    if find_java() is None:
        steps.append(Step(what="Java 21", megabytes=34, seconds=5, commands=((*toolchain, "java"),)))
    steps += [
        Step(
            what=jars.what,
            megabytes=jars.megabytes,
            seconds=jars.seconds,
            commands=((*toolchain, jars.part),),
        )
        for jars in goal.jars
        if cached_jars(jars.jar_set) is None
    ]
    return steps


def _make_venv() -> list[Sequence[str]]:
    """Return the command that creates `.venv`; none if there is a working one."""
    probe = (str(PYTHON), "-c", "import sys, pip; sys.exit(sys.version_info < (3, 11))")
    if PYTHON.exists() and subprocess.run(probe, capture_output=True).returncode == 0:
        return []
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return [(sys.executable, "-m", "venv", "--clear", str(VENV))]
    if uv := shutil.which("uv"):
        return [(uv, "venv", "--quiet", "--seed", "--clear", "--python", sys.executable, str(VENV))]
    raise DependencyMissingError(
        "this Python cannot make virtual environments (no module venv or ensurepip)",
        hint="apt install python3-venv, or install uv, or make setup PYTHON=...",
    )


def _install(extras: str) -> Sequence[str]:
    """Return the command that installs the checkout, editable, with these extras: by uv if installed, else pip."""
    target = f"{CHECKOUT}[{extras}]"
    if uv := shutil.which("uv"):
        return (uv, "pip", "install", "--python", str(PYTHON), "--editable", target)
    return (str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--editable", target)


def _announce(steps: Sequence[Step]) -> None:
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"Setting up {VENV.name} with Python {version}. To fetch (less where pip has it in its cache):")
    for step in steps:
        print(f"  {step.what:<22}{step.megabytes:>5} MB  about {step.seconds:>3} s")
    total_s = sum(step.seconds for step in steps)
    print(f"  {'in all':<22}{sum(step.megabytes for step in steps):>5} MB  about {total_s:>3} s")
    if java := find_java():
        print(f"Java {java.major} is here: {java.home}")
    print(f"Java and jars are kept in {cache_dir()}, for all checkouts.", flush=True)


def _perform(step: Step, title: str) -> None:
    """Run a step's commands with a line that shows the elapsed time; raise an error with their most informative
    line."""
    started = time.monotonic()
    for command in step.commands:
        with LOG.open("w+", encoding="utf-8", errors="replace") as log:
            try:
                process = subprocess.Popen(
                    command,
                    cwd=CHECKOUT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=child_environment(os.environ),
                )
            except OSError as error:
                raise DependencyMissingError(f"{command[0]} could not be run: {error}") from error
            try:
                status = _await(process, title, started, step.seconds)
            finally:
                process.terminate()  # on Ctrl-C; does nothing to one that has ended
                process.wait()
            if status != 0:
                log.seek(0)
                _line(title, "failed", end="\n")
                raise DependencyMissingError(
                    f"{step.what}: {relevant_line(log.read())}",
                    hint=f"run it again when fixed; the whole output is in {LOG.name}",
                )
    LOG.unlink(missing_ok=True)
    _line(title, f"done in {time.monotonic() - started:.0f} s", end="\n")


def _await(process: subprocess.Popen[bytes], title: str, started: float, expected_s: int) -> int:
    on_terminal = sys.stdout.isatty()
    said_at = started - 1000
    while True:
        now = time.monotonic()
        if now - said_at >= (0.5 if on_terminal else 20):
            _line(title, f"{now - started:.0f} s of about {expected_s} s", end="" if on_terminal else "\n")
            said_at = now
        try:
            return process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue


def _line(title: str, text: str, *, end: str) -> None:
    start = "\r\033[K" if sys.stdout.isatty() else ""
    print(f"{start}{title}: {text}", end=end, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
