"""Ledger records as bytes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import typing
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import fastavro
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form
from hypothesis import given, settings
from hypothesis import strategies as st

from snapkafka.protocol import Abort, LedgerRecord, Report, Running, SentEnd, Trigger, records
from snapkafka.protocol.records import Kept
from snapkafka.wire import codec, decode, encode, schemas
from snapkafka.wire.codec import UndecodableError

TYPES = typing.get_args(LedgerRecord)
SCHEMAS = Path(__file__).parents[3] / "schemas" / "ledger"
LONGS = st.integers(-(2**63), 2**63 - 1)
#: Numbers whose differences are longs, too.
OFFSETS = st.integers(-1, 2**61) | st.integers(-1, 3)


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
    longs = OFFSETS if kind in schemas.IN_COLUMNS else longs
    return st.builds(kind, **{name: values(hint, longs) for name, hint in schemas.hints_of(kind).items()})


ANY_RECORD = st.one_of([values(kind) for kind in TYPES])
EXAMPLE = Report(
    process=3,
    n=7,
    epoch=5,
    previous=0,
    heard="ledger",
    assigned=2,
    positions=(),
    running=(Running(agent="a", topic="t", partition=1, offset=99),),
)
WHOLE = dataclasses.replace(
    EXAMPLE, sent=(SentEnd(topic="t", partition=1, white_end=99, last_seq=12),), cut_us=80
)
DAMAGED = encode(WHOLE)[:-1] + b"\xff"


def schema_of(name: str) -> Any:
    return json.loads((SCHEMAS / f"{name}.avsc").read_text())


def prefix_of(schema: Any) -> bytes:
    return codec.MAGIC + bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def read_by(schema: Any, data: bytes) -> Any:
    return fastavro.schemaless_reader(BytesIO(data[codec.PREFIX_BYTES :]), fastavro.parse_schema(schema))


def written_by(schema: Any, plain: Any) -> bytes:
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), plain)
    return prefix_of(schema) + buffer.getvalue()


def with_ends(ends: bytes) -> LedgerRecord:
    """`WHOLE`, read with other last fields."""
    schema = schema_of("Report")
    return decode(written_by(schema, read_by(schema, encode(WHOLE)) | {"ends": ends}))


ENDS: bytes = read_by(schema_of("Report"), encode(WHOLE))["ends"]


@given(ANY_RECORD)
@settings(max_examples=300, deadline=None)
def test_every_record_comes_back_as_it_was(record: LedgerRecord) -> None:
    assert decode(encode(record)) == record


def test_single_object_encoding_by_hand() -> None:
    data = encode(Abort(n=1, epoch=2, code="ttl", reason="late"))
    assert data[:2] == b"\xc3\x01"
    assert data[10:] == b"\x01\x02\x04\x06ttl\x08late\x00"


# -- schemas -----------------------------------------------------------------------------------------------------------


def test_the_files_of_the_schemas_are_those_of_the_record_classes() -> None:
    """`python -m tools.schemas` writes them."""
    assert {path.name: path.read_text("utf-8") for path in SCHEMAS.glob("*.avsc")} == codec.published()


@given(ANY_RECORD)
@settings(max_examples=100, deadline=None)
def test_avro_of_apache_reads_and_fingerprints_them(record: LedgerRecord) -> None:
    import avro.schema
    from avro.io import BinaryDecoder, DatumReader

    schema = avro.schema.parse((SCHEMAS / f"{type(record).__name__}.avsc").read_text())
    data = encode(record)
    assert data[2 : codec.PREFIX_BYTES] == schema.fingerprint("CRC-64-AVRO")
    buffer = BytesIO(data[codec.PREFIX_BYTES :])
    read: Any = DatumReader(schema).read(BinaryDecoder(buffer))
    assert buffer.read() == b""
    assert read["n"] == record.n
    if isinstance(record, Report):
        ends = avro.schema.parse((SCHEMAS / "ReportEnds.avsc").read_text())
        assert read["ends"][2 : codec.PREFIX_BYTES] == ends.fingerprint("CRC-64-AVRO")
        rest: Any = DatumReader(ends).read(BinaryDecoder(BytesIO(read["ends"][codec.PREFIX_BYTES :])))
        assert (rest["cut_us"], rest["sent"]["items"]) == (record.cut_us, len(record.sent))


def test_what_the_last_release_wrote_is_read_and_new_fields_take_their_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a field of a list that is columns, and a field that we have given up since."""

    def old(name: str, without: str, data: bytes) -> bytes:
        """Write the same by the schema of an earlier release."""
        plain, schema = read_by(schema_of(name), data), schema_of(name)
        parts = schema["fields"]
        if name == "ReportEnds":
            (sent,) = (field["type"] for field in parts if field["name"] == "sent")
            parts = sent["fields"]
        parts[:] = [field for field in parts if field["name"] != without]
        schema["fields"].append({"name": "colour", "type": "string"})
        (tmp_path / "old").mkdir(exist_ok=True)
        (tmp_path / "old" / f"{name}-0.0.9.avsc").write_text(json.dumps(schema))
        return written_by(schema, plain | {"colour": "mauve"})

    trigger = old("Trigger", "who", encode(Trigger(n=4, id="s")))
    ends = old("ReportEnds", "earlier_seq", ENDS)
    with pytest.raises(UndecodableError):
        decode(trigger)
    monkeypatch.setattr(codec, "_schemas", lambda: tmp_path)
    codec._writers.cache_clear()
    try:
        assert decode(trigger) == Trigger(n=4, id="s")
        assert with_ends(ends) == WHOLE
    finally:
        codec._writers.cache_clear()


