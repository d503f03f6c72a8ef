"""GitHub's workflows: actions pinned by commit, no rights that a job does not need, only what `make` runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).parents[3]
WORKFLOWS = sorted((CHECKOUT / ".github/workflows").glob("*.yaml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_make_runs_with_pinned_actions_and_few_rights(path: Path) -> None:
    text = path.read_text()
    found: dict[str, Any] = yaml.safe_load(text)
    assert found["permissions"] == {}
    for action in re.findall(r"uses: (\S+.*)", text):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    for name, job in found["jobs"].items():
        assert "timeout-minutes" in job, name
        rights = {"id-token": "write"} if name == "publish" else {"contents": "read"}
        assert job["permissions"] == rights, name
        for step in job["steps"]:
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
            if run := step.get("run"):
                command, _, target = run.partition(" ")
                assert run == ".ci/run" or (command == "make" and target in TARGETS), run
            assert "${{ github.event" not in str(step)


def test_there_are_a_test_and_a_release_workflow() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yaml", "release.yaml"]
