"""Ledger records as bytes."""

import contextlib
import dataclasses
import subprocess
import sys
import typing
import zlib
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import avro.schema
import pytest
from avro.io import BinaryDecoder, DatumReader
from hypothesis import given, settings
from hypothesis import strategies as st

from snapkafka.protocol import Report, records
from snapkafka.protocol.offsets import Running, SentEnd
from snapkafka.protocol.records import Abort, Kept, LedgerRecord, Trigger
from snapkafka.wire import codec, decode, encode, schemas
from snapkafka.wire.codec import MAGIC, PREFIX_BYTES, UndecodableError

TYPES = typing.get_args(LedgerRecord)
SCHEMAS = Path(__file__).parents[3] / "schemas" / "ledger"
#: Their differences are longs, too.
LONGS = st.integers(-1, 2**61) | st.integers(-1, 3)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Anything of this type, as far as the wire is concerned."""
    if kind in (int, str, bool):
        return {int: LONGS, str: st.text(max_size=20), bool: st.booleans()}[kind]
    if kind == LedgerRecord:
        return st.one_of([values(item) for item in TYPES if item is not records.Checkpoint])
    if typing.get_origin(kind) is typing.Literal:
        return st.sampled_from(typing.get_args(kind))
    if item := schemas.item_of(kind):
        return st.lists(values(item), max_size=3).map(tuple)
    return st.builds(kind, **{name: values(hint) for name, hint in schemas.hints_of(kind).items()})


ANY_RECORD = st.one_of([values(kind) for kind in TYPES])
RUNNING = (Running(agent="a", topic="t", partition=1, offset=99),)
EXAMPLE = Report(
    process=3, n=7, epoch=5, previous=0, heard="ledger", assigned=2, positions=(), running=RUNNING
)
SENT = (SentEnd(topic="t", partition=1, white_end=99, last_seq=12),)
WHOLE = dataclasses.replace(EXAMPLE, sent=SENT, cut_us=80)
DAMAGED = encode(WHOLE)[:-1] + b"\xff"


def read_by_apache(name: str, data: bytes) -> Any:
    """Read by the published schema, with another library."""
    schema = avro.schema.parse((SCHEMAS / f"{name}.avsc").read_text())
    assert data[:PREFIX_BYTES] == MAGIC + schema.fingerprint("CRC-64-AVRO")
    buffer = BytesIO(data[PREFIX_BYTES:])
    read = DatumReader(schema).read(BinaryDecoder(buffer))
    assert buffer.read() == b""
    return read


def ends_of(record: Report) -> bytes:
    return zlib.decompress(read_by_apache("Report", encode(record))["ends"])


@given(ANY_RECORD)
@settings(max_examples=300, deadline=None)
def test_every_record_comes_back_as_it_was(record: LedgerRecord) -> None:
    assert decode(encode(record)) == record


def test_single_object_encoding_by_hand() -> None:
    data = encode(Abort(n=1, epoch=2, code="ttl", reason="late"))
    assert data[:2] == b"\xc3\x01"
    assert data[10:] == b"\x01\x02\x04\x06ttl\x08late\x00"


def test_the_files_of_the_schemas_are_those_of_the_record_classes() -> None:
    """`python -m tools.schemas` writes them."""
    assert {path.name: path.read_text("utf-8") for path in SCHEMAS.glob("*.avsc")} == schemas.published()


@given(ANY_RECORD)
@settings(max_examples=100, deadline=None)
def test_avro_of_apache_reads_and_fingerprints_them(record: LedgerRecord) -> None:
    read = read_by_apache(type(record).__name__, encode(record))
    assert read["n"] == record.n
    if isinstance(record, Report):
        rest = read_by_apache("ReportEnds", ends_of(record))
        assert (rest["cut_us"], len(rest["sent"]["topic"])) == (record.cut_us, len(record.sent))


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
        ends_of(WHOLE),
    ],
)
def test_garbage_is_undecodable(data: bytes | None) -> None:
    with pytest.raises(UndecodableError):
        decode(data)


@given(st.binary(max_size=60), ANY_RECORD, st.data())
@settings(max_examples=300, deadline=None)
def test_no_bytes_raise_anything_else(body: bytes, record: LedgerRecord, data: st.DataObject) -> None:
    """Any bytes, any behind the mark of a type, and a record with one flipped bit."""
    flipped = bytearray(whole := encode(record))
    flipped[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for one in (body, whole[:PREFIX_BYTES] + body, bytes(flipped)):
        with contextlib.suppress(UndecodableError):
            found = decode(one)
            assert isinstance(found, TYPES)
            assert not isinstance(found, Report) or found.damaged or isinstance(found.cut_us, int)


# -- what is read only when somebody asks for it -----------------------------------------------------------------------


def test_the_ends_of_a_report_are_read_once_somebody_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    read = decode(encode(WHOLE))
    assert isinstance(read, Report)
    with monkeypatch.context() as patch:
        patch.setattr(codec, "_read", lambda *_: pytest.fail("nobody has asked"))
        assert (read.epoch, read.unstamped) == (5, ())
    assert read.sent == WHOLE.sent
    assert dataclasses.replace(read, n=3) == dataclasses.replace(WHOLE, n=3)


@pytest.mark.parametrize("how", ["bytes", "columns", "no column", "too many", "another record"])
def test_damaged_ends_are_the_same_to_every_reader(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker does not read the ends. If others took such a record for garbage, the two would fold differently. Nor
    may a checkpoint mend it: its snapshot could be VERIFIED, without its ends, by whoever starts there."""
    data = DAMAGED
    if how != "bytes":
        form = codec._forms()["Report"]
        assert form.rest is not None
        plain = form.rest.plain(WHOLE)
        count = {"columns": 2, "too many": 2**31 - 1}.get(how, 0)
        plain["sent"]["partition"] = {"count": count, "low": 1, "width": 0, "packed": b""}
        ends = encode(EXAMPLE) if how == "another record" else codec._written(form.rest, plain)
        data = codec._written(form, form.plain(WHOLE) | {"ends": zlib.compress(ends)})
    record = decode(data)
    kept = records.Checkpoint(n=1, upto=9, highest_epoch=5, kept=(Kept(offset=8, record=record),))
    copy = decode(encode(kept))
    assert isinstance(copy, records.Checkpoint)
    for read in (record, copy.kept[0].record):
        assert isinstance(read, Report)
        assert (read.process, read.n, read.epoch) == (3, 7, 5)
        assert read.damaged
        assert (read.sent, read.cut_us) == ((), 0)


