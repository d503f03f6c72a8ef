"""What `assemble` and `verify` say of a snapshot that nobody can prove, whatever the checks found."""

from __future__ import annotations

from snapkafka.assembly.report import report


def test_why_nobody_can_prove_it_is_said_before_the_checks() -> None:
    told = {
        "id": "daily", "epoch": 7, "verdict": "UNVERIFIABLE", "contaminated": "agent a was handed offset 5 late",
        "checks": [], "restorable": None, "manifest": "daily.json", "open": [],
    }  # fmt: skip
    lines = list(report(told))
    assert lines[:2] == [
        "daily (epoch 7): UNVERIFIABLE",
        "  nobody can prove it: agent a was handed offset 5 late",
    ]
    assert list(report(told | {"contaminated": ""})) == [lines[0], *lines[2:]]


def test_who_leaves_it_open_is_said_before_the_checks() -> None:
    told = {
        "id": "daily", "epoch": 7, "verdict": "VERIFIED_OPEN", "contaminated": "",
        "checks": [], "restorable": None, "manifest": "daily.json",
        "open": [{"group": "bank", "topics": ["bills"]}],
    }  # fmt: skip
    first, second, *_ = report(told)
    assert first == "daily (epoch 7): VERIFIED_OPEN"
    assert second.startswith("  open:     group bank reads bills without snapkafka")
