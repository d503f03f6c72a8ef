"""The `_sk` header (design, section 4)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapkafka.protocol.offsets import NOBODY
from snapkafka.wire import headers
from snapkafka.wire.headers import HEADER, Stamp

U16 = st.integers(0, 0xFFFF)
U32 = st.integers(0, 0xFFFF_FFFF)
U40 = st.integers(0, headers.MAX_40)
LEDGER, CHECK = 0x1234, headers.tp_check("transfers", 3)


@given(U16, U16, U32, U32, U40, st.none() | U32 | st.tuples(U16, U16, U40))
def test_a_stamp_comes_back(ledger: int, check: int, epoch: int, process: int, seq: int, more: Any) -> None:
    """Plain, a marker with the epoch before, or with its cause."""
    place, sent = (ledger, check, epoch, process, seq), Stamp(epoch, process, seq)
    if more is None:
        raw, size = headers.stamp(*place), 18
    elif isinstance(more, int):
        raw, size, sent = headers.marker(*place, more), 22, sent._replace(marker=True, previous=more)
    else:
        raw, size, sent = headers.stamp_with_cause(*place, *more), 27, sent._replace(cause=more)
    assert len(raw) == size
    assert headers.read(raw, ledger, check) == sent


def test_the_bytes_are_those_of_the_design() -> None:
    """Version+flags (1), ledger id (2), topic-partition check (2), epoch (4), process (4), seq (5); cause: topic check
    (2), partition (2), offset (5). Big-endian."""
    place = (0x0102, 0x0304, 0x05060708, 0x090A0B0C, 0x0D0E0F1011)
    written = "0102 0304 05060708 090a0b0c 0d0e0f1011"
    assert headers.stamp(*place) == bytes.fromhex(f"10 {written}")
    caused = headers.stamp_with_cause(*place, 0x1213, 0x1415, 0x161718191A)
    assert caused == bytes.fromhex(f"12 {written} 1213 1415 161718191a")
    assert headers.marker(*place, 0x12131415) == bytes.fromhex(f"11 {written} 12131415")


def test_the_checks_are_those_that_spark_computes_with_crc32() -> None:
    assert headers.tp_check("transfers", 3) == 0x3DEB  # crc32("transfers:3") is 06be3deb
    assert headers.topic_check("transfers") == 0x3918  # 802a3918
    assert headers.ledger_id(bytes(range(16))) == 0xE288  # cecee288


def test_topics_of_one_check_are_left_out_of_those_that_a_cause_can_name() -> None:
    assert headers.topic_check("orders-in-all") == headers.topic_check("clearing-all-v1") == 0x11E2
    found = headers.topics_by_check(["orders-in-all", "clearing-all-v1", "transfers", "transfers"])
    assert found == {0x3918: "transfers"}


# -- external records ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        headers.stamp(LEDGER, CHECK, 7, 8, 9),
        headers.stamp_with_cause(LEDGER, CHECK, 7, 8, 9, 1, 2, 3),
        headers.stamp_with_cause(LEDGER, CHECK, 7, 8, 9, 1, 2, 2**32),
        headers.marker(LEDGER, CHECK, 7, 8, 9, 6),
    ],
    ids=["plain", "with a cause", "with a long cause", "marker"],
)
def test_every_kind_is_external_under_another_ledger_partition_version_flag_or_length(raw: bytes) -> None:
    assert headers.read(raw, LEDGER, CHECK) is not None
    assert headers.read(raw, LEDGER ^ 1, CHECK) is None  # a ledger that was deleted and made again
    assert headers.read(raw, LEDGER, CHECK ^ 1) is None
    assert headers.read(bytes([raw[0] + 0x10]) + raw[1:], LEDGER, CHECK) is None  # version 2
    assert headers.read(bytes([raw[0] ^ 3]) + raw[1:], LEDGER, CHECK) is None  # says to be another kind
    assert headers.read(bytes([raw[0] | 8]) + raw[1:], LEDGER, CHECK) is None  # a flag of a later release
    assert headers.read(raw[:-1], LEDGER, CHECK) is None
    assert headers.read(raw + b"\x00", LEDGER, CHECK) is None


@given(st.binary(max_size=40))
def test_no_bytes_whatever_raise(raw: bytes) -> None:
    headers.read(raw, LEDGER, CHECK)


# -- limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "more"), [(headers.stamp, ()), (headers.stamp_with_cause, (1, 2, 3)), (headers.marker, (0,))]
)
def test_nobody_never_stamps(make: Any, more: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError):
        make(LEDGER, CHECK, 1, NOBODY, 0, *more)


@pytest.mark.parametrize(("partition", "offset"), [(0x1_0000, 5), (5, 1 << 40)])
def test_a_cause_that_does_not_fit_is_left_out(partition: int, offset: int) -> None:
    raw = headers.stamp_with_cause(LEDGER, CHECK, 7, 8, 9, 1, partition, offset)
    assert headers.read(raw, LEDGER, CHECK) == Stamp(7, 8, 9)


# -- among other headers -------------------------------------------------------------------------------------

MINE = headers.stamp(LEDGER, CHECK, 7, 8, 9)


@pytest.mark.parametrize("given", [((HEADER, MINE), ("b", b"2")), ((HEADER, b"copied"), (HEADER, MINE))])
@pytest.mark.parametrize("shape", [list, tuple, dict])
def test_the_last_is_found_among_others_and_all_are_taken_out(shape: type, given: tuple[Any, ...]) -> None:
    among = shape([("a", b"1"), *given])
    assert headers.find(among) == MINE
    assert headers.without_header(among) == [("a", b"1"), *(it for it in given if it[0] != HEADER)]


@pytest.mark.parametrize(
    "given", [None, [], (), {}, [("a", b"1")], [(HEADER, None)], [(HEADER, MINE), (HEADER, None)]]
)
def test_it_is_not_found_where_it_is_not(given: object) -> None:
    assert headers.find(given) is None


def test_the_key_of_a_marker_names_its_sender() -> None:
    assert headers.marker_key(42) == b"_sk:42"
