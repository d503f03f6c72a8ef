"""The report of the job about a snapshot: as data, and in a few lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from snapkafka.checks import Status
from snapkafka.checks.coverage import NOTHING_SEEN
from snapkafka.checks.coverage import in_words as examined_in_words
from snapkafka.kafka.cluster.external_groups import assumptions, open_topics, outside_paths, unseen_paths
from snapkafka.kafka.cluster.restorable import in_words
from snapkafka.manifest import (
    CheckEntry,
    ExternalEntry,
    Manifest,
    OpenEntry,
    OutsiderEntry,
    RestorableEntry,
    saw_nothing,
)
from snapkafka.protocol.snapshots import Unread

from .progress import Work

#: As many witnesses of a check are printed; the manifest has more.
SHOWN_MAX: Final = 5


def assembled(
    manifest: Manifest, place: str, not_committed: str, work: Work, *, whole: str = ""
) -> dict[str, Any]:
    """Return the report of an assembly.

    Args:
        whole: why an incremental snapshot does not build on its parent; empty: it does, or is a full one.
    """
    return {
        **verified(manifest, place, work),
        "whole": whole,
        "content": manifest.content,
        "tables": {table.name: table.rows for table in manifest.tables},
        "seconds": manifest.times.seconds,
        "positions_committed": not not_committed,
        "positions_why_not": not_committed,
    }


def verified(manifest: Manifest, path: str, work: Work, not_compared: Sequence[str] = ()) -> dict[str, Any]:
    """Return the report of a verification.

    Args:
        not_compared: the parts of the stored snapshot that were not compared, a sentence each.
    """
    return {
        "id": manifest.id,
        "epoch": manifest.epoch,
        "verdict": str(manifest.verdict),
        "contaminated": manifest.captured.contaminated,
        "open": [asdict(entry) for entry in manifest.open],
        "unread": [{"app": item.app, "topic": item.topic} for item in manifest.captured.unread],
        "external": [asdict(entry) for entry in manifest.external],
        "outsiders": [asdict(entry) for entry in manifest.outsiders],
        "strict": manifest.strict,
        "uncaptured": [asdict(item) for item in manifest.captured.uncaptured],
        "restorable": None if manifest.restorable is None else asdict(manifest.restorable),
        "checks": [asdict(check) for check in manifest.checks],
        "not_compared": [*not_compared],
        "manifest": path,
        "work": asdict(work),
    }


def report(result: dict[str, Any]) -> Iterator[str]:
    """Format a result in a few lines."""
    yield f"{result['id']} (epoch {result['epoch']}): {result['verdict']}"
    if result["contaminated"]:
        yield f"  not verifiable: {result['contaminated']}"
    yield from (
        f"  open:     {line}" for line in unseen_paths([OpenEntry(**entry) for entry in result["open"]])
    )
    yield from (f"  unread:   {Unread(**item)}" for item in result.get("unread", ()))
    external = [ExternalEntry(**entry) for entry in result["external"]]
    yield from (f"  open:     {line}" for line in open_topics(external, strict=result["strict"]))
    outsiders = [OutsiderEntry(**entry) for entry in result.get("outsiders", ())]
    yield from (f"  open:     {line}" for line in outside_paths(outsiders))
    yield from (f"  assumed:  {line}" for line in assumptions(external, strict=result["strict"]))
    yield from (f"  not included: app {item['app']}: {item['what']}" for item in result["uncaptured"])
    run = [check for check in result["checks"] if check["run"]]
    skipped = ", ".join(check["name"] for check in result["checks"] if not check["run"])
    yield from (f"  unproven: {line}" for line in result["not_compared"])
    yield "  checks:   " + ", ".join(map(_went, run)) + f"; not run: {skipped}"
    if saw_nothing(CheckEntry(**check) for check in result["checks"]):
        yield f"  {NOTHING_SEEN}"
    for check in run:
        if check["status"] != Status.PASSED:
            yield f"  {check['name']} found {check['found']}:"
            yield from (
                f"    {_place(witness)}{witness['what']}" for witness in check["witnesses"][:SHOWN_MAX]
            )
        if check["noted"]:
            yield f"  {check['name']} notes {check['noted']}, as {_place(check['notes'][0])}{check['notes'][0]['what']}"
        if check["name"] == "V5":  # those of whole topics come first
            yield from (f"    and {_place(note)}{note['what']}" for note in check["notes"][1:SHOWN_MAX])
    if "tables" in result:
        yield "  tables:   " + ", ".join(f"{name} {rows:,}" for name, rows in result["tables"].items())
        if result["whole"]:
            yield f"  whole state, as {result['whole']}"
        if result["positions_why_not"]:
            yield f"  positions not committed: {result['positions_why_not']}"
    if result["restorable"] is not None:
        yield f"  {in_words(RestorableEntry(**result['restorable']), time.time_ns() // 1_000_000)}"
    yield f"  manifest: {result['manifest']}"


def _went(check: dict[str, Any]) -> str:
    seen = examined_in_words(*(check.get(name) for name in ("records", "partitions", "channels")))
    return f"{check['name']} {check['status']}" + (f" ({seen})" if seen else "")


def _place(witness: dict[str, Any]) -> str:
    if witness["offset"] < 0:
        return ""
    return f"{witness['topic']}[{witness['partition']}] offset {witness['offset']}: "
