"""Erased keys and masks on the way from a snapshot into a restore or a fork; every doubt ends the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from snapkafka.errors import BadInputError
from snapkafka.kafka import KafkaRecord
from snapkafka.protocol import Captured
from snapkafka.recovery import Editing, Mask, Row, Suppression
from snapkafka.recovery.masks import read_masks
from snapkafka.recovery.suppression import read_key, read_suppression
from tests.worlds.forks import P, named, takes
from tests.worlds.recovery import IN, LOG, RAW, SETS, WINDOWS, World


def test_the_key_of_a_person_is_found_in_every_form(cut: Captured) -> None:
    cuts = {it.topic: it for it in cut.changelogs}
    for tp, key in (
        (LOG, b'"ann"'),
        (WINDOWS, b'["ann",[0.0,59.9]]'),
        (SETS, b'[15,"ann"]'),
        (IN, b"ann"),
        (IN, b'"ann"'),
    ):
        assert read_key(key, cuts.get(tp.topic)).text == "ann"
    assert read_key(b'["ann",[0.0,59.9]]', cuts[LOG.topic]).text == '["ann",[0.0,59.9]]', "no window there"
    assert read_key(b"\xff", None).text is None
    assert read_key(None, None).text is None


@pytest.mark.parametrize(
    "suppression",
    [
        Suppression(keys=("ann",)),
        Suppression(prefixes=("an",)),
        Suppression(sql=("key = 'ann' OR coalesce(value->>'$.person' = 'ann', false)",)),
    ],
)
def test_a_person_is_left_out_of_tables_windows_sets_and_channels(
    cut: Captured, suppression: Suppression
) -> None:
    editing = Editing(cut, suppression)
    items: list[Any] = [
        Row(tp, key % person, b"{}")
        for person in (b"ann", b"bob")
        for tp, key in ((LOG, b'"%s"'), (WINDOWS, b'["%s",[0.0,9.9]]'), (SETS, b'[15,"%s"]'))
    ]
    items += [KafkaRecord(*IN, 3, person, b"{}", (), 0) for person in (b"ann", b"bob")]
    kept = list(editing.edit(items))
    assert len(kept) == 4
    assert all(b"bob" in it.key for it in kept)
    assert editing.suppressed == 4


def test_a_mask_replaces_fields_and_values_and_nothing_else(cut: Captured) -> None:
    masks = (
        Mask(table="t", fields={"name": "'***'", "address.city": "upper(value->>'$.address.city')"}),
        Mask(topic="in", value="to_json(md5(key))", headers="keep"),
    )
    editing = Editing(cut, None, masks)
    person = {"name": "Ann", "address": {"city": "Ulm", "zip": "1"}, "n": 1}
    items: list[Any] = [
        Row(LOG, b'"a"', json.dumps(person).encode()),
        Row(WINDOWS, b'"a"', b"7"),
        Row(LOG, b'"b"', None),
        KafkaRecord(*IN, 3, b"a", b'"secret"', (("h", b"1"),), 5),
        KafkaRecord(*RAW, 3, b"a", b'"secret"', (), 5),
    ]
    row, other, deleted, message, empty = editing.edit(items)
    assert json.loads(row.value or b"") == {"name": "***", "address": {"city": "ULM", "zip": "1"}, "n": 1}
    assert (other.value, deleted.value, empty.value) == (b"7", None, b'"secret"')
    assert message == KafkaRecord(*IN, 3, b"a", b'"0cc175b9c0f1b6a831c399e269772661"', (("h", b"1"),), 5)
    assert editing.masked == 2


@pytest.mark.parametrize(
    ("mask", "value"),
    [
        (Mask(table="t", fields={"name": "'*'"}), b"7"),
        (Mask(table="t", fields={"name": "'*'"}), b"no JSON"),
        (Mask(table="t", value="'*'"), b"\xff"),
        (Mask(table="t", value="NULL"), b'"secret"'),
    ],
)
def test_what_cannot_be_masked_is_not_copied(cut: Captured, mask: Mask, value: bytes) -> None:
    with pytest.raises(BadInputError):
        list(Editing(cut, None, (mask,)).edit([Row(LOG, b'"a"', value)]))


def test_a_mask_of_nothing_and_wrong_sql_are_found_before_anything_is_written(cut: Captured) -> None:
    for mask in (
        Mask(table="tt", value="'*'"),
        Mask(topic="inn", value="'*'"),
        Mask(app="b", table="t", value="1"),
    ):
        with pytest.raises(BadInputError):
            Editing(cut, None, (mask,))
    with pytest.raises(BadInputError, match="SQL"):
        Editing(cut, None, (Mask(table="t", value="nothing"),))
    with pytest.raises(BadInputError, match="fails"):
        Editing(cut, Suppression(sql=("key = ",)))
    with pytest.raises(BadInputError, match="fails"):
        Editing(cut, Suppression(sql=("key IN (SELECT content FROM read_text('/etc/passwd'))",)))


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "erased.toml"
    file.write_text('keys = ["ann"]\nprefixes = ["user-7:"]\nsql = ["key = \'x\'"]\nbinary = ["longs"]\n')
    assert read_suppression(str(file)) == Suppression(
        keys=("ann",), prefixes=("user-7:",), sql=("key = 'x'",), binary=("longs",)
    )
    for text in (
        "",
        "keys = []",
        'binary = ["longs"]',
        'keys = [""]',
        'key = ["a"]',
        'keys = "a"',
        "keys = ",
    ):
        file.write_text(text)
        with pytest.raises(BadInputError):
            read_suppression(str(file))
    file.write_text(
        "[[mask]]\ntable = 't'\nfields = { 'a.b' = \"'*'\" }\n[[mask]]\ntopic = 'in'\nvalue = '1'\n"
    )
    assert read_masks(str(file)) == (Mask(table="t", fields={"a.b": "'*'"}), Mask(topic="in", value="1"))
    file.write_text(
        "[[mask]]\ntopic = 'in'\nvalue = '1'\nheaders = 'drop'\n[[mask]]\ntopic = 'raw'\nheaders = 'keep'\n"
    )
    assert read_masks(str(file)) == (
        Mask(topic="in", value="1", headers="drop"),
        Mask(topic="raw", headers="keep"),
    )
    for text in (
        "",
        "[[mask]]\ntable = 't'",
        "[[mask]]\nvalue = '1'",
        "[[mask]]\ntable = 't'\ntopic = 'x'\nvalue = '1'",
        "[[mask]]\ntable = 't'\nvalue = 1",
        "[[mask]]\ntable = 't'\nvalues = '1'",
        "[[mask]]\ntable = 't'\nfields = 'name'",
        "[[mask]]\ntable = 't'\nvalue = '1'\nfields = { name = '1' }",
        "[[mask]]\ntable = 't'\nvalue = '1'\nheaders = 'drop'",
        "[[mask]]\ntopic = 't'\nvalue = '1'\nheaders = 'lose'",
        "[[mask]]\ntopic = 't'\nvalue = '1'\nheaders = { trace = 1 }",
        "mask = 1",
    ):
        file.write_text(text)
        with pytest.raises(BadInputError):
            read_masks(str(file))


async def test_a_fork_without_erased_keys_and_with_masks(fork: Any) -> None:
    done = await fork.create(
        with_inputs=True,
        suppress=Suppression(keys=("x", "r"), sql=("value = 'three'",)),
        masks=(Mask(table="t", value="'9'"), Mask(topic="in", value="'m'", headers="drop")),
    )
    table = {record.key: record.value for record in fork.production.log.records[named(LOG)]}
    assert table == {b'"y"': b"9"}
    assert fork.values(IN) == [b"m", b"m", b"m"]
    assert fork.values(RAW) == []
    assert takes(fork, "b") == [b"m"], "the agent is behind what is left out"
    assert (done.suppressed, done.masked, done.messages, done.inputs) == (1 + 1 + 7, 4, 1, 2)


async def test_a_mask_that_fails_leaves_no_fork_that_runs(fork: Any) -> None:
    """It fails on a record that came after all was examined."""
    before = []

    def send(step: str) -> None:
        if step == "channels":
            fork.production.log.put(RAW, b"r", b"odd")
            before.append(fork.fingerprint())

    mask = Mask(topic="raw", value="nullif(value, 'odd')", headers="drop")
    with pytest.raises(BadInputError):
        await fork.create(with_inputs=True, masks=(mask,), crash=send)
    assert fork.state.restores.open is not None, "its workers wait"
    assert [fork.fingerprint()] == before


async def test_a_restore_keeps_erased_keys_erased(world: World) -> None:
    """In tables that were not touched since, too, and of external records where the position would only go back."""
    await world.restore(suppress=Suppression(keys=("x", "r", "k")))
    assert world.folded() == {b'"y"': b"2"}
    assert world.members() == set()
    assert world.taken("a") == [b"two, external", b"five, external"]
    assert world.admin.commits["app"][RAW] == 9, (
        "behind the old end: every external record was of an erased key"
    )
    assert P not in str(world.admin.commits)


@pytest.mark.parametrize(
    "key",
    [
        b"\0\0\0\0\0\0\0*",  # a long of Java's
        b"\0\0\0\0\1\x06bob",  # Avro, framed
        b"\0",
        b'"\\u0000bob"',
    ],
)
def test_keys_that_begin_with_a_zero_byte_are_not_erased(cut: Captured, key: bytes) -> None:
    """Without a prefix none begins with it."""
    row = Row(LOG, key, b"{}")
    for suppression, masks in (
        (None, (Mask(table="t", value="'1'"),)),
        (Suppression(keys=("ann",), binary=("t",)), ()),
        (Suppression(prefixes=("ann",), binary=("t",)), ()),
    ):
        editing = Editing(cut, suppression, masks)
        assert [(it.key, erased) for it, erased in editing.marked([row])] == [(key, False)]
        assert editing.suppressed == 0
