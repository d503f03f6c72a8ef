"""Signatures of ledger records: what is accepted, and what is ignored, whatever it looks like."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from snapkafka.errors import BadInputError
from snapkafka.protocol import KEEP_NUMBERS
from snapkafka.wire.signature import FRESH_WITHIN, KEY, KEY_FILE, UNSIGNED, Keys, Place

NEW, OLD = "n" * 32, "o" * 32
HERE = Place("_snapkafka.shop", "0" * 32)
VALUE = b"a record"


def keys(*texts: str, **more: str) -> Keys:
    return Keys.from_environment({KEY: ",".join(texts), **more})


def signed(by: Keys, place: Place = HERE, seen: int = 100, value: bytes = VALUE) -> bytes:
    signature = by.sign(place, seen, value)
    assert signature is not None
    return signature


def test_without_a_key_nothing_is_signed_and_everything_accepted() -> None:
    none = Keys.from_environment({})
    assert not none
    assert none.sign(HERE, 0, VALUE) is None
    assert none.accepts(HERE, 0, VALUE, None)
    assert none.accepts(HERE, 0, VALUE, signed(keys(NEW)))


def test_rotation_signs_with_the_first_and_accepts_both() -> None:
    """old -> new,old -> new: neighbours in that order accept each other."""
    stages = [keys(OLD), keys(OLD, NEW), keys(NEW, OLD), keys(NEW)]
    for one, other in itertools.pairwise(stages):
        assert other.accepts(HERE, 100, VALUE, signed(one))
        assert one.accepts(HERE, 100, VALUE, signed(other))
    assert not stages[0].accepts(HERE, 100, VALUE, signed(stages[-1]))


@pytest.mark.parametrize(
    "signature",
    [None, b"", b"\x01", b"\x02" + bytes(40), b"\x01" + b"\xff" * 40, bytes(41), bytes(10_000)],
    ids=repr,
)
def test_what_is_unsigned_or_no_signature_is_ignored(signature: bytes | None) -> None:
    assert not keys(NEW).accepts(HERE, 100, VALUE, signature)


def test_a_signature_is_of_its_record_and_of_its_ledger_alone() -> None:
    mine = keys(NEW)
    signature = signed(mine)
    assert mine.accepts(HERE, 100, VALUE, signature)
    assert not mine.accepts(HERE, 100, VALUE + b"!", signature)
    assert not mine.accepts(HERE._replace(topic="_snapkafka.bank"), 100, VALUE, signature)
    assert not mine.accepts(HERE._replace(topic_id="1" * 32), 100, VALUE, signature), (
        "the ledger was recreated"
    )
    for bit in range(8 * len(signature)):
        flipped = bytearray(signature)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not mine.accepts(HERE, 100, VALUE, bytes(flipped))


def test_a_copy_counts_only_where_every_reader_knows_it_for_a_duplicate() -> None:
    """Farther on its number is forgotten, and the signature is stale; nor was it ever written before."""
    mine, signature = keys(NEW), signed(keys(NEW), seen=100)
    assert FRESH_WITHIN <= KEEP_NUMBERS
    assert [
        mine.accepts(HERE, at, VALUE, signature) for at in (99, 100, 99 + FRESH_WITHIN, 100 + FRESH_WITHIN)
    ] == [
        False,
        True,
        True,
        False,
    ]


def test_while_keys_are_rolled_out_unsigned_records_are_accepted_and_wrong_ones_are_not() -> None:
    rolling = keys(NEW, **{UNSIGNED: "accept"})
    assert rolling.accepts(HERE, 100, VALUE, None)
    assert not rolling.accepts(HERE, 100, VALUE, signed(keys(OLD)))


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# since March\n{NEW}\n\n{OLD}\n")
    found = Keys.from_environment({KEY_FILE: str(file)})
    assert len(found) == 2
    assert keys(NEW).accepts(HERE, 100, VALUE, signed(found))


@pytest.mark.parametrize(
    ("environ", "what"),
    [
        ({KEY: "short"}, "less than 16 bytes"),
        ({KEY: " , "}, "has no key"),
        ({KEY: NEW, KEY_FILE: "/nowhere"}, "both set"),
        ({KEY_FILE: "/nowhere/at/all"}, "cannot be read"),
        ({KEY: NEW, UNSIGNED: "yes"}, "must be accept"),
    ],
)
def test_keys_that_cannot_be_used_are_an_error_that_shows_none(environ: dict[str, str], what: str) -> None:
    with pytest.raises(BadInputError, match=what) as raised:
        Keys.from_environment(environ)
    assert NEW not in str(raised.value)
