"""`restore` of a part: an app, a table, keys of a table; what is left out stays as it is."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from snapkafka.errors import BadInputError, RestoreRefusedError
from snapkafka.protocol import ChangelogCut, Hello, InputTopic
from snapkafka.recovery import Selection
from snapkafka.recovery.selection import SelectedKeys
from tests.worlds.recovery import EPOCH, IN, LOG, OUT, RAW, SETS, CrashError, World, save


def app(**more: Any) -> dict[str, Any]:
    return {"selection": Selection(apps=("app",), **more)}


async def test_an_app_alone_goes_back_and_reads_again_what_others_have_sent_since(two: World) -> None:
    """What it sent itself since the cut is void; what others sent since is as true as before, and no marker is."""
    planned = await two.plan(**app())
    assert (planned.refusals, planned.apps, planned.consistent) == ((), ("app",), False)
    done = await two.restore(**app())
    assert not done.consistent
    assert done.notes[0].startswith("no consistent cut: only app app is restored")
    assert two.folded() == {b'"x"': b"1", b'"y"': b"2"}
    assert two.members() == {1, 2}
    kept = [b"two, external", b"three", b"five, external", b"seven, of other"]
    assert two.taken("a") == [b"one", *kept]
    assert two.taken("b") == kept[1:]
    assert two.admin.commits["other"] == {OUT: 3}, "others stay where they are"
    assert two.state().restores.rules("other", OUT) == {}
    assert [item.topic for item in done.irrevocable] == ["out"], "and keep what they have received"


async def test_a_whole_restore_drops_what_any_app_has_sent_since(two: World) -> None:
    """The mirror of the test above: with all apps selected nothing of after the cut is kept."""
    done = await two.restore()
    assert done.consistent and not done.notes
    assert two.taken("a") == [b"one", b"two, external", b"three", b"five, external"]
    assert set(two.state().restores.rules("other", OUT)) == {"o"}, "and the other app goes back, too"


@pytest.mark.parametrize(
    ("keys", "table"),
    [
        ((), {b'"x"': b"1", b'"y"': b"2"}),
        (("x",), {b'"x"': b"1", b'"z"': b"3"}),
        (("y",), {b'"x"': b"9", b'"y"': b"2", b'"z"': b"3"}),
        (('"z"', "x"), {b'"x"': b"1"}),
        (("nobody",), {b'"x"': b"9", b'"z"': b"3"}),
    ],
)
async def test_a_table_or_keys_of_it_go_back_and_nothing_else(
    world: World, keys: tuple[str, ...], table: dict[bytes, bytes]
) -> None:
    before = {tp: len(world.log.records[tp]) for tp in (IN, RAW, SETS)}
    commits = dict(world.admin.commits["app"])
    done = await world.restore(selection=Selection(tables=("t",), keys=keys))
    assert world.folded() == table
    assert {tp: len(world.log.records[tp]) for tp in before} == before
    assert world.admin.commits["app"] == commits, "positions stay"
    restores = world.state().restores
    assert restores.rules("app", IN) == {}
    assert set(restores.bases) == {LOG}
    assert not done.consistent and "positions, messages in flight and all else stay" in done.notes[0]
    assert (done.messages, restores.open) == (0, None)


async def test_keys_of_a_table_of_sets_go_back(world: World) -> None:
    world.log.put(SETS, b'[1,"other"]', b"8", by=1)
    await world.restore(selection=Selection(apps=("app",), tables=("s",), keys=("k",)))
    assert world.members() == {1, 2, 8}


async def test_every_selected_key_is_written_where_the_log_may_have_lost_records(world: World) -> None:
    world.admin.settings[LOG.topic] = {"cleanup.policy": "compact,delete"}
    done = await world.restore(selection=Selection(tables=("t",), keys=("y",)))
    assert done.state == 1
    assert world.folded()[b'"y"'] == b"2"


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(apps=("nobody",)), "no app nobody"),
        (Selection(tables=("nothing",)), "no table nothing"),
        (Selection(keys=("x",)), "--keys needs a table"),
        (Selection(tables=("t", "s"), keys=("x",)), "--keys takes one table only"),
    ],
)
async def test_what_the_snapshot_has_not_is_refused(world: World, selection: Selection, message: str) -> None:
    before = world.fingerprint()
    with pytest.raises(BadInputError, match=message):
        await world.restore(selection=selection)
    assert world.fingerprint() == before


async def test_a_table_that_two_apps_have_needs_the_app(world: World) -> None:
    cut = world.manifest.captured
    twin = dataclasses.replace(cut.changelogs[0], app="other", topic="other-t-changelog")
    both = dataclasses.replace(cut, changelogs=(*cut.changelogs, twin))
    save(world, dataclasses.replace(world.manifest, captured=both))
    with pytest.raises(BadInputError, match="apps app, other have a table t"):
        await world.plan(selection=Selection(tables=("t",)))


async def test_an_input_that_others_read_too_is_a_reason_that_can_be_forced(two: World) -> None:
    two.cluster.the_ledger.put(Hello(n=9, app="third", inputs=(InputTopic(topic="in", partitions=1),)))
    before = two.fingerprint()
    with pytest.raises(
        RestoreRefusedError, match=r"app third reads in\[0\], too, .* 5 messages again \(shared-input\)"
    ):
        await two.restore(**app())
    assert two.fingerprint() == before
    assert (await two.plan(force=True, **app())).refusals == ()


async def test_a_part_of_what_was_restored_since_is_refused(two: World) -> None:
    await two.restore()
    with pytest.raises(RestoreRefusedError, match="restored-since"):
        await two.restore(**app())


async def test_records_of_a_process_that_nobody_remembers_are_a_reason(two: World) -> None:
    two.log.put(IN, b"k", b"?", by=77, epoch=EPOCH)
    before = two.fingerprint()
    with pytest.raises(RestoreRefusedError, match=r"sender 77 .*process-unknown"):
        await two.restore(**app())
    assert two.fingerprint() == before


async def test_a_changelog_that_another_app_reads_is_refused_for_a_table_alone(world: World) -> None:
    cut = world.manifest.captured
    reads = dataclasses.replace(cut.inputs[0], app="other", topic=LOG.topic)
    both = dataclasses.replace(cut, inputs=(*cut.inputs, reads))
    save(world, dataclasses.replace(world.manifest, captured=both))
    planned = await world.plan(selection=Selection(tables=("t",)))
    assert "changelog-is-input" in {refusal.code for refusal in planned.refusals}


async def test_keys_in_a_codec_that_people_do_not_write_are_refused(world: World) -> None:
    cut = world.manifest.captured
    pickled = dataclasses.replace(cut.changelogs[0], key_codec="pickle")
    both = dataclasses.replace(cut, changelogs=(pickled, *cut.changelogs[1:]))
    save(world, dataclasses.replace(world.manifest, captured=both))
    planned = await world.plan(selection=Selection(tables=("t",), keys=("x",)))
    assert "keys-codec" in {refusal.code for refusal in planned.refusals}


async def test_a_rerun_finishes_the_same_part_and_no_other(world: World) -> None:
    def crash(at: str) -> None:
        if at == "ready":
            raise CrashError

    part = Selection(tables=("t",), keys=("x",))
    with pytest.raises(CrashError):
        await world.restore(selection=part, crash=crash)
    assert json.loads(world.state().restores.open.begun.only) == {"keys": ["x"], "tables": ["t"]}
    assert (await world.plan()).replaces, "a restore of everything covers it"
    for other in (Selection(tables=("t",)),):
        assert [refusal.code for refusal in (await world.plan(selection=other)).refusals] == ["plan-open"]
    done = await world.restore(selection=part)
    assert done.resumed
    assert world.folded() == {b'"x"': b"1", b'"z"': b"3"}


# --- Keys -----------------------------------------------------------------------------------------------------------


def cut(**more: Any) -> ChangelogCut:
    return ChangelogCut(app="a", table="t", topic="c", topic_id="", partition=0, end=1, process=1, **more)


@pytest.mark.parametrize(
    ("key", "raw", "of", "takes"),
    [
        ("42", b"42", cut(), True),
        ("42", b'"42"', cut(), True),
        ('"42"', b"42", cut(), False),
        ("u-1", b'"u-1"', cut(), True),
        ("u-1", b'"u-10"', cut(), False),
        ('{"b": 1, "a": 2}', b'{"a": 2, "b": 1}', cut(), True),
        ("u-1", b'["u-1", [0.0, 9.9]]', cut(windowed=True), True),
        ("u-1", b'["u-2", [0.0, 9.9]]', cut(windowed=True), False),
        ("u-1", b'[15,"u-1"]', cut(sets=True), True),
        ("u-1", b"u-1", cut(key_codec="raw"), True),
        ("u-1", b'"u-1"', cut(key_codec="raw"), False),
        ("u-1", b"\xff", cut(), False),
        ("u-1", b"7", cut(windowed=True), False),
        ("u-1", None, cut(), False),
    ],
)
def test_a_key_is_compared_as_people_write_it(
    key: str, raw: bytes | None, of: ChangelogCut, takes: bool
) -> None:
    assert SelectedKeys([key]).takes(of, raw) is takes
