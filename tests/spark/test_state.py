"""State at the cut, table by table of each kind: what Faust itself would have after taking in the same changelog."""

import asyncio
import dataclasses
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from faust.serializers import codecs

from snapkafka.assembly import PLAIN, Decoding, state, table_files
from snapkafka.assembly import records as pieces_of
from snapkafka.assembly.state import Fold
from snapkafka.checks import CutView, LogRecord
from snapkafka.manifest import STATE
from snapkafka.protocol import TopicPartition
from snapkafka.protocol.captured_snapshot import ChangelogCut
from tests.spark.at_hand import ENTRY, LEDGER, batch, row_of, settings_of, state_of
from tests.worlds.cleaned_log import Changelog, captured
from tests.worlds.stores import LocalStore

Record = tuple[bytes | None, bytes | None]
TOPIC = TopicPartition("shop-stock-changelog", 0)


def folded(records: Sequence[Record], decoding: Decoding = PLAIN, start: int = 0, **table: Any) -> list[Any]:
    """Return the state, by offset; its records come in several pieces, and in one."""
    options = {"key_codec": "json", "value_codec": "json", "sets": False, "windowed": False, **table}
    written = [row_of(LogRecord(*TOPIC, start + n), key, value) for n, (key, value) in enumerate(records)]
    cut = ChangelogCut(
        app="shop", table="stock", topic=TOPIC.topic, topic_id="", partition=0, end=start + len(written),
        process=1, **options,
    )  # fmt: skip
    view = CutView(dataclasses.replace(captured([Changelog(TOPIC, 1)]), changelogs=(cut,)))
    settings = dataclasses.replace(settings_of(ENTRY, bootstrap=""), decoding=decoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces_of, "PIECE_RECORDS", 7)
        patch.setattr(state, "WAITING_BYTES", 0)
        found = state_of(view, written, settings=settings)
    assert found == state_of(view, written, settings=settings), "however it is divided"
    return sorted((SimpleNamespace(**row) for row in found), key=lambda row: row.changelog_offset)


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def js(value: Any) -> bytes:
    """As Faust's codec writes it."""
    written: bytes = codecs.dumps("json", value)
    return written


# -- windows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "window",
    [faust.TumblingWindow(10.0), faust.HoppingWindow(10.0, 5.0, expires=60.0)],
    ids=("tumbling", "hopping"),
)
def test_a_window_is_two_columns_and_its_key_is_the_key(window: Any) -> None:
    """The bounds are those of Faust, to the microsecond; a deleted window is gone."""
    ranges = [*window.ranges(1_700_000_001.5), *window.ranges(1_700_000_042.25)]
    records: list[Record] = [
        (js((key, bounds)), js(n)) for n, bounds in enumerate(ranges) for key in ("k", 2**128, ("a", 1))
    ]
    records += [(js(("k", ranges[0])), None)]
    rows = folded(records, windowed=True)
    expected = {
        (text, *map(at, bounds), str(n))
        for n, bounds in enumerate(ranges)
        for text in ("k", str(2**128), '["a",1]')
        if (text, n) != ("k", 0)
    }
    assert {(row.key, row.window_start, row.window_end, row.value) for row in rows} == expected
    assert {row.why_undecoded for row in rows} == {None}


def test_what_has_no_window_keeps_its_whole_key() -> None:
    keys = [b'"k"', b'["k",[1.0]]', b'["k",["a","b"]]', b"\xff", None]
    odd: list[Record] = [(key, b"%d" % n) for n, key in enumerate(keys, 1)]
    rows = [(row.key, row.window_start, row.value, row.why_undecoded) for row in folded(odd, windowed=True)]
    assert rows == [
        ("k", None, "1", "key: no window"),
        ('["k",[1.0]]', None, "2", "key: no window"),
        ('["k",["a","b"]]', None, "3", "key: no window"),
        (None, None, "4", "key: not UTF-8"),
        (None, None, "5", "key: no window"),
    ]
    (pair,) = folded([(b'["k",[1.0,2.0]]', b"1")])
    assert (pair.key, pair.window_start, pair.why_undecoded) == ('["k",[1.0,2.0]]', None, None), (
        "a table without windows"
    )


# -- sets --------------------------------------------------------------------------------------------------------------


@contextmanager
def faust_sets(codec: str = "json") -> Iterator[tuple[Any, list[Record]]]:
    """A real table of sets, and the records that it writes, as its changelog would get them."""
    asyncio.set_event_loop(asyncio.new_event_loop())
    app = faust.App("shop", broker="kafka://localhost:1", store="memory://")
    table: Any = app.SetTable("stock")
    written: list[Record] = []
    registry = app.serializers

    def send(event: object, key: Any, value: Any) -> None:
        raw = registry.dumps_key(None, key, serializer=codec)
        written.append((raw, registry.dumps_value(None, value, serializer=codec)))

    table._send_changelog = send
    table._data = table._new_store()
    yield table.data, written