def test_two_threads_may_ask_for_the_ends_of_a_report_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service draws in a thread what its ledger follower reads."""
    record = decode(encode(WHOLE))
    assert isinstance(record, Report)
    read, found = codec._read, list[Any]()

    def interrupted(form: Any, data: bytes) -> Any:
        if not found:
            found.append(None)
            other = Thread(target=lambda: found.append(record.sent))
            other.start()
            other.join()
        return read(form, data)

    monkeypatch.setattr(codec, "_read", interrupted)
    assert record.sent == WHOLE.sent
    assert found == [None, WHOLE.sent]


@pytest.mark.parametrize("later", [False, True])
def test_r15_a_fault_of_ours_is_no_damage(monkeypatch: pytest.MonkeyPatch, later: bool) -> None:
    """Neither in a record that is read at once, nor in what is read when somebody asks. Taken for garbage, a trigger
    was skipped, and the snapshot waited for this worker until its time was over."""
    data = encode(WHOLE if later else Trigger(n=1, id="s"))
    record = decode(data) if later else None

    def fail(*_: Any) -> Any:
        raise KeyError("a bug of ours")

    monkeypatch.setattr(codec, "_values", fail)
    with pytest.raises(KeyError, match="a bug of ours"):
        getattr(record or decode(data), "sent")  # noqa: B009


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
