"""Ledger records as bytes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapkafka.protocol import Abort, Closed, CutReport, LedgerRecord, Running, SentEnd, Trigger, records
from snapkafka.protocol.records import Kept
from snapkafka.wire import codec, columns, decode, encode, fingerprint
from snapkafka.wire.codec import UndecodableError
from snapkafka.wire.compiled import columns_of

TYPES = typing.get_args(LedgerRecord)
SCHEMAS = Path(__file__).parents[3] / "schemas" / "ledger"
LONGS = st.integers(-(2**63), 2**63 - 1)
#: Numbers whose differences are longs, too.
OFFSETS = st.integers(-1, 2**61) | st.integers(-1, 3)


def hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, {**vars(records), **vars(columns)})


def values(kind: Any, longs: st.SearchStrategy[int] = LONGS) -> st.SearchStrategy[Any]:
    """Anything of this type, as far as the wire is concerned."""
    if kind is int:
        return longs
    if kind is str:
        return st.text(max_size=20)
    if kind is bool:
        return st.booleans()
    if kind == LedgerRecord:
        return st.one_of([values(item) for item in TYPES if item is not records.Checkpoint])
    if typing.get_origin(kind) is typing.Literal:
        return st.sampled_from(typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return st.lists(values(typing.get_args(kind)[0], longs), max_size=3).map(tuple)
    longs = OFFSETS if kind in columns.FORMS else longs
    return st.builds(kind, **{name: values(hint, longs) for name, hint in hints(kind).items()})


ANY_RECORD = st.one_of([values(kind) for kind in TYPES])
EXAMPLE = CutReport(
    process=3,
    n=7,
    epoch=5,
    previous=0,
    heard="ledger",
    assigned=2,
    positions=(),
    running=(Running(agent="a", topic="t", partition=1, offset=99),),
)
CLOSED = Closed(
    process=3,
    n=8,
    epoch=5,
    report=6,
    sent=(SentEnd(topic="t", partition=1, white_end=99, last_seq=12),),
    cut_us=80,
)


# -- round trips ---------------------------------------------------------------------------------------------


@given(ANY_RECORD)
@settings(max_examples=300, deadline=None)
def test_every_record_comes_back_as_it_was(record: LedgerRecord) -> None:
    assert decode(encode(record)) == record


def plain(value: Any, hint: Any = None) -> Any:
    """As Avro's generic writer takes it: dicts, lists, atoms."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        kind = typing.get_args(hint)[0]
        if kind in columns.FORMS:
            return plain(columns.packed(kind, value))
        return [plain(item) for item in value]
    if not (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
        return value
    return {
        name: encode(getattr(value, name)) if name == "record" else plain(getattr(value, name), hint)
        for name, hint in hints(type(value)).items()
    }


@given(ANY_RECORD)
@settings(deadline=None)
def test_the_bytes_are_those_of_the_generic_reader_and_writer_of_the_library(record: LedgerRecord) -> None:
    import avro.schema
    from avro.io import BinaryDecoder, BinaryEncoder, DatumReader, DatumWriter

    schema = avro.schema.parse((SCHEMAS / f"{type(record).__name__}.avsc").read_text())
    buffer = BytesIO()
    DatumWriter(schema).write(plain(record), BinaryEncoder(buffer))
    assert encode(record)[codec.PREFIX_BYTES :] == buffer.getvalue()
    read = DatumReader(schema).read(BinaryDecoder(BytesIO(buffer.getvalue())))
    assert read == plain(decode(encode(record)))


def test_an_array_in_blocks_that_say_their_size_is_read() -> None:
    """Avro allows both; other libraries write such blocks."""
    from avro.io import BinaryEncoder

    data = encode(EXAMPLE)
    buffer = BytesIO()
    encoder = BinaryEncoder(buffer)
    (one,) = EXAMPLE.running
    encoder.write_long(1)
    kind: Any = Running
    codec._writer_of(kind)(encoder, one)
    as_written = buffer.getvalue()
    assert data.count(as_written) == 1

    blocks = BytesIO()
    encoder = BinaryEncoder(blocks)
    for _ in range(2):
        encoder.write_long(-1)
        encoder.write_long(len(as_written) - 1)
        blocks.write(as_written[1:])
    read = decode(data.replace(as_written, blocks.getvalue()))
    assert isinstance(read, CutReport)
    assert read.running == (one, one)


def test_single_object_encoding_by_hand() -> None:
    """Avro specification: C3 01, the fingerprint in little-endian order, the fields in theirs; longs are zigzag."""
    schema = json.loads((SCHEMAS / "Abort.avsc").read_text())
    body = bytes([1, 4, 6]) + b"\x06ttl" + b"\x02x" + b"\x00"
    assert encode(Abort(process=-1, n=2, epoch=3, code="ttl", reason="x")) == (
        b"\xc3\x01" + fingerprint.fingerprint(schema) + body
    )


# -- the schemas are the single source of truth --------------------------------------------------------------


def fields_of(schema: dict[str, Any], kind: type) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Each field of a schema with its type here; the names and their order must be those of the dataclass."""
    mine = hints(kind)
    assert [field["name"] for field in schema["fields"]] == list(mine), schema["name"]
    for field in schema["fields"]:
        yield field["name"], mine[field["name"]], field


def check_schema(schema: dict[str, Any], kind: type) -> None:
    assert schema["type"] == "record"
    assert schema["name"] == kind.__name__
    assert schema["doc"]
    defaults = {f.name: f.default for f in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else {}
    for name, hint, field in fields_of(schema, kind):
        where = f"{kind.__name__}.{name}"
        assert field["doc"], where
        default = defaults.get(name, dataclasses.MISSING)
        assert ("default" in field) == (default is not dataclasses.MISSING), where
        if "default" in field and (listed := columns_of(hint)) is not None:
            assert field["default"] == plain(columns.packed(listed, ())), where
        elif "default" in field:
            assert field["default"] == (list(default) if isinstance(default, tuple) else default), where
        check_type(field["type"], hint, where)


def check_type(found: Any, hint: Any, where: str) -> None:
    if (listed := columns_of(hint)) is not None:
        hint = columns.FORMS[listed].columns
    if hint is int:
        assert found == "long", where
    elif hint is bool:
        assert found == "boolean", where
    elif hint == LedgerRecord:
        assert found == "bytes", where
    elif found == hint.__name__:
        pass  # described further up
    elif hint is str or typing.get_origin(hint) is typing.Literal:
        assert found == "string", where
    elif typing.get_origin(hint) is tuple:
        assert found["type"] == "array", where
        check_type(found["items"], typing.get_args(hint)[0], where)
    else:
        check_schema(found, hint)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_the_schema_of_each_record_is_that_of_its_dataclass(kind: type) -> None:
    schema = json.loads((SCHEMAS / f"{kind.__name__}.avsc").read_text())
    assert schema["namespace"] == "snapkafka.ledger"
    check_schema(schema, kind)


def test_a_schema_that_says_otherwise_is_noticed() -> None:
    schema = json.loads((SCHEMAS / "Dead.avsc").read_text())
    defects: list[Callable[[Any], Any]] = [
        lambda s: s["fields"].pop(),
        lambda s: s["fields"].reverse(),
        lambda s: s["fields"][0].pop("default"),
        lambda s: s["fields"][0].update(default=0),
        lambda s: s["fields"][1].update(type="string"),
        lambda s: s["fields"][1].update(doc=""),
    ]
    for spoil in defects:
        spoilt = json.loads(json.dumps(schema))
        spoil(spoilt)
        with pytest.raises(AssertionError):
            check_schema(spoilt, records.Dead)


def test_there_is_no_schema_without_a_record() -> None:
    assert {path.stem for path in SCHEMAS.glob("*.avsc")} == {kind.__name__ for kind in TYPES}


# -- fingerprints --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        # From the test data of Avro's own implementations (share/test/data/schema-tests.txt).
        ("null", 7195948357588979594),
        ("boolean", -6970731678124411036),
        ("int", 8247732601305521295),
        ("long", -3434872931120570953),
        ({"type": "string"}, -8142146995180207161),
    ],
)
def test_fingerprints_are_those_of_other_implementations(schema: Any, expected: int) -> None:
    assert fingerprint.fingerprint(schema) == expected.to_bytes(8, "little", signed=True)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_fingerprints_agree_with_the_library_where_it_has_them(kind: type) -> None:
    import avro.schema

    text = (SCHEMAS / f"{kind.__name__}.avsc").read_text()
    parsed = avro.schema.parse(text)
    if not hasattr(parsed, "canonical_form"):
        normalize = pytest.importorskip("avro.schemanormalization")
        assert fingerprint.canonical_form(json.loads(text)) == normalize.ToParsingCanonicalForm(parsed)
    else:
        assert fingerprint.canonical_form(json.loads(text)) == parsed.canonical_form
        assert fingerprint.fingerprint(json.loads(text)) == parsed.fingerprint("CRC-64-AVRO")


def test_documentation_and_defaults_do_not_change_a_fingerprint_and_names_do() -> None:
    schema = json.loads((SCHEMAS / "Dead.avsc").read_text())
    before = fingerprint.fingerprint(schema)
    schema["doc"] = "other words"
    schema["fields"][0]["default"] = 0
    assert fingerprint.fingerprint(schema) == before
    schema["fields"][0]["name"] = "author"
    assert fingerprint.fingerprint(schema) != before


# -- neighbouring releases -----------------------------------------------------------------------------------


@pytest.fixture
def schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the schemas, to be changed as another release would."""
    place = tmp_path / "ledger"
    shutil.copytree(SCHEMAS, place)
    monkeypatch.setattr(codec, "_schemas", lambda: place)
    caches = (codec._forms, codec._writers)
    for cache in caches:
        cache.cache_clear()
    yield place
    for cache in caches:
        cache.cache_clear()


def written_with(schema: dict[str, Any], datum: dict[str, Any]) -> bytes:
    import avro.schema
    from avro.io import BinaryEncoder, DatumWriter

    buffer = BytesIO()
    DatumWriter(avro.schema.parse(json.dumps(schema))).write(datum, BinaryEncoder(buffer))
    return codec.MAGIC + fingerprint.fingerprint(schema) + buffer.getvalue()


def test_what_the_last_release_wrote_is_read_and_new_fields_take_their_defaults(schemas: Path) -> None:
    old = json.loads((schemas / "Trigger.avsc").read_text())
    old["fields"] = [field for field in old["fields"] if field["name"] in ("process", "n", "id")]
    old["fields"].append({"name": "colour", "type": "string"})  # one that we have given up since
    data = written_with(old, {"process": -1, "n": 4, "id": "s", "colour": "mauve"})
    with pytest.raises(UndecodableError):
        decode(data)
    (schemas / "old" / "Trigger-0.0.9.avsc").write_text(json.dumps(old))
    codec._writers.cache_clear()
    assert decode(data) == Trigger(n=4, id="s")


def test_a_schema_of_a_record_that_is_no_more_is_passed_over(schemas: Path) -> None:
    gone = {"type": "record", "name": "Gone", "fields": [{"name": "n", "type": "long"}]}
    (schemas / "old" / "Gone.avsc").write_text(json.dumps(gone))
    with pytest.raises(UndecodableError):
        decode(written_with(gone, {"n": 1}))
    assert decode(encode(EXAMPLE)) == EXAMPLE


# -- garbage -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\xc3",
        b"\xc3\x01",
        b"{}",
        b"\xc3\x01" + bytes(8),
        encode(EXAMPLE)[:10],
        encode(EXAMPLE)[:-1],
        encode(EXAMPLE) + b"\x00",
        b"\xc3\x02" + encode(EXAMPLE)[2:],
        encode(EXAMPLE)[:10] + b"\xff" * 30,
    ],
)
def test_garbage_is_undecodable(data: bytes | None) -> None:
    with pytest.raises(UndecodableError):
        decode(data)


