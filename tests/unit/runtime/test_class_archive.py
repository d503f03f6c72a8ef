"""Archives of Java's classes: when one is written, when it is mapped, and when there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from snapkafka.runtime.class_archive import KEPT_MAX, MAPPED, QUIET, archive_options


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java, two jars, and a cache."""
    monkeypatch.setenv("SNAPKAFKA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "lib").mkdir()
    for name in ("lib/modules", "a.jar", "b.jar"):
        (tmp_path / name).write_text(name)
    return tmp_path


def options(home: Path, *, record: bool = True) -> list[str]:
    """Those of a Java that is not the first one."""
    archive_options("kafka", home, [home / "a.jar", home / "b.jar"], record=record)
    return archive_options("kafka", home, [home / "a.jar", home / "b.jar"], record=record)


def written(home: Path, content: bytes = b"\xba\xba") -> Path:
    """What Java writes where the options ask for it."""
    option, quiet = options(home)
    name, _, place = option.partition("=")
    assert (name, quiet) == ("-XX:ArchiveClassesAtExit", QUIET)
    Path(place).write_bytes(content)
    return Path(place)


def test_the_second_java_writes_it_and_the_next_one_maps_it(home: Path) -> None:
    """Who runs it once does not wait for that."""
    assert options(home, record=False) == []
    assert archive_options("kafka", home, [home / "a.jar", home / "b.jar"]) == []
    archive = written(home)
    assert options(home) == [f"-XX:SharedArchiveFile={archive}", *MAPPED]
    assert options(home, record=False) == options(home)


@pytest.mark.parametrize("content", [b"", bytes(4096)])
def test_one_without_its_header_is_written_again(home: Path, content: bytes) -> None:
    """Java writes the header last."""
    archive = written(home, content)
    assert options(home)[0] == f"-XX:ArchiveClassesAtExit={archive}"


def test_one_that_was_cut_short_afterwards_is_written_again(home: Path) -> None:
    """Java would map what is not there, and crash."""
    archive = written(home, b"whole")
    assert options(home)[0] == f"-XX:SharedArchiveFile={archive}"
    archive.write_bytes(b"who")
    assert options(home)[0] == f"-XX:ArchiveClassesAtExit={archive}"
    assert not archive.exists()
    archive.write_bytes(b"again")
    assert options(home)[0] == f"-XX:SharedArchiveFile={archive}"


@pytest.mark.parametrize("name", ["lib/modules", "a.jar"])
def test_another_java_or_jar_has_one_of_its_own(home: Path, name: str) -> None:
    archive = written(home)
    os.utime(home / name, ns=(0, 0))
    assert written(home) != archive


def test_without_a_place_for_it_java_runs_without(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPKAFKA_CACHE", str(home / "a.jar"))
    assert options(home) == []


def test_there_are_a_few_and_those_that_nobody_maps_give_way(home: Path) -> None:
    archives = []
    for ns in range(KEPT_MAX):
        os.utime(home / "a.jar", ns=(0, ns))
        archives.append(written(home))
    os.utime(home / "a.jar", ns=(0, KEPT_MAX))
    assert options(home) == [], "all of them are in use"
    for archive in archives[:2]:
        os.utime(archive, (0, 0))
    os.utime(home / "a.jar", ns=(0, 0))
    assert options(home)[0] == f"-XX:SharedArchiveFile={archives[0]}", "in use again"
    os.utime(home / "a.jar", ns=(0, KEPT_MAX))
    newest = written(home)
    assert [path for path in (*archives, newest) if path.exists()] == [archives[0], *archives[2:], newest]
