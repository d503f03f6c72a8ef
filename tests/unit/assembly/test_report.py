"""What `assemble` and `verify` say of a snapshot that nobody can prove, whatever the checks found."""

from __future__ import annotations

from typing import Any

from snapkafka.assembly.report import report
from snapkafka.checks.coverage import NOTHING_SEEN

#: Of what would be told beside the verdict.
NOTHING: dict[str, Any] = {
    "open": [],
    "external": [],
    "strict": False,
    "uncaptured": [],
    "unread": [],
    "not_compared": [],
}


def test_what_the_verdict_does_not_stand_for_is_beside_it() -> None:
    reported = {
        "id": "daily", "epoch": 7, "verdict": "VERIFIED_OPEN", "contaminated": "",
        "checks": [], "restorable": None, "manifest": "daily.json",
        "open": [], "strict": False, "unread": [],
        "not_compared": ["stored tables were not compared with the log (the option tables does)"],
        "external": [
            {"topic": "orders", "mixed": True, "declared": False},
            {"topic": "clicks", "mixed": False, "declared": False},
        ],
        "uncaptured": [{"app": "shop", "what": "agent a reads an in-memory channel"}],
    }  # fmt: skip
    lines = list(report(reported))
    assert lines[1].startswith("  open:     topic orders holds external records beside those of the apps")
    assert lines[2] == "  assumed:  whoever writes to topic clicks does not read what the apps write"
    assert lines[3] == "  not included: app shop: agent a reads an in-memory channel"
    assert lines[4] == "  unproven: stored tables were not compared with the log (the option tables does)"
    (strict,) = [line for line in report(reported | {"strict": True}) if "clicks" in line]
    assert strict.startswith("  open:     topic clicks holds external records and is not declared")


def test_why_nobody_can_prove_it_is_said_before_the_checks() -> None:
    reported = {
        "id": "daily", "epoch": 7, "verdict": "UNVERIFIABLE", "contaminated": "agent a was handed offset 5 late",
        "checks": [], "restorable": None, "manifest": "daily.json", **NOTHING,
    }  # fmt: skip
    lines = list(report(reported))
    assert lines[:2] == [
        "daily (epoch 7): UNVERIFIABLE",
        "  not verifiable: agent a was handed offset 5 late",
    ]
    assert list(report(reported | {"contaminated": ""})) == [lines[0], *lines[2:]]


def test_who_leaves_it_open_is_said_before_the_checks() -> None:
    reported = {
        "id": "daily", "epoch": 7, "verdict": "VERIFIED_OPEN", "contaminated": "",
        "checks": [], "restorable": None, "manifest": "daily.json", **NOTHING,
        "open": [{"group": "bank", "topics": ["bills"]}],
    }  # fmt: skip
    first, second, *_ = report(reported)
    assert first == "daily (epoch 7): VERIFIED_OPEN"
    assert second.startswith("  open:     group bank reads bills without snapkafka")


def check(name: str, records: int | None, **more: int) -> dict[str, object]:
    return {"name": name, "run": True, "status": "passed", "noted": 0, "records": records, **more}


def test_what_each_check_looked_at_is_said_and_nothing_plainly() -> None:
    reported = {
        "id": "daily", "epoch": 7, "verdict": "VERIFIED", "contaminated": "", "restorable": None,
        "manifest": "daily.json", **NOTHING, "unread": [{"app": "payments", "topic": "to-pay"}],
    }  # fmt: skip
    checks = [check("V1", 1_200, partitions=3), check("V4", 0, channels=2), check("V6 money", None)]
    _, unread, line, *rest = report(reported | {"checks": checks})
    assert (
        unread
        == "  unread:   topic to-pay did not exist when payments started: create it and restart payments"
    )
    assert line == (
        "  checks:   V1 passed (1,200 records of 3 partitions), V4 passed (no record, 2 channels), V6 money passed;"
        " not run: "
    )
    assert NOTHING_SEEN not in "".join(rest)
    _, _, line, note, *_ = report(
        reported | {"checks": [check("V1", 0), check("V2", 0), check("V6 money", None)]}
    )
    assert "V1 passed (no record)" in line
    assert note.strip() == NOTHING_SEEN


def test_notes_of_v5_are_printed_one_by_one() -> None:
    """Events that ran twice before the cut must not hide behind a replay."""
    note = {"topic": "posts", "partition": 1, "offset": 7, "what": "3 events of topic posts ran twice"}
    reported = {
        "id": "daily", "epoch": 7, "verdict": "VERIFIED", "contaminated": "", "restorable": None,
        "manifest": "daily.json", **NOTHING,
        "checks": [{**check("V5", 9), "noted": 2, "notes": [note, {**note, "topic": "likes", "what": "another"}]}],
    }  # fmt: skip
    lines = list(report(reported))
    assert "  V5 notes 2, as posts[1] offset 7: 3 events of topic posts ran twice" in lines
    assert "    and likes[1] offset 7: another" in lines
