"""What `assemble` and `verify` print of a snapshot, whatever the checks found."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from snapkafka.assembly import JobResult
from snapkafka.checks import NOTHING_SEEN
from snapkafka.cli import Screen
from snapkafka.cli.present.printed import print_assembled
from snapkafka.manifest_entries import CheckEntry, ExternalEntry, OpenEntry, WitnessEntry
from snapkafka.protocol import Uncaptured, Unread


def lines(verdict: str = "VERIFIED", checks: tuple[CheckEntry, ...] = (), **more: Any) -> list[str]:
    """Return what is printed of a result."""
    output = io.StringIO()
    console = Screen(Console(width=1_000, file=output))
    result = JobResult(
        id="daily", epoch=7, verdict=verdict, good=True, manifest="daily.json", checks=checks, **more
    )
    print_assembled(console, (result,))
    return [line.strip() for line in output.getvalue().splitlines()]


def check(name: str, records: int | None, **more: Any) -> CheckEntry:
    return CheckEntry(name=name, run=True, status="passed", records=records, **more)


def test_what_the_verdict_does_not_stand_for_is_beside_it() -> None:
    beside: dict[str, Any] = {
        "not_compared": ("stored tables were not compared with the log (--tables)",),
        "external": (ExternalEntry(topic="orders", mixed=True), ExternalEntry(topic="clicks", mixed=False)),
        "uncaptured": (Uncaptured(app="shop", what="agent a reads an in-memory channel"),),
    }
    found = lines("VERIFIED_OPEN", **beside)
    assert any(line.startswith("open: topic orders holds external records beside those of") for line in found)
    assert "assumed: whoever writes to topic clicks does not read what the apps write" in found
    assert "not included: app shop: agent a reads an in-memory channel" in found
    assert "note: stored tables were not compared with the log (--tables)" in found
    (strict,) = (line for line in lines("VERIFIED_OPEN", strict=True, **beside) if "clicks" in line)
    assert strict.startswith("open: topic clicks holds external records and is not declared")


def test_why_nobody_can_prove_it_is_said_before_the_checks() -> None:
    found = lines("UNVERIFIABLE", contaminated="agent a was handed offset 5 late")
    assert found[1] == "not verifiable: agent a was handed offset 5 late"
    assert lines("UNVERIFIABLE") == [found[0], *found[2:]]


def test_who_leaves_it_open_is_printed() -> None:
    found = lines("VERIFIED_OPEN", open=(OpenEntry(group="bank", topics=("bills",)),))
    assert any(line.startswith("open: group bank reads bills without snapkafka") for line in found)


def test_what_each_check_looked_at_is_said_and_nothing_plainly() -> None:
    checks = (check("V1", 1_200, partitions=3), check("V4", 0, channels=2), check("V6 money", None))
    found = "\n".join(lines(checks=checks, unread=(Unread(app="payments", topic="to-pay"),)))
    assert "topic to-pay did not exist when payments started: create it and restart payments" in found
    assert "1,200 records of 3 partitions" in found
    assert "no record, 2 channels" in found
    assert NOTHING_SEEN not in found
    assert NOTHING_SEEN in "\n".join(lines(checks=(check("V1", 0), check("V2", 0), check("V6 money", None))))


def test_notes_of_v5_are_printed_one_by_one() -> None:
    """Events that ran twice before the cut must not hide behind a replay."""
    notes = tuple(
        WitnessEntry(topic=topic, partition=1, offset=7, what=what)
        for topic, what in (("posts", "3 events of topic posts ran twice"), ("likes", "another"))
    )
    found = "\n".join(lines(checks=(check("V5", 9, noted=2, notes=notes),)))
    assert "posts[1] offset 7: 3 events of topic posts ran twice" in found
    assert "likes[1] offset 7: another" in found
