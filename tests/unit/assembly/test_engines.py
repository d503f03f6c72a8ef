"""The choice of the engine, and what the embedded one hands over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from snapkafka.assembly import HandOverError, Job, JobSpec, embedded, engines
from snapkafka.errors import BadInputError, DependencyMissingError
from snapkafka.runtime import extras


class Fake:
    """An engine that says its name, or hands over."""

    def __init__(self, name: str, reason: str = "") -> None:
        self.name, self.reason = name, reason

    def assemble(self) -> str:
        if self.reason:
            raise HandOverError(self.reason)
        return self.name


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Both engines, without Spark; `reason`: why the embedded one hands over."""
    handed = {"reason": ""}

    @contextmanager
    def spark(*_: object) -> Iterator[Fake]:
        yield Fake("spark")

    monkeypatch.setattr("snapkafka.assembly.spark.engine.spark_engine", spark)
    monkeypatch.setattr(embedded, "EmbeddedEngine", lambda job: Fake("embedded", handed["reason"]))
    return handed


def taken(lines: list[str], spec: JobSpec, *, offsets: int = 1_000) -> str:
    """Return the name of the engine that assembles."""
    with engines.Chosen(Job(spec=spec, notify=lines.append)) as engine:
        return engine.do(offsets, lambda it: cast(Fake, it).assemble())


@pytest.mark.parametrize("name", ["spark", "embedded", "auto"])
def test_a_small_snapshot_is_that_of_the_option(fakes: dict[str, str], lines: list[str], name: str) -> None:
    assert taken(lines, JobSpec(engine=name)) == ("spark" if name == "spark" else "embedded")
    assert lines == []


@pytest.mark.parametrize(
    ("offsets", "reason", "named"),
    [
        (engines.OFFSETS_MAX + 1, "", f"{engines.OFFSETS_MAX + 1:,} offsets"),
        (1_000, "an odd header", "an odd header"),  # that shows only in the records
    ],
)
def test_what_only_spark_does_is_named(
    fakes: dict[str, str], lines: list[str], offsets: int, reason: str, named: str
) -> None:
    """Never a silent difference: `auto` takes Spark and says why, `embedded` refuses."""
    fakes["reason"] = reason
    assert taken(lines, JobSpec(engine="auto"), offsets=offsets) == "spark"
    (line,) = lines
    assert named in line
    with pytest.raises(BadInputError, match=named):
        taken(lines, JobSpec(engine="embedded"), offsets=offsets)


def test_where_spark_is_needed_and_missing_the_reason_is_named(
    fakes: dict[str, str], lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes["reason"] = "an odd header"
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "pyspark" else name)
    with pytest.raises(DependencyMissingError) as raised:
        taken(lines, JobSpec(engine="auto"))
    assert raised.value.message.startswith("Spark (for an odd header) needs pyspark, ")
    assert raised.value.hint.startswith("pip install '.[spark]'")


def test_without_its_libraries_spark_is_taken(
    fakes: dict[str, str], lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "missing_of", lambda extra: ["duckdb"])
    assert taken(lines, JobSpec(engine="auto")) == "spark"
    assert "without duckdb" in lines[0]