# -- what is none ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\xc3\x01",
        b"{}",
        b"\xc3\x01" + bytes(8),
        encode(EXAMPLE)[:10],
        encode(EXAMPLE)[:-1],
        encode(EXAMPLE) + b"\x00",
        b"\xc3\x02" + encode(EXAMPLE)[2:],
        encode(EXAMPLE)[:10] + b"\xff" * 30,
        encode(WHOLE)[:-1],
        ENDS,
    ],
)
def test_garbage_is_undecodable(data: bytes | None) -> None:
    with pytest.raises(UndecodableError):
        decode(data)


@given(st.binary(max_size=60), st.sampled_from(TYPES))
@settings(max_examples=300, deadline=None)
def test_no_bytes_whatever_raise_anything_else(body: bytes, kind: type) -> None:
    for data in (body, prefix_of(schema_of(kind.__name__)) + body):
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
        if isinstance(found, Report) and not found.damaged:
            assert isinstance(found.cut_us, int)


@pytest.mark.parametrize(
    "spoilt",
    [
        {"partition": [1, 2]},
        {"items": schemas.ITEMS_MAX + 1},
        {"items": -1},
        {"topic": {"texts": ["a"], "at": [1]}},
        {"topic": {"texts": [], "at": []}},
        {"white_end": []},
    ],
)
def test_columns_that_do_not_fit_together_are_damaged(spoilt: dict[str, Any]) -> None:
    schema = schema_of("ReportEnds")
    plain = read_by(schema, ENDS)
    plain["sent"] |= {"items": 3} | spoilt
    read = with_ends(written_by(schema, plain))
    assert isinstance(read, Report)
    assert read.damaged
    assert (read.epoch, read.sent, read.cut_us) == (5, (), 0)


# -- what is read only when somebody asks for it -----------------------------------------------------------------------


def test_the_ends_of_a_report_are_read_once_somebody_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    read = decode(encode(WHOLE))
    assert isinstance(read, Report)
    with monkeypatch.context() as patch:
        patch.setattr(codec, "_read", lambda data: pytest.fail("nobody has asked"))
        assert (read.epoch, read.unstamped) == (5, ())
    assert read.sent == WHOLE.sent
    assert dataclasses.replace(read, n=3) == dataclasses.replace(WHOLE, n=3)


def test_a_report_with_damaged_ends_counts_for_every_reader_and_says_so_to_who_asks() -> None:
    """A worker does not read the ends. If others took such a record for garbage, the two would fold differently. Nor
    may a checkpoint mend it: its snapshot could be VERIFIED, without its ends, by whoever starts there."""
    record = decode(DAMAGED)
    kept = records.Checkpoint(n=1, upto=9, highest_epoch=5, kept=(Kept(offset=8, record=record),))
    copy = decode(encode(kept))
    assert isinstance(copy, records.Checkpoint)
    for read in (record, copy.kept[0].record):
        assert isinstance(read, Report)
        assert (read.process, read.n, read.epoch) == (3, 7, 5)
        assert read.damaged


def test_two_threads_may_ask_for_the_ends_of_a_report_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service draws in a thread what its ledger follower reads."""
    record = decode(encode(WHOLE))
    assert isinstance(record, Report)
    read, found = codec._read, list[Any]()

    def interrupted(data: bytes | None) -> Any:
        if not found:
            found.append(None)
            other = Thread(target=lambda: found.append(record.sent))
            other.start()
            other.join()
        return read(data)

    monkeypatch.setattr(codec, "_read", interrupted)
    assert record.sent == WHOLE.sent
    assert found == [None, WHOLE.sent]


@pytest.mark.parametrize("later", [False, True])
def test_r15_a_fault_of_ours_is_no_damage(monkeypatch: pytest.MonkeyPatch, later: bool) -> None:
    """Neither in a record that is read at once, nor in what is read when somebody asks. Taken for garbage, a trigger
    was skipped, and the snapshot waited for this worker until its time was over."""
    end = records.LogEnd(topic="a", partition=1, end=7)
    data = encode(WHOLE if later else Trigger(n=1, id="s", ends=(end,)))

    def fail(*column: Any) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(schemas, "_lengthened", fail)
    with pytest.raises(RuntimeError, match="a bug of ours"):
        getattr(decode(data), "sent")  # noqa: B009


def test_importing_the_codec_does_not_import_avro() -> None:
    """A Faust service imports it at its start."""
    code = "import sys, snapkafka.wire.codec; print([m for m in sys.modules if 'avro' in m.split('.')[0]])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_snapshot_costs_about_40_bytes_for_each_partition() -> None:
    """docs/guide/risk.md. A process with so many partitions to read, to write and to log changes to, each with names of
    usual length."""
    count, far = 1_000, 100_000
    at = records.Position(agent="accounts.debit", topic="demo-requests", partition=0, offset=far)
    sent = SentEnd(topic="demo-transfers", partition=0, white_end=far, last_seq=5_000, marker=far + 1)
    log = "demo-accounts-balances-changelog"
    end = records.ChangelogEnd(table="balances", topic=log, partition=0, end=far)
    every = {
        name: tuple(dataclasses.replace(one, partition=p) for p in range(count))  # type: ignore[type-var]
        for name, one in {"positions": at, "sent": sent, "changelogs": end}.items()
    }
    report = dataclasses.replace(WHOLE, running=(), **every)  # type: ignore[arg-type]
    assert 35 <= len(encode(report)) / count <= 45
