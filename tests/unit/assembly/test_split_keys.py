"""Keys that lie in several partitions of a table: which tables are examined, and what the note says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snapkafka.assembly import split_keys
from snapkafka.checks import CutView, Finding, witness_of
from snapkafka.protocol import TopicPartition
from tests.worlds import cleaned_log
from tests.worlds.cleaned_log import Changelog
from tests.worlds.on_disk import in_state
from tests.worlds.tables import in_files


def of_table(folder: Path, *keys: Iterable[str], **changes: Any) -> list[Finding]:
    """What is found in a table of such keys, by partition."""
    tps = [TopicPartition("totals-changelog", partition) for partition in range(len(keys))]
    cut = cleaned_log.captured([Changelog(tp, 7) for tp in tps])
    facts: dict[str, Any] = {"app": "bank", "table": "totals", "keyed": True} | changes
    view = CutView(replace(cut, changelogs=tuple(replace(one, **facts) for one in cut.changelogs)))
    rows = [
        {**in_state(key, "v", table="totals", partition=tp.partition), "changelog_topic": tp.topic}
        | {"changelog_offset": offset}
        for tp, of in zip(tps, keys, strict=True)
        for offset, key in enumerate(of)
    ]
    return split_keys.find(view, in_files(folder, {"state": rows}))


def test_a_table_is_named_with_its_keys_and_their_partitions(tmp_path: Path) -> None:
    """A key that would break a line is shown as bytes."""
    (finding,) = of_table(tmp_path / "one", ["ann", "bob"], ["cid"], ["bob", "cid", "dan"])
    assert witness_of(finding).what == (
        "table totals of bank: 2 keys lie in several partitions: bob (0, 2), cid (1, 2); each row holds a part of the "
        "key's value: its events come from several partitions"
    )
    assert (finding.topic, finding.partition, finding.offset) == ("totals-changelog", 2, 0)
    (finding,) = of_table(tmp_path / "other", ["a\nb"], ["a\nb"])
    assert ": 0x610a62 (0, 1);" in witness_of(finding).what


@pytest.mark.parametrize(
    ("keys", "changes"),
    [
        ((["ann"], ["bob"]), {}),
        ((["ann"], ["ann"]), {"keyed": False}),
        ((["ann"],), {}),
    ],
    ids=["each in one", "not keyed", "one partition"],
)
def test_nobody_else_is_accused(tmp_path: Path, keys: tuple[list[str], ...], changes: dict[str, Any]) -> None:
    assert of_table(tmp_path, *keys, **changes) == []
