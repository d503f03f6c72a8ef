"""Assembled on a parent, a snapshot has the rows that it has when it is assembled as a whole."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from snapkafka.assembly.manifest import logs_of
from snapkafka.checks import CutView, LogBounds, LogRecord, reading_ranges
from snapkafka.checks.v3_state import facts_of
from snapkafka.protocol import TopicPartition
from snapkafka.protocol.captured_snapshot import ChangelogCut, ProcessCut
from tests.spark.at_hand import record, row_of, state_of, within
from tests.worlds.little_log import CAPTURED
from tests.worlds.oracle import whole

EPOCHS = (1_000_000, 2_000_000, 3_000_000)
#: Small worlds that are looked at at once.
WORLDS = 400
#: Keys and values in changelogs of each kind of table.
CONTENT: Mapping[str, tuple[tuple[bytes | None, ...], tuple[bytes | None, ...]]] = {
    "plain": ((b'"a"', b'"b"', b'"c"', None), (b"1", b"2", None)),
    "sets": ((b'[1,"s"]', b'[2,"s"]', b'[1,"t"]'), (b'"one"', b'"two"')),
    "windowed": ((b'["k",[1.0,10.9]]', b'["k",[11.0,20.9]]'), (b"1", b"2", None)),
}
Starts = Mapping[TopicPartition, int]
Rows = list[dict[str, Any]]
Row = tuple[str, int, bytes | None, bytes | None, int]


def grown(rng: random.Random, worlds: int) -> tuple[Rows, list[CutView]]:
    """Return rows of random changelogs, and three snapshots of them, one after the other.

    Colours stand among each other in them as they may: several writers in one partition, processes that leave and are
    born in between, events that go on in an old colour behind red ones, records of nobody, markers, deletes.
    """
    written: Rows = []
    cuts: list[list[ChangelogCut]] = [[] for _ in EPOCHS]
    processes: list[list[ProcessCut]] = [[] for _ in EPOCHS]
    bounds: dict[TopicPartition, LogBounds] = {}
    for n in range(worlds):
        kind, tp = rng.choice([*CONTENT]), TopicPartition(f"table{n}", n % 2)
        born = [n * 10 + i for i in range(4)] + [EPOCHS[0] + n * 10 + 4, EPOCHS[1] + n * 10 + 5]
        for process in born:
            left = rng.choice((0, 1, 2, 9, 9, 9))
            for snapshot in range(_born_after(process), len(EPOCHS)):
                processes[snapshot].append(ProcessCut(process=process, app="app", left=left <= snapshot))
        log = [row_of(it, *map(rng.choice, CONTENT[kind])) for it in _log(rng, tp, born)]
        of = ChangelogCut(app="app", table=kind, topic=tp[0], topic_id="", partition=tp[1], end=0, process=1)
        of = replace(of, sets=kind == "sets", windowed=kind == "windowed")
        for snapshot, ends in enumerate(_ends(rng, [row["offset"] for row in log] or [0])):
            cuts[snapshot] += [replace(of, end=end) for end in ends]
        bounds[tp] = LogBounds(start=0, end=log[-1]["offset"] + 1 if log else 0)
        written += log
    of_all: dict[str, Any] = {"type": "incremental", "inputs": (), "senders": (), "recorded": ()}
    views = []
    for n, epoch in enumerate(EPOCHS):
        of_one: dict[str, Any] = {"processes": tuple(processes[n]), "changelogs": tuple(cuts[n])}
        views.append(CutView(replace(CAPTURED, id=f"s{n}", epoch=epoch, **of_all, **of_one), bounds))
    return written, views


def _born_after(process: int) -> int:
    return sum(process >= epoch for epoch in EPOCHS)


def _log(rng: random.Random, tp: TopicPartition, processes: list[int]) -> Iterator[LogRecord]:
    """Epochs rise with the offsets, give or take a few records."""
    size, offset = rng.randint(0, 24), rng.randint(0, 2)
    for step in range(size):
        offset += 1 if rng.random() < 0.9 else 2
        now = min(max((step + rng.randint(-4, 4)) * 4 // size, 0), 3)  # for how many the writer had cut
        process = rng.choice([p for p in processes if _born_after(p) <= now])
        if rng.random() < 0.1:
            yield LogRecord(*tp, offset)
        else:
            yield LogRecord(*tp, offset, process, (0, *EPOCHS)[now], step, marker=rng.random() < 0.05)


def _ends(rng: random.Random, offsets: list[int]) -> Iterator[tuple[int, ...]]:
    """What the writers report for each snapshot: past what was white then, and never less than before."""
    reached = 0
    for snapshot in range(len(EPOCHS)):
        near = (snapshot + 1) * len(offsets) // 4 + rng.randint(0, 5)
        reached = max(reached, offsets[min(near, len(offsets) - 1)] + rng.randint(0, 1))
        yield (reached, rng.randint(0, reached)) if rng.random() < 0.3 else (reached,)


def _folded(view: CutView, written: Rows) -> set[Row]:
    """The state of tables whose last records count, by a fold of what is white."""
    last = {(it.log.tp, it.key): it for it in map(record, written) if view.in_state(it.log)}
    kept = [it for (tp, _), it in last.items() if not view.changelogs[tp][0].sets and it.value is not None]
    return {(*it.log.tp, it.key, it.value, it.offset) for it in kept}


def _read(view: CutView, written: Rows, starts: Starts | None = None) -> Rows:
    """The records that the snapshot is assembled from."""
    return within(written, reading_ranges(CutView(view.captured, view.bounds, starts)))


def _starts(view: CutView, written: Rows) -> Starts:
    """Where a delta on this snapshot begins."""
    lines: dict[TopicPartition, list[LogRecord]] = {tp: [] for tp in view.changelogs}
    for it in map(record, written):
        lines[it.log.tp].append(it.log)
    found = logs_of(view, {tp: facts_of(view, whole(tp, of)) for tp, of in lines.items()})
    starts = {TopicPartition(log.topic, log.partition): log.settled for log in found}
    return {tp: at for tp, at in starts.items() if at is not None and not view.changelogs[tp][0].sets}


def _resolved(full: Rows, *deltas: Rows) -> Rows:
    """The whole state, as `store.chained_sql` has it."""
    places = ("changelog_topic", "partition", "key_raw")
    found = {tuple(row[it] for it in places): row for rows in (full, *deltas) for row in rows}
    return [row for row in found.values() if not row.get("deleted", False)]


def _rows(state: Rows, *, kinds: tuple[str, ...] = tuple(CONTENT)) -> set[Row]:
    rows = [row for row in state if row["table_name"] in kinds]
    names = ("changelog_topic", "partition", "key_raw", "value_raw", "changelog_offset")
    found: list[Any] = [tuple(row[name] for name in names) for row in rows]
    assert len(found) == len(set(found))
    return set(found)


def test_a_chain_of_three_has_the_rows_of_the_whole() -> None:
    seed = random.randrange(10**9)
    written, views = grown(random.Random(seed), WORLDS)
    read = _read(views[0], written)
    full, deltas, starts = state_of(views[0], read), list[Rows](), _starts(views[0], read)
    expected = [state_of(view, written) for view in views]
    assert len({frozenset(_rows(state)) for state in expected}) == 3
    assert _rows(full) == _rows(expected[0]), f"seed {seed}"
    for view, state in zip(views, expected, strict=True):
        assert _rows(state, kinds=("plain", "windowed")) == _folded(view, written), f"seed {seed}"
    for parent, child, state in zip(views, views[1:], expected[1:], strict=False):
        read = _read(child, written, starts)
        deltas.append(state_of(child, read, parent))
        assert _rows(_resolved(full, *deltas)) == _rows(state), f"seed {seed}, {child.captured.id}"
        counted = {it.log[:3] for it in map(record, written) if parent.in_state(it.log)}
        found = {(it[0], it[1], it[4]) for it in _rows(deltas[-1], kinds=("plain", "windowed"))}
        assert found and not counted & found, "nothing is there twice"
        starts = _starts(child, read)
    assert starts == _starts(views[2], _read(views[2], written)), "whatever was read"
