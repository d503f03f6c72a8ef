"""`restore --into` on logs in memory: what comes to lie in a new cluster, a crash at every step, and every refusal."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from snapkafka.errors import BadInputError, RestoreFailedError, RestoreRefusedError
from snapkafka.protocol import Hello, Restore, Uncaptured
from snapkafka.recovery import Suppression
from snapkafka.wire import headers as wire
from tests.worlds.fakes import FakeTopic
from tests.worlds.new_cluster import ALL, LEDGER, NEW_ID, New
from tests.worlds.recovery import HELLO, IN, LOG, OUT, RAW, save


def as_in_the_snapshot(new: New) -> None:
    assert new.taken("a") == [b"one", b"three"]
    assert new.taken("b") == [b"three"]
    assert new.taken("c", RAW) == []
    assert new.folded() == ({b'"x"': b"1", b'"y"': b"2"}, {1, 2})


async def test_apps_go_on_in_a_new_cluster_from_the_storage_alone(new: New) -> None:
    done = await new.restore()
    as_in_the_snapshot(new)
    assert (done.messages, done.inputs, done.state, done.resumed) == (2, 0, 4, False)
    assert sorted(done.topics) == sorted(tp.topic for tp in ALL)
    assert new.admin.settings[LOG.topic] == {"cleanup.policy": "compact", "segment.ms": "7"}
    assert new.admin.commits["app"] == {IN: 0, RAW: 0}
    assert new.admin.noted == {f"snapkafka:{done.plan}"}
    state = new.state
    assert state.restores.open is None
    assert not list(state.living()), "the tool has left"
    assert {base.elsewhere for base in state.restores.bases.values()} == {True}


async def test_what_is_appended_is_stamped_by_the_new_ledger_and_keeps_headers_and_times(new: New) -> None:
    done = await new.restore()
    for seq, record in enumerate(new.log.records[IN]):
        stamp = wire.read(record.headers[-1][1] or b"", LEDGER, wire.tp_check(*IN))
        assert stamp is not None
        assert (stamp.process, stamp.seq, stamp.epoch) == (done.author, seq, 0)
        assert record.headers[:2] == (("trace", b"7"), ("trace", None))
        assert record.timestamp_ms < 2_000


async def test_the_plan_lists_what_is_created_and_what_is_not_there_and_changes_nothing(new: New) -> None:
    captured = dataclasses.replace(
        new.old.manifest.captured, uncaptured=(Uncaptured(app="app", what="a counter in a module"),)
    )
    save(new.old, dataclasses.replace(new.old.manifest, captured=captured))
    before = new.fingerprint()
    plan = await new.plan()
    assert new.fingerprint() == before
    assert not plan.refused
    assert sorted(it.topic for it in plan.topics) == sorted(tp.topic for tp in ALL)
    assert (plan.messages, plan.state, plan.existing) == (2, 3, ())
    absent = {it.topic: (it.start, it.cut_end, it.unread) for it in plan.absent}
    assert absent == {"in": (1, 4, 3), "raw": (2, 4, 2)}
    said = " / ".join(plan.notes)
    assert "outputs begin empty: out;" in said
    assert "no settings are recorded for raw:" in said
    assert "the code of app has not run here" in said
    assert "app: a counter in a module" in said


STEPS = (
    "topics", "silence", "author", "quiet", "channels", "state", "read back", "compare", "ready", "groups", "done",
)  # fmt: skip


class CrashError(Exception):
    """The tool is killed here."""


async def test_every_step_is_reached(new: New) -> None:
    reached: list[str] = []
    await new.restore(crash=reached.append)
    assert tuple(dict.fromkeys(reached)) == ("begun", *STEPS)


@pytest.mark.parametrize("step", STEPS)
async def test_after_a_crash_at_any_step_the_same_command_finishes_it(new: New, step: str) -> None:
    def crash(at: str) -> None:
        if at == step:
            raise CrashError

    with pytest.raises(CrashError):
        await new.restore(crash=crash)
    restores = new.state.restores
    first = restores.open
    assert first is not None
    assert restores.holds("app") is first, "workers wait"
    done = await new.restore()
    assert (done.plan, done.resumed) == (first.plan, True)
    as_in_the_snapshot(new)


@pytest.mark.parametrize("number", range(6))
async def test_after_a_crash_between_any_two_appends_it_is_finished(new: New, number: int) -> None:
    count = 0

    def crash(record: object) -> None:
        nonlocal count
        if count == number:
            raise CrashError
        count += 1

    new.log.appended = crash
    with pytest.raises(CrashError):
        await new.restore()
    new.log.appended = lambda record: None
    await new.restore()
    as_in_the_snapshot(new)


@pytest.mark.parametrize("step", ["silence", "channels", "ready"])
async def test_what_producers_send_meanwhile_is_taken_once_and_behind(new: New, step: str) -> None:
    """They connect to the new cluster while the tool works, is killed, and is run again."""

    def crash(at: str) -> None:
        if at == step:
            new.log.put(IN, b"e", b"meanwhile")
            new.log.put(RAW, b"e", b"raw, meanwhile")
            raise CrashError

    with pytest.raises(CrashError):
        await new.restore(crash=crash)
    new.log.put(IN, b"e", b"then")
    done = await new.restore()
    new.log.put(IN, b"e", b"later")
    assert done.inputs == 3
    assert new.taken("a") == [b"one", b"three", b"meanwhile", b"then", b"later"]
    assert new.taken("b") == [b"three", b"meanwhile", b"then", b"later"]
    assert new.taken("c", RAW) == [b"raw, meanwhile"]


async def test_one_that_was_appended_between_those_of_the_restore_is_taken(new: New) -> None:
    def beside(record: Any) -> None:
        if record.value == b"three":
            new.log.appended = lambda it: None
            new.log.put(IN, b"e", b"beside")

    new.log.appended = beside
    await new.restore()
    assert new.taken("a") == [b"one", b"beside", b"three"]
    assert new.taken("b") == [b"beside", b"three"]


async def test_keys_that_a_first_run_has_written_and_a_second_leaves_out_are_deleted(new: New) -> None:
    def crash(at: str) -> None:
        if at == "ready":
            raise CrashError

    with pytest.raises(CrashError):
        await new.restore(crash=crash)
    done = await new.restore(suppress=Suppression(keys=("x",)))
    assert done.suppressed == 1
    assert new.folded() == ({b'"y"': b"2"}, {1, 2})


# -- why not ------------------------------------------------------------------------------------------------------


def _open_another(new: New) -> None:
    new.ledger.exists = True
    new.ledger.put(Restore(n=1, plan="other", stage="begun", snapshot="monday", apps=("app",)))


def _of_this_cluster(new: New) -> None:
    new.ledger.exists = True
    ledger = dataclasses.replace(new.old.manifest.ledger, topic_id=NEW_ID)
    save(new.old, dataclasses.replace(new.old.manifest, ledger=ledger))


def _with_small_records(new: New) -> None:
    new.admin.topics["in"] = FakeTopic(1)
    new.admin.settings["in"] = {"max.message.bytes": "10"}


def _with_a_record(new: New) -> None:
    new.admin.topics["raw"] = FakeTopic(1)
    new.log.put(RAW, b"", b"")


def _with_code(new: New, hello: Hello) -> None:
    new.ledger.exists = True
    new.ledger.put(None)
    new.ledger.put(hello)


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("verdict", lambda it: save(it.old, dataclasses.replace(it.old.manifest, verdict="UNVERIFIABLE"))),
        ("files", lambda it: next(iter(Path(it.old.store.root).rglob("*.parquet"))).write_bytes(b"")),
        ("topic-not-empty", _with_a_record),
        ("partitions-changed", lambda it: it.admin.topics.update(raw=FakeTopic(3))),
        ("group-has-members", lambda it: it.admin.member_counts.extend([2] * 99)),
        ("plan-open", _open_another),
        ("same-cluster", _of_this_cluster),
        ("table-missing", lambda it: _with_code(it, dataclasses.replace(HELLO, tables=HELLO.tables[:1]))),
        ("record-too-large", _with_small_records),
    ],
)
async def test_a_refusal_names_its_reason_and_changes_nothing(new: New, code: str, change: Any) -> None:
    change(new)
    before = new.fingerprint()
    with pytest.raises(RestoreRefusedError, match=rf"nothing was changed: .*\({code}\)"):
        await new.restore()
    assert new.fingerprint() == before


async def test_a_cluster_into_which_it_was_restored_is_refused(new: New) -> None:
    await new.restore()
    before = new.fingerprint()
    with pytest.raises(RestoreRefusedError, match=r"\(restored-already\)"):
        await new.restore()
    assert new.fingerprint() == before


async def test_topics_that_are_there_and_empty_are_taken_as_they_are(new: New) -> None:
    new.admin.topics[OUT.topic] = FakeTopic(1)
    done = await new.restore()
    assert OUT.topic not in done.topics
    as_in_the_snapshot(new)


async def test_a_topic_that_somebody_else_creates_otherwise_ends_it_before_anything_is_appended(
    new: New,
) -> None:
    new.admin.other = {IN.topic: 3}
    with pytest.raises(RestoreFailedError, match="with 3 partitions instead of 1"):
        await new.restore()
    assert not any(new.log.records.values())


async def test_without_a_storage_it_cannot_begin(new: New) -> None:
    with pytest.raises(BadInputError, match="where the tables"):
        await new.restore(storage="")


async def test_a_setting_that_the_new_brokers_do_not_know_is_a_reason_before_anything_is_written(
    new: New,
) -> None:
    topics = (
        *new.old.manifest.topics[1:],
        dataclasses.replace(new.old.manifest.topics[0], settings={"no.such.setting": "1"}),
    )
    save(new.old, dataclasses.replace(new.old.manifest, topics=topics))
    before = new.fingerprint()
    with pytest.raises(RestoreRefusedError, match=r"Unknown topic config name \(topic-refused\)"):
        await new.restore()
    assert new.fingerprint() == before


async def test_what_the_defaults_of_the_new_brokers_would_delete_is_kept_and_listed(new: New) -> None:
    """Messages of 1970, a topic without settings of its own, and Kafka's seven days."""
    topics = tuple(dataclasses.replace(it, settings={}) for it in new.old.manifest.topics)
    save(new.old, dataclasses.replace(new.old.manifest, topics=topics))
    planned = await new.plan()
    changed = {it.topic: it.changed for it in planned.topics}
    assert changed["in"] == {"retention.ms": "-1"}
    assert changed[LOG.topic] == {"cleanup.policy": "compact"}, (
        "a changelog is compacted, whatever was recorded"
    )
    await new.restore()
    holding, _ = await new.admin.topic_settings("in")
    assert (holding["cleanup.policy"], holding["retention.ms"]) == ("delete", "-1")
    assert (await new.admin.topic_settings(LOG.topic))[0]["cleanup.policy"] == "compact"


async def test_a_topic_that_was_there_with_other_settings_is_changed_before_it_is_written(new: New) -> None:
    """Created empty by somebody else between plan and work: what holds is read once it exists."""

    def crash(at: str) -> None:
        if at == "topics":
            new.admin.topics["in"] = FakeTopic(1, "c" * 32)
            new.admin.settings["in"] = {"cleanup.policy": "delete", "retention.ms": "1000"}

    done = await new.restore(crash=crash)
    assert (await new.admin.topic_settings("in"))[0]["retention.ms"] == "-1"
    assert any("topic in got retention.ms=-1" in note for note in done.notes)


async def test_a_rerun_is_not_refused_for_what_its_first_run_created(new: New) -> None:
    topics = tuple(dataclasses.replace(it, settings={}) for it in new.old.manifest.topics)
    save(new.old, dataclasses.replace(new.old.manifest, topics=topics))

    def crash(at: str) -> None:
        if at == "ready":
            raise CrashError

    with pytest.raises(CrashError):
        await new.restore(crash=crash)
    assert (await new.plan()).refusals == ()
    await new.restore()
    as_in_the_snapshot(new)
