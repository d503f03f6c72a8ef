"""What is sent to each app of tests/features/apps, and what is awaited of both runs."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from snapkafka.testing import wait_until

from .harness import Pair, Side, produce, read_topics
from .judging import Row
from .rows import CALLS, COPIES, SHARED, STREAMS, TABLES, inputs, outputs

#: Key, value and timestamp (ms; None: now) of the records that an input gets.
Records = Sequence[tuple[str, bytes, int | None]]


def numbered(count: int) -> Records:
    """Records that carry their number and their key."""
    return [(f"k{n % 11}", json.dumps({"n": n, "key": f"k{n % 11}"}).encode(), None) for n in range(count)]


# -- agents that call agents, sinks, and what is sent outside any event -----------------------------------------------

#: Each of these asks another agent, which takes its time.
ASKING: Final = {"ask": 60, "join": 30, "map": 30, "reply": 80}
#: Those that await the answer, and are torn by one from red.
TORN: Final = ("ask", "join", "map")
WEB: Final = 40


def drive_calls(pair: Pair) -> None:
    browsing = threading.Thread(target=_browse, args=(pair,))
    browsing.start()
    sent = {name: numbered(ASKING.get(name, 200)) for name in inputs(CALLS)}
    # Their records wait from the start, so each asks again as soon as it is answered, and a cut tears some.
    pair.send({name: sent[name] for name in TORN}, seconds=0)
    pair.load({name: records for name, records in sent.items() if name not in TORN}, seconds=8.0)
    browsing.join()
    expected = {name: len(sent[row.inputs[0]]) for row in CALLS if row.inputs for name in row.outputs}
    outside = {"timer-out": 40, "cron-out": 20, "task-out": 100, "web-out": WEB}
    pair.wait_for(expected | outside | {"reply-out": ASKING["reply"]})


def _browse(pair: Pair) -> None:
    """Ask the views of both runs."""
    for n in range(WEB):
        for side in pair.sides:
            with urllib.request.urlopen(f"http://127.0.0.1:{side.port}/told/?n={n}", timeout=20) as answer:
                assert json.load(answer) == {"n": n}


# -- the copies of a global table in two workers ---------------------------------------------------------------------

OTHERS: Final = "by-others"  # a table that another app writes
COPIED: Final = 150
COPIED_KEYS: Final = 5


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of tables in the workers of each run: at a quiet moment by run and table, when every copy had
    everything; and by run those of the table that another app has written to, twice two records, when one of them had
    them all."""

    quiet: dict[tuple[str, str], list[dict[str, int]]]
    by_others: dict[str, list[dict[str, int]]]


def drive_copies(pair: Pair) -> Copies:
    def records(keys: int) -> Records:
        return [
            (f"k{n % keys}", json.dumps({"n": n, "key": f"k{n % COPIED_KEYS}"}).encode(), None)
            for n in range(COPIED)
        ]

    pair.load({"by-one": records(1), "by-all": records(11)}, seconds=5)
    pair.wait_for(dict.fromkeys(outputs(COPIES), COPIED))
    for side in pair.sides:
        wait_until(
            f"both copies of each table of {side.id} to be as its changelog",
            partial(_all_equal, pair, side),
            timeout_s=30,
            system=side.system,
        )
    quiet = {(side.id, row.name): _copies(side, row.name) for side in pair.sides for row in COPIES}
    for side in pair.sides:
        for key in ("first", "second"):
            more = [(f'"{key}-{n}"', b"1", None) for n in range(2)]  # Faust takes them in by twos
            produce(pair.bootstrap, f"{side.id}-{OTHERS}-changelog", more)
            wait_until(
                f"a copy of {side.id} to have the {key}", partial(_has, side, f"{key}-1"), timeout_s=30
            )
    return Copies(quiet, {side.id: _copies(side, OTHERS) for side in pair.sides})


def _copies(side: Side, table: str) -> list[dict[str, int]]:
    """What each worker has of a table."""
    paths = (side.system.folder / worker.name / "copies.json" for worker in side.system.workers)
    return [json.loads(path.read_text())[table] for path in paths]


