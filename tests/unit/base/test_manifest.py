"""The manifest: JSON and back, its schema, its names."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from snapkafka import manifest as manifests
from snapkafka.errors import BadInputError
from snapkafka.manifest import (
    AppendedEntry,
    CheckEntry,
    Column,
    FileEntry,
    InvariantEntry,
    LedgerEntry,
    LogEntry,
    Manifest,
    ParentEntry,
    ReadEntry,
    RestorableEntry,
    TableEntry,
    Times,
    TopicEntry,
    WitnessEntry,
    content_digest,
    file_stem,
)
from snapkafka.protocol import Captured, InputCut
from snapkafka.protocol.captured_snapshot import ChangelogCut, ProcessCut, Recorded, SenderEnd
from snapkafka.protocol.offsets import Position, Running

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "schemas" / "manifest.schema.json").read_text(encoding="utf-8")
)


def example() -> Manifest:
    position = Position(agent="a", topic="in", partition=0, offset=3, started_above=(5, 7))
    running = Running(agent="a", topic="in", partition=0, offset=2)
    of: dict[str, Any] = {"app": "one", "topic": "in", "topic_id": "ab", "partition": 0, "receiver": 2}
    source = InputCut(**of, position=3, noted=3, low=1, log_end=9, agents=(position,))
    changelog = ChangelogCut(app="one", table="t", topic="c", topic_id="cd", partition=0, end=5, process=2)
    known: dict[str, Any] = {"id": "täglich/1", "attempt": 2, "epoch": 18}
    asked: Any = {"type": "full", "parent": "", "storage": ""}
    captured = Captured(
        **known,
        **asked,
        processes=(
            ProcessCut(process=1, app="one", left=True),
            ProcessCut(process=2, app="two", heard="header", report=19, running=(running,)),
        ),
        inputs=(source,),
        senders=(SenderEnd(process=2, topic="in", partition=0, white_end=8, last_seq=4, marker=8),),
        changelogs=(changelog,),
        recorded=(Recorded(app="one", sender=2, topic="in", partition=0, start=3, end=8),),
    )
    files = (FileEntry(path="x/state/part-00000.parquet", bytes=7, rows=2, sha256="0" * 64),)
    schema = (Column(name="app", type="string"),)
    table = TableEntry(name="state", path="x/state", rows=2, digest="12", schema=schema, files=files)
    at_ms = 1_767_225_600_000
    appended = (AppendedEntry(offset=19, at_ms=at_ms + 7),)
    ledger = LedgerEntry(topic="_snapkafka.shop", topic_id="0" * 32, triggered_ms=at_ms, appended=appended)
    until = "2026-01-08T00:00:00+00:00"
    restorable = RestorableEntry(how="until", until=until, topic="in", partition=0, why="deletes")
    witness = WitnessEntry(topic="in", partition=0, offset=8, what="white after the end", process=2, seq=9)
    judged: Any = {"namespace": "shop", "verdict": "INCONSISTENT", "engine": "spark"}
    return Manifest(
        **known,
        **judged,
        content=content_digest([table]),
        ledger=ledger,
        times=Times(assembled_at="2026-01-01T00:00:00+00:00"),
        tables=(table,),
        checks=(
            CheckEntry(name="V1", run=True, status="failed", found=1, witnesses=(witness,)),
            CheckEntry(name="V3", run=False, status="not-run"),
        ),
        captured=captured,
        invariants=(InvariantEntry(name="money", sql="SELECT 1 WHERE 1 = 2"),),
        read=(ReadEntry(topic="in", partition=0, start=1, end=9),),
        restorable=restorable,
        isolation="read_committed",
        versions={"spark": "4"},
        topics=(TopicEntry(name="in", topic_id="ab", partitions=1, settings={"retention.ms": "1"}),),
        logs=(
            LogEntry(topic="in", partition=0, topic_id="ab", start=1, end=12),
            LogEntry(topic="c", partition=0, topic_id="ab", start=1, end=12, settled=4),
        ),
    )


PARENT = ParentEntry(id="monday", epoch=9, path="monday/state", digest="3")
INCREMENTAL = dataclasses.replace(example(), parents=(PARENT,))


@pytest.mark.parametrize("manifest", [example(), INCREMENTAL])
def test_comes_back_as_it_was_and_fits_its_schema(manifest: Manifest) -> None:
    assert manifests.load(manifests.dump(manifest)) == manifest
    jsonschema.validate(json.loads(manifests.dump(manifest)), SCHEMA)


def test_schema_refuses_a_skipped_check_that_is_called_passed() -> None:
    manifest_json = json.loads(manifests.dump(example()))
    manifest_json["checks"][1]["status"] = "passed"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(manifest_json, SCHEMA)


def test_schema_names_every_field() -> None:
    assert set(SCHEMA["properties"]) == {field.name for field in dataclasses.fields(Manifest)}
    for kind, where in ((Captured, "captured"), (TableEntry, "table"), (CheckEntry, "check")):
        assert set(SCHEMA["$defs"][where]["properties"]) == {field.name for field in dataclasses.fields(kind)}


def test_unknown_fields_are_skipped() -> None:
    manifest_json = json.loads(manifests.dump(example()))
    manifest_json["later"] = manifest_json["captured"]["later"] = 1
    assert manifests.load(json.dumps(manifest_json)) == example()


TEXT = manifests.dump(example())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT.replace('"epoch": 18', '"epoch": true', 1), r"Expected `int`, got `bool` - at `\$\.epoch`"),
        (TEXT.replace('"header"', '"rumour"'), r"'rumour' - at `\$\.captured\.processes\[1\]"),
        *((TEXT.replace('"version": 2', f'"version": {other}'), f"version {other}") for other in (1, 3)),
        (TEXT.replace('"version": 2', '"version": "1"'), r"got `str` - at `\$\.version`"),
        *((text, r"x\.json") for text in ("", "[]", '{"version": 1}')),
    ],
)
def test_what_does_not_fit_is_named(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        manifests.load(text, where="x.json")


def test_ids_become_names_of_files() -> None:
    assert file_stem("20260101-120000-ab12") == "20260101-120000-ab12"
    odd = ["manual__2026-01-01T00:00:00+00:00", "../../etc", "a/b", "a_b/", "", ".x", "_x", "ä", "x" * 300]
    stems = {file_stem(one) for one in odd}
    assert len(stems) == len(odd)
    assert all(len(stem) < 200 and not set(stem) & set("/\\:") and stem[0] != "." for stem in stems)


def test_content_is_of_rows_and_what_they_build_on_and_not_of_files() -> None:
    table = example().tables[0]
    other = dataclasses.replace(table, path="y", files=())
    assert content_digest([table]) == content_digest([other])
    assert content_digest([table]) != content_digest([dataclasses.replace(table, digest="13")])
    moved = dataclasses.replace(PARENT, path="elsewhere/state")
    changed = dataclasses.replace(PARENT, digest="4")
    assert content_digest([table], [PARENT]) == content_digest([table], [moved]) != content_digest([table])
    assert content_digest([table], [PARENT]) != content_digest([table], [changed])


#: msgspec learns of a type when it is decoded first; two threads that do so at once read half of what it has learnt.
AT_ONCE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from snapkafka.manifest import load
text, begin = Path(sys.argv[1]).read_text("utf-8"), Barrier(16)
sys.setswitchinterval(1e-5)
with ThreadPoolExecutor(16) as pool:
    print(len([*pool.map(lambda _: (begin.wait(), load(text)), range(16))]))
"""


def test_sixteen_threads_read_their_first_manifest_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(manifests.dump(example()), "utf-8")
    for _ in range(5):  # each was a segmentation fault, nine times of ten
        command = [sys.executable, "-c", AT_ONCE, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout.strip()) == (0, "16"), done.stderr[-500:]
