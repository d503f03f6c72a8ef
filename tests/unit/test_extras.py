"""What a service installs: Faust, and very little more."""

from __future__ import annotations

from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def installed(name: str, *extras: str) -> set[str]:
    """A distribution and all that it requires, here and now."""
    found: set[tuple[str, str]] = set()
    left = [(canonicalize_name(name), extra) for extra in ("", *extras)]
    while left:
        wanted = left.pop()
        if wanted in found:
            continue
        found.add(wanted)
        for requirement in map(Requirement, requires(wanted[0]) or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": wanted[1]}):
                left += [(canonicalize_name(requirement.name), extra) for extra in ("", *requirement.extras)]
    return {name for name, _ in found}


def test_a_service_gets_at_most_three_packages_more_than_faust_needs() -> None:
    more = installed("snapkafka", "faust") - installed("faust-streaming") - {"snapkafka"}
    assert "avro" in more
    assert len(more) <= 3, more


def test_what_a_service_installs_has_nothing_heavy() -> None:
    heavy = {"pyspark", "confluent-kafka", "typer", "matplotlib", "duckdb", "s3fs"}
    assert not heavy & installed("snapkafka", "faust")
    assert "s3fs" not in installed("snapkafka", "cli", "spark", "query")
    assert {"pyspark", "typer"} <= installed("snapkafka", "faust", "cli", "spark")  # the test can see them