def _has(side: Side, key: str) -> bool:
    return any(key in copy for copy in _copies(side, OTHERS))


def _all_equal(pair: Pair, side: Side) -> bool:
    return all(_copies(side, row.name) == [_in_the_log(pair, side, row.name)] * 2 for row in COPIES)


def _in_the_log(pair: Pair, side: Side, table: str) -> dict[str, int]:
    records = read_topics(pair.bootstrap, f"{side.id}-{table}-changelog")[""]
    return {json.loads(r.key or b""): json.loads(r.value) for r in records if r.value is not None}


# -- the same to every input ------------------------------------------------------------------------------------------


def drive_alike(
    rows: Sequence[Row], names: Sequence[str], count: int, seconds: float, *, stretch: bool
) -> Callable[[Pair], None]:
    """The same records to every input of these rows, and as many in every one of these topics."""

    def drive(pair: Pair) -> None:
        pair.load(dict.fromkeys(inputs(rows), numbered(count)), seconds=seconds, stretch=stretch)
        pair.wait_for(dict.fromkeys(names, count))

    return drive


# -- tables that every worker has whole, or stands by for ------------------------------------------------------------


def drive_shared(pair: Pair) -> None:
    def records(name: str) -> Records:
        """Rates and groups are all of one partition: one worker writes them, the other one takes them in."""
        writes = name in ("rates", "groups")
        return [
            ("one" if writes else f"k{n % 11}", json.dumps({"n": n, "key": f"k{n % 5}"}).encode(), None)
            for n in range(300 if writes else 80)
        ]

    sent = {name: records(name) for name in inputs(SHARED)}
    pair.load(sent, seconds=8.0)
    pair.wait_for({name: len(sent[row.inputs[0]]) for row in SHARED for name in row.outputs})


# -- what can be done with streams: in Cython, and in pure Python ----------------------------------------------------

STREAMED: Final = 180


def drive_streams(pair: Pair) -> None:
    records = [
        (f"k{n % 11}", json.dumps({"n": n, "key": f"k{n % 11}", "last": n >= STREAMED - 30}).encode(), None)
        for n in range(STREAMED)
    ]
    pair.load(dict.fromkeys(inputs(STREAMS), records), seconds=6.0)
    expected = {name: STREAMED * len(row.inputs) for row in STREAMS for name in row.outputs}
    pair.wait_for(expected | {"filter-out": len(range(0, STREAMED, 3))})


# -- tables of each kind ---------------------------------------------------------------------------------------------

#: The tables of versions, and Faust's own of one of them.
LOOKED_AT: Final = ("versions", "lists", "records", "members", "slots", "slots-key_index")
#: Versions that are written.
WRITTEN: Final = 300
#: Events that look at them, in a dozen ways.
LOOKS: Final = 240


def drive_tables(pair: Pair) -> None:
    base = float(int(time.time())) - 12  # windows are over by the time that they are cleaned

    def timed(keys: int = 5) -> Records:
        times = [base + 6 * n / 150 for n in range(150)]
        return [
            (f"k{n % keys}", json.dumps({"n": n, "at": at}).encode(), int(at * 1000))
            for n, at in enumerate(times)
        ]

    sent = {name: numbered(400) for name in inputs(TABLES)}
    sent |= {name: timed() for name in ("by-stream", "by-field", "by-now")}
    # Of one key: Faust tells of a window only if no other partition of the table has closed one as late before.
    sent |= {"slow": numbered(120), "summed": numbered(120), "closing": timed(keys=1)}
    # One begins as soon as another ends, and nobody looks yet: a cut tears some.
    pair.send({"summed": sent.pop("summed")}, seconds=0)
    pair.load({**sent, "written": numbered(WRITTEN), "looks": numbered(LOOKS)}, seconds=8.0)
    pair.wait_for({row.outputs[0]: len(pair.sent[row.inputs[0]]) for row in TABLES} | {"looks-out": LOOKS})
    pair.send({"clean": [("now", b"1", None)]}, seconds=0)
    windows = {json.loads(value)["at"] // 4 for _, value, _ in sent["closing"]}  # of four seconds
    pair.wait_for({"closed-out": len(windows)})