def play_sets(rng: random.Random, sets: Any, steps: int) -> None:
    members: list[Any] = ["a", "b", 'q"uote', "ä", 1, 2.5, None, "1", "", ("a", 2**128, ("b", 2**128 + 1))]
    members += [10**38, 10**38 + 1, 10**400]  # in digits that no double has
    for _ in range(steps):
        one = sets[rng.choice(["x", "y", 1, "1", 2**128, ("x", (1.0, 10.9))])]
        some = set(rng.sample(members, rng.randint(0, 4)))
        match rng.randrange(9):
            case 0 | 1 | 2:
                one.add(rng.choice(members))
            case 3:
                one.discard(rng.choice(members))
            case 4:
                one.update(some)
            case 5:
                one.difference_update(some)
            case 6:
                one.intersection_update(some)
            case 7:
                one.symmetric_difference_update(some)
            case 8:
                one.clear() if rng.random() < 0.3 else one.update(some)


def held(sets: Any) -> dict[str, list[str]]:
    """What a table of sets holds, as JSON."""
    return {said(key): sorted(map(said, members.data)) for key, members in sets.data.items()}


def said(value: Any) -> str:
    """As JSON; 1.0 is 1, to sets in Python too."""
    if isinstance(value, tuple | list):
        return f"[{','.join(map(said, value))}]"
    return json.dumps(int(value) if isinstance(value, float) and value == int(value) else value)


def rows_held(rows: list[Any]) -> dict[str, list[str]]:
    assert {row.why_undecoded for row in rows} <= {None}
    return {said(json.loads(row.key_raw)[1]): sorted(map(said, json.loads(row.value))) for row in rows}


def test_a_set_is_what_its_operations_make() -> None:
    """The last value of a key is no set: Faust logs what is added and taken away. The bytes of a row are one operation
    that makes the set anew: a restore can send them."""
    with faust_sets() as (sets, written):
        for seed in range(2):
            play_sets(random.Random(seed), sets, 200)
            rows = folded(written, sets=True)
            assert rows_held(rows) == held(sets), f"seed {seed}"
    assert b'[1,"x"]' in {key for key, _ in written}
    assert sorted(row.key for row in rows) == ["1", "1", str(2**128), '["x",[1,10.9]]', "x", "y"]
    with faust_sets() as (again, _):
        for row in rows:
            (operation, key), value = json.loads(row.key_raw), json.loads(row.value_raw)
            again[_hashable(key)].apply_changelog_event(operation, _hashable(value))
        assert held(again) == held(sets)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def test_windows_of_sets_and_a_set_that_was_emptied() -> None:
    key = ("k", (10.0, 19.9))
    records: list[Record] = [(js((1, key)), js("a")), (js((15, key)), js([["b", "c"], ["a"]]))]
    rows = folded(records, sets=True, windowed=True)
    found = [(row.key, row.window_start, row.window_end, row.value, row.changelog_offset) for row in rows]
    assert found == [("k", at(10.0), at(19.9), '["b","c"]', 1)]
    emptied = folded([(js((1, "k")), js("a")), (js((2, "k")), js("a"))], sets=True)
    assert [(row.key, row.value) for row in emptied] == [("k", "[]")]


def test_operations_that_cannot_be_read_stay() -> None:
    """And together make the set: of those with the same bytes the last, in their order."""
    one = js((1, "k"))
    keys = [b"\xff", one, js((9, "k")), js((15, "k")), js("k"), b"\xff", one, one, None]
    values = {1: b"\xff", 6: b"\xfe", 7: None}
    odd: list[Record] = [(key, values.get(n, b"1")) for n, key in enumerate(keys)]
    rows = folded(odd, sets=True)
    assert [(row.changelog_offset, row.key, row.why_undecoded) for row in rows] == [
        (1, '[1,"k"]', "value: not UTF-8"),
        (2, '[9,"k"]', "key: no operation of a set"),
        (3, '[15,"k"]', "key: no operation of a set"),
        (4, "k", "key: no operation of a set"),
        (5, None, "key: not UTF-8"),
        (6, '[1,"k"]', "value: not UTF-8"),
        (8, None, "key: no operation of a set"),
    ]