@given(st.binary(max_size=60), st.sampled_from(TYPES))
@settings(max_examples=300, deadline=None)
def test_no_bytes_whatever_raise_anything_else(body: bytes, kind: type) -> None:
    prefix = codec.MAGIC + fingerprint.fingerprint(
        json.loads((SCHEMAS / f"{kind.__name__}.avsc").read_text())
    )
    for data in (body, prefix + body):
        with contextlib.suppress(UndecodableError):
            assert isinstance(decode(data), TYPES)


@given(ANY_RECORD, st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_record_is_undecodable_or_another_record(record: LedgerRecord, data: st.DataObject) -> None:
    whole = bytearray(encode(record))
    where, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    whole[where] ^= 1 << bit
    with contextlib.suppress(UndecodableError):
        found = decode(bytes(whole))
        # but for a boolean: any byte other than 1 is false to Avro's reader
        assert found != record or damaged(found) or (encode(record)[where] == 0 and bit > 0)


def damaged(record: LedgerRecord) -> bool:
    """Whether it, or a record in it, cannot be read to its end."""
    if isinstance(record, records.Checkpoint):
        return any(damaged(kept.record) for kept in record.kept)
    return isinstance(record, Closed) and record.damaged


# -- what is read only when somebody asks for it -----------------------------------------------------------------


def unread(record: Closed) -> bool:
    return getattr(record, "_unread", None) is not None


@given(values(Closed))
@settings(max_examples=200, deadline=None)
def test_the_ends_of_a_closed_are_read_once_somebody_asks_for_one(record: Closed) -> None:
    read = decode(encode(record))
    assert isinstance(read, Closed)
    head = ("process", "n", "epoch", "report", "unnamed", "unstamped")
    assert [getattr(read, name) for name in head] == [getattr(record, name) for name in head]
    assert unread(read)
    assert read.sent == record.sent
    assert not unread(read)
    assert not read.damaged
    assert read == record
    assert dataclasses.replace(decode(encode(record)), n=3) == dataclasses.replace(record, n=3)


@pytest.mark.parametrize(
    "tail", [lambda data: data[:-1], lambda data: data + b"\x00", lambda data: data[:-4] + b"\xff" * 4]
)
def test_a_closed_with_a_damaged_tail_counts_for_every_reader_and_says_so_to_who_asks(
    tail: Callable[[bytes], bytes],
) -> None:
    """A worker does not read the tail. If others took such a record for garbage, the two would fold differently."""
    read = decode(tail(encode(CLOSED)))
    assert isinstance(read, Closed)
    assert (read.process, read.n, read.epoch, read.report) == (3, 8, 5, 6)
    assert read.damaged
    assert (read.sent, read.cut_us) == ((), 0)


def test_a_closed_with_a_damaged_tail_is_damaged_in_a_checkpoint_as_well() -> None:
    """Otherwise its snapshot could be VERIFIED, without its ends, by whoever starts at the checkpoint."""
    record = decode(encode(CLOSED)[:-1])
    kept = records.Checkpoint(n=1, upto=9, highest_epoch=5, kept=(Kept(offset=8, record=record),))
    copy = decode(encode(kept))
    assert isinstance(copy, records.Checkpoint)
    read = copy.kept[0].record
    assert isinstance(read, Closed)
    assert (read.process, read.n, read.epoch, read.report) == (3, 8, 5, 6)
    assert read.damaged


def test_two_threads_may_ask_for_the_ends_of_a_closed_at_once() -> None:
    """The service draws in a thread what its ledger follower reads."""
    read = decode(encode(CLOSED))
    assert isinstance(read, Closed)
    read_rest = read._unread  # type: ignore[attr-defined]
    found: list[Any] = []

    def interrupted(record: Closed) -> bool:
        if not found:
            found.append(None)
            other = Thread(target=lambda: found.append(record.sent))
            other.start()
            other.join()
        return bool(read_rest(record))

    read.defer(interrupted)
    assert read.sent == CLOSED.sent
    assert found == [None, CLOSED.sent]


@pytest.mark.parametrize(
    "spoilt",
    [
        {"partition": (1, 2)},
        {"topic": (columns.Run(text="t", items=columns.ITEMS_MAX + 1),)},
        {"topic": (columns.Run(text="t", items=0), columns.Run(text="t", items=1))},
        {"topic": ()},
        {"recreated": (2,)},
        {"unacknowledged": (columns.Unacknowledged(item=1, seqs=()),)},
    ],
)
def test_columns_that_do_not_fit_together_are_damaged(spoilt: dict[str, Any]) -> None:
    fitting = columns.packed(SentEnd, CLOSED.sent)
    assert columns.unpacked(SentEnd, fitting) == CLOSED.sent
    with pytest.raises((ValueError, IndexError)):
        columns.unpacked(SentEnd, dataclasses.replace(fitting, **spoilt))


@pytest.mark.parametrize("items", [0, 2, columns.ITEMS_MAX + 1])
def test_a_second_column_of_texts_is_as_long_as_the_first(items: int) -> None:
    """One flipped bit could fill the memory otherwise, and would be found only then."""
    end = records.ChangelogEnd(table="t", topic="c", partition=0, end=1)
    fitting = columns.packed(records.ChangelogEnd, (end,))
    with pytest.raises(ValueError, match="tables of"):
        columns.unpacked(
            records.ChangelogEnd, dataclasses.replace(fitting, table=(columns.Run(text="t", items=items),))
        )


@pytest.mark.parametrize("number", [0, 1, 2**62, 2**63 - 2])
def test_columns_hold_the_largest_offsets(number: int) -> None:
    ends = (
        SentEnd(topic="t", partition=0, white_end=number, last_seq=-1, marker=number, earlier_end=number),
        SentEnd(topic="t", partition=1, white_end=0, last_seq=number, marker=number, landed_end=number),
        SentEnd(topic="u", partition=0, white_end=number, last_seq=0, earlier_seq=number, recreated=True),
    )
    record = dataclasses.replace(CLOSED, sent=ends)
    assert decode(encode(record)) == record


# -- starting fast -------------------------------------------------------------------------------------------


def test_importing_the_codec_does_not_import_avro() -> None:
    """A Faust service imports it at its start."""
    code = "import sys, snapkafka.wire.codec; print([m for m in sys.modules if m.split('.')[0] == 'avro'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- what docs/guide/risk.md says ----------------------------------------------------------------------------------


def test_a_snapshot_costs_about_40_bytes_for_each_partition() -> None:
    """Of a process with so many partitions to read, to write and to log changes to, each with names of usual length."""
    count = 1_000
    report = records.CutReport(
        process=5, n=9, epoch=100, previous=90, heard="ledger", assigned=7,
        positions=tuple(
            records.Position(agent="accounts.debit", topic="demo-requests", partition=p, offset=100_000)
            for p in range(count)
        ),
    )  # fmt: skip
    closed = records.Closed(
        process=5, n=10, epoch=100, report=101,
        sent=tuple(
            records.SentEnd(topic="demo-transfers", partition=p, white_end=100_000, last_seq=5_000, marker=100_001)
            for p in range(count)
        ),
        changelogs=tuple(
            records.ChangelogEnd(table="balances", topic="demo-accounts-balances-changelog", partition=p, end=100_000)
            for p in range(count)
        ),
        input_ends=tuple(
            records.LogEnd(topic="demo-requests", partition=p, end=100_000) for p in range(count)
        ),
    )  # fmt: skip
    assert 35 <= (len(codec.encode(report)) + len(codec.encode(closed))) / count <= 45


def test_r15_what_only_our_own_reader_cannot_read_is_a_fault_and_no_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Taken for garbage, a trigger was skipped, and the snapshot waited for this worker until its time was over."""
    data = codec.encode(Trigger(n=1, id="s"))
    form = codec._forms()["Trigger"]

    def fail(data: bytes, at: int) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setitem(codec._forms(), "Trigger", form._replace(read=fail))
    with pytest.raises(RuntimeError, match="a bug of ours"):
        codec.decode(data)
    with pytest.raises(codec.UndecodableError):
        codec.decode(data[:-1])


@pytest.mark.parametrize("later", [False, True])
def test_r15_a_fault_of_ours_in_columns_is_no_damage(monkeypatch: pytest.MonkeyPatch, later: bool) -> None:
    """Neither in a record that is read at once, nor in what is read when somebody asks."""
    end = records.LogEnd(topic="a", partition=1, end=7)
    data = encode(CLOSED if later else Trigger(n=1, id="s", ends=(end,)))

    def fail(column: Any) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(columns, "_summed", fail)
    with pytest.raises(RuntimeError, match="a bug of ours"):
        getattr(decode(data), "sent")  # noqa: B009
