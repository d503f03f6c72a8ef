"""`doctor`: each thing that would spoil a snapshot is found; what would not is no finding."""

# mypy: disable-error-code="func-returns-value"
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka import HOLDER
from snapkafka.ops import pruning
from snapkafka.ports import Group, Member, Topic
from snapkafka.protocol import (
    REMOTE,
    RESTORE,
    CheckResult,
    Hello,
    InputTopic,
    LogEnd,
    Report,
    Restore,
    Table,
    TopicPartition,
    Verdict,
)
from snapkafka.protocol.offsets import SentEnd
from snapkafka.protocol.records import Assigned, Bye, Dead, Pause, Retire, Trigger
from snapkafka.restore.steps import APP as AUTHOR
from snapkafka.wire import headers as wire
from tests.worlds.fakes import FakeCluster, Worker, fake_group

LOG = "shop-stock-changelog"
STOCK = Table(name="stock", changelog=LOG, partitions=4, copartitioned=True)
SETS = Table(name="stock", changelog=LOG, partitions=4, sets=True)
WINDOWED = Table(name="stock", changelog=LOG, partitions=4, expires_ms=10_000)
COMPACTED = {"cleanup.policy": "compact", "min.compaction.lag.ms": "7200000"}
BRIEF = COMPACTED | {"cleanup.policy": "compact,delete", "retention.ms": "10000"}
FOREVER = {"cleanup.policy": "delete", "retention.ms": "-1"}


class Shop(FakeCluster):
    """A healthy cluster of an app with one input and one table, of four partitions each."""

    def __init__(self) -> None:
        super().__init__()
        self.the_admin.topics = {"orders": Topic(4), LOG: Topic(4)}
        self.the_admin.settings[LOG] = dict(COMPACTED)
        self.groups(fake_group("shop", frozenset({"orders"})))

    def join(self, app: str = "shop", release: str = "1.0", **changes: Any) -> int:
        given: dict[str, Any] = {"inputs": inputs(orders=4), "tables": (STOCK,)} | changes
        number = len(self.the_ledger.entries)
        process = self.put(Hello(n=number, app=app, release=release, **given))
        tps = [TopicPartition(it.topic, p) for it in given["inputs"] for p in range(it.partitions)]
        if tps and given.get("mode") != "stamp":
            self.put(
                Assigned(process=process, n=number, generation=1, inputs=tuple(tps), member=f"m{process}")
            )
        return process

    def put(self, record: Any) -> int:
        return self.the_ledger.put(record)

    def leave(self, **more: Any) -> None:
        self.put(Bye(process=self.join(), n=2, **more))

    def groups(self, *groups: Group) -> None:
        self.the_admin.known_groups = list(groups)

    def settings(self, topic: str, **settings: str) -> None:
        self.the_admin.settings[topic] = {name.replace("_", "."): value for name, value in settings.items()}

    def topic(self, name: str, partitions: int) -> None:
        self.the_admin.topics[name] = Topic(partitions)

    async def found(self, **options: Any) -> set[str]:
        """Each finding, as weight and code."""
        found = await ops.doctor(self, "ns", **options)
        assert AUTHOR not in found.apps
        assert found.well == all(advice.weight != "problem" for advice in found.found)
        return {f"{advice.weight} {advice.code}" for advice in found.found}


def inputs(**partitions: int) -> tuple[InputTopic, ...]:
    return tuple(
        InputTopic(topic=name.replace("_", "-"), partitions=count) for name, count in partitions.items()
    )


def members(name: str, *topics: str, number: int = 0) -> Group:
    return fake_group(name, frozenset(topics), tuple(map(str, range(number))))


def with_log(shop: Shop, settings: dict[str, str], table: Table = STOCK) -> None:
    shop.join(tables=(table,))
    shop.the_admin.settings[LOG] = settings


def unauthorized(shop: Shop) -> None:
    shop.join()
    shop.the_admin.failure = LedgerUnusableError("not allowed", hint="grant DESCRIBE")


def writes_bills(shop: Shop) -> None:
    """As far as snapshots tell: what each process has written to stands in its `Report`."""
    Worker(shop.the_ledger, "shop", "orders", partitions=4, sends=("bills", "orders"))
    shop.put(Trigger(n=90, id="s"))


