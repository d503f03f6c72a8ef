"""Who may write back to inputs what it has read of outputs, without anybody seeing it."""

from dataclasses import replace

import pytest

from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError
from snapkafka.kafka.cluster.external_groups import external_readers, left_open, still_open
from snapkafka.manifest import OpenEntry
from snapkafka.protocol import ChangelogCut, Outsider, ProcessCut, RunsWithout, SenderEnd
from tests.unit.base.test_manifest import example
from tests.worlds.fakes import FakeAdmin, fake_group
from tests.worlds.on_disk import read_up_to


def sent(topic: str, last_seq: int = 0) -> SenderEnd:
    return SenderEnd(process=1, topic=topic, partition=0, white_end=1, last_seq=last_seq)


INPUT = replace(read_up_to("orders", 0, 0), app="shop")
LOG = ChangelogCut(app="shop", table="t", topic="shop-changelog", topic_id="", partition=0, end=1, process=1)
CAPTURED = replace(
    example().captured,
    processes=(ProcessCut(process=1, app="shop"),),
    inputs=(INPUT,),
    senders=(sent("bills"), sent("letters"), sent("shop-changelog"), sent("only-a-marker", last_seq=-1)),
    changelogs=(LOG,),
)


@pytest.mark.parametrize(
    ("group", "reads", "found"),
    [
        ("bank", {"bills", "elsewhere"}, ("bills",)),
        ("bank", {"letters", "bills"}, ("bills", "letters")),
        ("bank", None, ()),  # it may read anything
        ("shop", {"bills"}, None),  # an app of the snapshot
        ("neighbour", {"bills"}, None),  # out of its scope, and it turned red for it all the same
        ("once", {"bills"}, ("bills",)),  # it ran with snapkafka once, and does so no more
        ("snapkafka.ns.shop", {"bills"}, None),  # positions that we have committed ourselves
        ("bank", {"orders"}, None),  # an input that nobody of ours writes to
        ("bank", {"shop-changelog"}, None),
        ("bank", {"only-a-marker"}, None),
        ("archive", {"bills"}, None),  # said to write nothing back
    ],
)
async def test_who_reads_outputs_without_snapkafka(
    group: str, reads: set[str] | None, found: tuple[str, ...] | None
) -> None:
    admin = FakeAdmin(known_groups=[fake_group(group, None if reads is None else frozenset(reads))])
    neighbours = (Outsider(process=2, app="neighbour", cut=True), Outsider(process=3, app="once", left=True))
    seen = await external_readers(admin, replace(CAPTURED, outsiders=neighbours), sinks=["archive"])
    assert seen == (() if found is None else (OpenEntry(group=group, topics=found),))


@pytest.mark.parametrize(
    ("reads", "sinks", "found"),
    [
        (("bills", "orders"), (), ("bills",)),
        ((), (), ()),
        (("orders",), (), None),
        (("bills",), ("relay",), None),
    ],
)
async def test_who_ran_without_taking_part_at_the_trigger_counts_though_it_is_away(
    reads: tuple[str, ...], sinks: tuple[str, ...], found: tuple[str, ...] | None
) -> None:
    captured = replace(
        CAPTURED,
        run_without=(RunsWithout(app="relay", topics=reads),),
        outsiders=(Outsider(process=2, app="relay", cut=True),),  # another worker of it takes part
    )
    for admin in (FakeAdmin(), FakeAdmin(known_groups=[fake_group("relay", frozenset({"bills"}))])):
        seen = await external_readers(admin, captured, sinks=sinks)
        assert seen == (() if found is None else (OpenEntry(group="relay", topics=found),))


@pytest.mark.parametrize("why", [LedgerUnusableError("no right"), BrokerUnavailableError("gone")])
async def test_groups_that_cannot_be_seen_are_no_proof_that_there_are_none(why: Exception) -> None:
    (entry,) = await external_readers(FakeAdmin(failure=why), CAPTURED)
    assert entry == OpenEntry(group="")
    assert "DESCRIBE" in next(left_open([entry], (), (), strict=False))
    assert await external_readers(FakeAdmin(failure=why), CAPTURED, sinks=["*"]) == (), "nobody writes back"


def test_an_earlier_look_counts_unless_it_has_seen_nothing() -> None:
    bank, till, unseen = (OpenEntry(group=name) for name in ("bank", "till", ""))
    assert still_open([bank, till], [till], []) == (bank, till)
    assert still_open([bank, till], [], ["bank"]) == (till,)
    assert still_open([unseen], [till], []) == (till,), "they could not be seen then, and can be now"
    assert still_open([bank], [unseen], []) == (bank, unseen)
    assert still_open([bank], [], ["*"]) == ()