def test_sets_in_a_codec_that_has_to_be_loaded() -> None:
    """Pickled windows and operations: decoded where the user says so, and then true sets; bytes otherwise."""
    with faust_sets("pickle") as (sets, written):
        play_sets(random.Random(3), sets, 30)
        expected = held(sets)
    pickled: dict[str, Any] = {"key_codec": "pickle", "value_codec": "pickle"}
    rows = folded(written, Decoding(unpickle=True), sets=True, **pickled)
    assert rows_held(rows) == expected
    bytes_only = folded(written, sets=True, **pickled)
    assert {(row.key_raw, row.value_raw) for row in bytes_only} == set(written)
    assert all("pickles execute" in row.why_undecoded for row in bytes_only)


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "one", "two"), [(b'"k"', "1", "3"), (b'[1,"k"]', "[0,1]", "[0,1,2,3]")], ids=("plain", "sets")
)
def test_tables_in_one_changelog_end_where_each_of_them_ends(key: bytes, one: str, two: str) -> None:
    written = [row_of(LogRecord(*TOPIC, n), key, b"%d" % n) for n in range(4)]
    whole = captured([Changelog(TOPIC, 1)])
    cut, ends = dataclasses.replace(whole.changelogs[0], sets=key != b'"k"'), {"one": 2, "two": 4}
    cuts = tuple(dataclasses.replace(cut, app=app, end=end) for app, end in ends.items())
    rows = state_of(CutView(dataclasses.replace(whole, changelogs=cuts)), written)
    assert [(row["app"], row["value"]) for row in rows] == [("one", one), ("two", two)]


@pytest.mark.parametrize("seed", range(8))
def test_a_fold_is_a_dictionary(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However changes are mixed and divided; and its file has the digest of what is read from it."""
    rng, number = random.Random(seed), 300
    for module in (state, table_files):
        monkeypatch.setattr(module, "GROUP_ROWS", rng.choice([3, 7, 1_000]))
    monkeypatch.setattr(state, "WAITING_BYTES", rng.choice([0, 200, 1 << 20]))
    whole = captured([Changelog(TOPIC, 1)])
    ends = [(place, app, rng.randint(0, number)) for place in range(2) for app in ("one", "two")]
    cuts = tuple(
        dataclasses.replace(
            whole.changelogs[0], app=app, partition=place, end=end, key_codec="json", value_codec="raw"
        )
        for place, app, end in ends
    )
    keys: list[bytes | None] = [None, b"", b"\xff", *(b'"%d"' % key for key in range(rng.choice([5, 200])))]
    changes: list[dict[str, Any]] = [
        {"place": place, "pos": pos, "bucket": rng.choice([None, 0, 1]), "key": rng.choice(keys)}
        | {"value": rng.choice([None, b"%d" % pos]), "process": 1, "epoch": 0}
        for place in range(2)
        for pos in range(number)
    ]
    expected = list[tuple[Any, ...]]()
    for place, app, end in sorted(ends, key=lambda it: (it[1], it[0])):
        needed = [
            it for it in changes if it["place"] == place and it["pos"] < end and it["bucket"] is not None
        ]
        last = {it["key"]: (app, place, it["key"], it["value"], it["pos"]) for it in needed}
        expected += sorted(last.values(), key=lambda it: (it[2] is not None, it[2] or b""))
    rng.shuffle(changes)
    fold = Fold(CutView(dataclasses.replace(whole, changelogs=cuts)), PLAIN)
    while changes:
        some = [changes.pop() for _ in range(min(len(changes), rng.randint(1, 40)))]
        fold.take(pa.RecordBatch.from_pylist(some, state.HELD.append(pa.field("bucket", pa.int64()))))
    held = sum(len(it[2] or b"") + len(it[3] or b"") for it in expected)
    assert fold.bytes >= held
    written = table_files.write_rows(STATE, fold.rows(), LocalStore(tmp_path), "folded")
    found = pq.read_table(tmp_path / written.path)
    columns = ("app", "partition", "key_raw", "value_raw", "changelog_offset")
    assert [tuple(row[name] for name in columns) for row in found.to_pylist()] == [
        it for it in expected if it[3]
    ]
    assert (written.rows, written.digest) == (len(found), str(table_files.digest_of(found)))
    assert fold.bytes == held


def test_a_piece_ends_where_offsets_fall_or_others_may_lie_between() -> None:
    jump = pieces_of.JUMP_MAX
    offsets = [0, 1, 1 + jump, 2 + 2 * jump, 5, 5]
    for many in (1, 3, 6):  # in a batch
        rows = [row_of(LogRecord(*TOPIC, at)) for at in offsets]
        found = pieces_of.pieces((batch(rows[at : at + many]) for at in range(0, 6, many)), LEDGER)
        assert [it.offsets.tolist() for it in found] == [[0, 1, 1 + jump], [2 + 2 * jump], [5], [5]]


def test_headers_count_among_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record without a value may have any number of them."""
    monkeypatch.setattr(pieces_of, "PIECE_BYTES", 1_000)
    headers = {"headers": [{"key": "h", "value": b"x" * 600}]}
    rows = [batch([row_of(LogRecord(*TOPIC, n), b"k", None) | headers]) for n in range(4)]
    assert [it.offsets.tolist() for it in pieces_of.pieces(rows, LEDGER)] == [[0, 1], [2, 3]]