def with_hits(shop: Shop, partitions: int) -> None:
    shop.topic("hits", 2)
    shop.settings("hits", **FOREVER)
    shop.join(tables=(Table(name="hits", changelog="hits", partitions=partitions, is_global=True),))


def gone_app(shop: Shop, number: int) -> None:
    """Another app runs; `shop` has left, and its group has so many members."""
    shop.join("other", inputs=inputs(parcels=1), tables=())
    shop.topic("parcels", 1)
    shop.leave()
    shop.groups(members("shop", "orders", number=number))


def killed(shop: Shop, *members: str) -> None:
    """A process of `shop` was declared dead, another one has left; its group has these members."""
    shop.put(Dead(n=5, dead=shop.join()))
    gone_app(shop, 0)
    shop.groups(fake_group("shop", frozenset({"orders"}), members))


def readers(shop: Shop) -> None:
    shop.join()
    others = [members("reports", "orders", "other"), members("elsewhere", "other")]
    shop.groups(members("shop", "orders", number=3), *others, members("snapkafka.ns.shop", "orders"))


WAITS = Hello(n=9, app="shop", inputs=(InputTopic(topic="orders", partitions=4),))
RESTORED = Restore(n=9, plan="r", stage="begun", snapshot="s", apps=("shop",))
OTHERS = replace(RESTORED, apps=("other",))
HELD = Group("shop", frozenset(), [Member("h", HOLDER, "/box")])
PART = {"cleanup.policy": "compact,delete"}
#: What was done to a cluster of which nobody has joined, and what is found then.
CASES: dict[str, tuple[Callable[[Shop], Any], set[str]]] = {
    "nobody": (lambda it: None, {"problem nobody"}),
    "healthy": (lambda it: it.join(), set()),
    "an input was missing": (lambda it: it.join(missing=("to-pay",)), {"problem topic-unread"}),
    "a worker has it": (
        lambda it: (it.join(missing=("to-pay",)), it.topic("to-pay", 1), it.join(inputs=inputs(orders=4, to_pay=1))),
        set(),
    ),
    "an app is stopped": (lambda it: gone_app(it, 0), {"note stopped"}),
    "R10: an app runs without snapkafka": (lambda it: gone_app(it, 1), {"problem app-runs-without"}),
    "its only worker was killed": (lambda it: killed(it, "m0"), {"problem still-counted"}),
    "it was declared dead and runs on": (
        lambda it: (killed(it, "m0"), it.put(Bye(process=0, n=6, goes_on=True))),
        {"problem app-runs-without"},
    ),
    "others of it run without": (lambda it: killed(it, "m0", "m9"), {"problem app-runs-without"}),
    "one of its workers was killed": (lambda it: (killed(it, "m0", "m5"), it.join()), {"problem still-counted"}),
    "a restore holds its group": (
        lambda it: (gone_app(it, 0), it.put(RESTORED), it.groups(HELD)), {"note restoring"},
    ),
    "only a restore of another app runs": (
        lambda it: (it.leave(), it.groups(), it.put(OTHERS), it.join(AUTHOR, mode=RESTORE, inputs=(), tables=())),
        {"note restoring"},
    ),
    "a restore was killed, and its app runs": (
        lambda it: (gone_app(it, 1), it.put(RESTORED)), {"note restoring", "problem app-runs-without"},
    ),
    "a new worker waits for its inputs": (lambda it: it.put(WAITS), {"problem input-unassigned"}),
    "retired, its group is another's": (lambda it: (gone_app(it, 1), it.put(Retire(n=3, app="shop"))), set()),
    "paused": (lambda it: (it.join(), it.put(Pause(n=9, paused=True))), {"problem paused"}),
    "two releases": (lambda it: (it.join(), it.join(release="1.1")), {"note releases"}),
    "headers alone": (lambda it: (it.join(), it.join(mode="stamp")), {"warning stamp-only"}),
    "an in-memory channel": (lambda it: it.join(uncaptured=("a channel",)), {"warning not-captured"}),
    "the ledger has garbage": (lambda it: (it.join(), it.put(None)), {"note ledger-garbage"}),
    "robinhood/faust#137, #325": (lambda it: (it.topic(LOG, 6), it.join()), {"problem partition-counts"}),
    "a table that needs no source": (
        lambda it: (it.topic(LOG, 6), it.join(tables=(replace(STOCK, copartitioned=False),))), set(),
    ),
    "a topic is gone, another has grown": (
        lambda it: it.join(inputs=inputs(orders=3, gone=4)), {"problem topic-missing", "warning partitions-added"},
    ),
    "a process without Kafka reads what is added": (
        lambda it: it.join(mode=REMOTE, inputs=inputs(orders=3)), set(),
    ),
    "an input is deleted too soon by age or size": (
        lambda it: (it.join(), it.settings("orders", retention_ms="60000", retention_bytes="1000000")),
        {"problem retention", "warning retention-bytes"},
    ),
    "windows outlive their changelog": (lambda it: with_log(it, BRIEF, WINDOWED), {"problem retention"}),
    "a changelog that outlives its windows": (
        lambda it: with_log(it, BRIEF | {"retention.ms": "3610000"}, WINDOWED), set(),
    ),
    "sets are deleted": (lambda it: with_log(it, {"cleanup.policy": "delete"}, SETS), {"problem state-deleted"}),
    "sets are compacted": (lambda it: with_log(it, {"cleanup.policy": "compact"}, SETS), {"problem sets-compacted"}),
    "sets are kept": (lambda it: with_log(it, FOREVER, SETS), set()),
    "sets are kept up to a size": (
        lambda it: with_log(it, FOREVER | {"retention.bytes": "9"}, SETS), {"problem state-deleted"},
    ),
    "state is compacted and deleted": (lambda it: with_log(it, PART), {"problem state-deleted"}),
    "state is kept": (lambda it: with_log(it, FOREVER), set()),
    "compaction comes before assembly": (
        lambda it: with_log(it, {"cleanup.policy": "compact"}), {"warning compaction"},
    ),
    "members without snapkafka, and other readers": (readers, {"problem members-without", "note external-reader"}),
    "another reads the outputs": (
        lambda it: (writes_bills(it), it.groups(members("printers", "bills"))), {"note external-output-reader"},
    ),
    "unauthorized": (unauthorized, {"warning settings-unseen", "warning groups-unseen"}),
    "a process stood down": (
        lambda it: (it.leave(goes_on=True, reason="failed"), it.groups()), {"problem nobody", "problem stood-down"},
    ),
    "it was restarted": (lambda it: (it.leave(goes_on=True, reason="failed"), it.join()), set()),
    "a global table of several partitions": (lambda it: with_hits(it, 2), {"warning global-partitions"}),
    "a global table of one": (lambda it: with_hits(it, 1), set()),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
async def test_what_is_found(case: str) -> None:
    shop = Shop()
    change, expected = CASES[case]
    change(shop)
    before = len(shop.the_ledger.entries)
    assert await shop.found() == expected
    assert len(shop.the_ledger.entries) == before, "it was asked, not tried"


#: What was done to a healthy cluster, and what the command says that fixes it.
FIXES: list[tuple[Callable[[Shop], Any], str]] = [
    (lambda it: with_log(it, {"cleanup.policy": "delete"}, SETS), "retention.ms=-1"),
    (lambda it: with_log(it, {"cleanup.policy": "compact"}, SETS), "cleanup.policy=delete,retention.ms=-1"),
    (lambda it: with_log(it, {"cleanup.policy": "delete"}), "cleanup.policy=compact,min.compaction.lag"),
    (lambda it: with_log(it, FOREVER | {"retention.bytes": "9"}, SETS), "retention.bytes=-1"),
    (lambda it: with_log(it, BRIEF, WINDOWED), "retention.ms=3610000"),
    (lambda it: (it.topic(LOG, 6), it.join()), "--topic orders --partitions 6"),
    (lambda it: (it.topic(LOG, 2), it.join()), f"--topic {LOG} --partitions 4"),
]


@pytest.mark.parametrize(("change", "fix"), FIXES)
async def test_a_finding_has_the_command_that_fixes_it_and_the_one_that_undoes_that(
    change: Callable[[Shop], Any], fix: str
) -> None:
    shop = Shop()
    change(shop)
    (advice,) = (await ops.doctor(shop, "ns")).found
    assert fix in advice.command
    name, *_ = fix.rpartition(",")[2].partition("=")
    if name in shop.the_admin.settings[LOG]:
        assert f"--add-config {name}={shop.the_admin.settings[LOG][name]}" in advice.undo
    assert advice.command != advice.undo
    assert (advice.undo != "") == ("--add-config" in advice.command)


async def test_a_checkpoint_is_proposed_when_it_would_remove_many_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records of the last hour stay: a ledger that is written to a lot is not reported for ever."""
    shop = Shop()
    shop.join()
    entries = shop.the_ledger.entries
    monkeypatch.setattr(pruning, "DUE", len(entries) - 1)
    an_hour_later = entries[-1].timestamp_ms + pruning.KEEP_MS
    assert await shop.found(clock=lambda: an_hour_later) == {"warning ledger-long"}
    assert await shop.found(clock=lambda: an_hour_later - 1) == set()
    await ops.checkpoint(shop, "ns", now_ms=an_hour_later)
    assert await shop.found(clock=lambda: an_hour_later) == set(), "what it kept is in it"


async def test_an_agent_that_stands_while_its_input_grows_is_named() -> None:
    """Each snapshot of it is consistent: nothing happens. What grows by markers alone is idle."""
    shop = Shop()
    worker = Worker(shop.the_ledger, "shop", "orders", partitions=4, sends=("orders",))
    shop.the_admin.ends = {TopicPartition("orders", partition): 60 for partition in range(4)}
    for position, end, more, stands in ((10, 12, 0, 0), (10, 12, 1, 0), (10, 50, 0, 1), (11, 60, 0, 0)):
        worker.position, worker.marker, number = position, 12, len(shop.the_ledger.entries)
        ends = tuple(LogEnd(topic="orders", partition=it, end=end + more * (it == 0)) for it in range(4))
        shop.put(Trigger(n=number, id=f"s{number}", ends=ends))
        assert ("warning agent-stands" in await shop.found()) == stands


async def test_a_topic_on_whose_way_headers_are_removed_is_named() -> None:
    """By the last record that a process reports as acknowledged, at the very offset; what is gone tells nothing."""
    shop = Shop()
    process, admin, tp = shop.put(WAITS), shop.the_admin, TopicPartition("orders", 1)
    epoch = shop.put(Trigger(n=90, id="s", attempt=1)) + 1
    sent = SentEnd(topic="orders", partition=1, white_end=8, last_seq=3, marker=-1)
    theirs = replace(sent, topic="bills")  # nobody reads it
    of: dict[str, Any] = {"process": process, "epoch": epoch, "heard": "ledger", "sent": (sent, theirs)}
    shop.put(Report(n=92, previous=0, assigned=-1, positions=(), **of))
    admin.ends |= {TopicPartition(topic, part): 9 for topic in ("orders", "bills") for part in range(4)}
    admin.headers_at[TopicPartition("bills", 1), 7] = []

    async def lost() -> bool:
        return "problem headers-lost" in await shop.found()

    assert not await lost(), "it is gone from the log"
    admin.headers_at[tp, 7] = [("other", b""), ("_sk", wire.stamp(1, 2, 3, 4, 5))]
    assert not await lost()
    admin.headers_at[tp, 7] = [("other", b"")]
    assert await lost()
    admin.ends[tp] = 7
    assert not await lost(), "the topic was recreated"


async def test_keys_in_several_partitions_are_those_of_the_newest_verdict() -> None:
    shop = Shop()
    Worker(shop.the_ledger, "shop", "orders", partitions=4)
    for number, notes in enumerate([("table stock of shop: 1 key lies in several partitions",), ()]):
        taken = await ops.trigger(shop, "ns", snapshot_id=f"s{number}", wait=True)
        checks = (CheckResult(name="V3", status="passed", remarks=notes),)
        shop.put(Verdict(n=80 + number, epoch=taken.epoch, verdict="VERIFIED", checks=checks))
        assert ("warning split-keys" in await shop.found()) == bool(notes)
