"""Invariants in the ledger: which hold, where one broke first, its rows, its metrics, and what is printed."""

import dataclasses
import json
from pathlib import Path

import msgspec
import pytest

from snapkafka import ops
from snapkafka.errors import BadInputError
from snapkafka.manifest import CheckEntry, WitnessEntry, dump
from snapkafka.ops import Holding
from snapkafka.ops.pruning import snapshots_in_use
from snapkafka.ops.watching import WATCHED_IN, prove_violations, violations_in
from snapkafka.ports import Topic
from snapkafka.protocol import CheckResult, Verdict
from snapkafka.protocol.records import SENT_BARE, Abort, Trigger
from tests.unit.base.test_manifest import example
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import served

#: In a verdict: of V1, and the rows that violate invariant `money`; None: its query failed. Then why the snapshot is
#: contaminated.
Judged = tuple[str, int | None] | tuple[str, int | None, str]


class Ledger:
    """A ledger with snapshots `s0`, `s1` ... that have evaluated invariant `money`."""

    def __init__(self, folder: Path, *rounds: Judged) -> None:
        self.cluster, self.folder, self.count = FakeCluster(), folder, 0
        Worker(self.cluster.the_ledger, "bank", "orders")
        for of in rounds:
            self.take(*of)

    def take(self, v1: str, found: int | None, contaminated: str = "", *, name: str = "money") -> None:
        """Take a snapshot and judge it, as the job does."""
        ledger, number = self.cluster.the_ledger, self.count
        self.count += 1
        place = self.folder / f"s{number}.json"
        epoch = ledger.put(Trigger(n=5_000 + number, id=place.stem, storage=str(self.folder))) + 1
        status = "unverifiable" if found is None else "failed" if found else "passed"
        verdict = next(it for of, it in VERDICTS.items() if of in (v1, status))
        rows = tuple(
            WitnessEntry(topic="orders", partition=0, offset=row, what=json.dumps({"row": row, "of": number}))
            for row in range(found or 0)
        )
        entry = CheckEntry(name=f"V6 {name}", run=True, status=status, found=found or 0, witnesses=rows)
        manifest = dataclasses.replace(
            example(), id=place.stem, epoch=epoch, verdict=verdict, checks=(entry,)
        )
        place.write_text(dump(manifest), "utf-8")
        if contaminated:
            ledger.put(Abort(n=6_000 + number, epoch=epoch, code=SENT_BARE, reason=contaminated))
        own = CheckResult(name=entry.name, status=status, found=found or 0)
        checks = (CheckResult(name="V1", status=v1), own)
        ledger.put(
            Verdict(n=7_000 + number, epoch=epoch, verdict=verdict, checks=checks, manifest=str(place))
        )

    async def listed(self) -> ops.Invariant:
        (found,) = await ops.invariants(self.cluster, "ns")
        return found


#: By the worst of its checks.
VERDICTS = {"failed": "INCONSISTENT", "unverifiable": "UNVERIFIABLE", "passed": "VERIFIED"}
H, V, U = Holding.HOLDS, Holding.VIOLATED, Holding.UNPROVEN
OK: Judged = ("passed", 0)


@pytest.mark.parametrize(
    ("rounds", "holding", "last", "last_ok", "broke", "now", "since"),
    [
        ([OK, OK], [H, H], "s1", "s1", None, H, None),
        ([OK, ("passed", 2), ("passed", 3)], [H, V, V], "s2", "s0", "s1", V, None),
        ([("passed", 1), OK, ("passed", 2), OK], [V, H, V, H], "s3", "s3", "s2", H, None),
        # Rows of a snapshot that the log contradicts, or cannot prove, are rows of no instant.
        ([OK, ("failed", 2)], [H, U], "s0", "s0", None, U, "s1"),
        ([OK, ("unverifiable", 0)], [H, U], "s0", "s0", None, U, "s1"),
        ([OK, ("unverifiable", 2)], [H, U], "s0", "s0", None, U, "s1"),
        ([OK, ("passed", 2, "a process forgot its colour")], [H, U], "s0", "s0", None, U, "s1"),
        ([("passed", 2), ("failed", 0), ("passed", 4)], [V, U, V], "s2", None, "s0", V, None),
        ([("passed", 2), ("passed", None)], [V, U], "s0", None, "s0", V, "s1"),
        ([("passed", None)], [U], None, None, None, U, "s0"),
        ([OK, ("passed", None), ("passed", None)], [H, U, U], "s0", "s0", None, U, "s1"),
        ([OK, ("passed", None), OK], [H, U, H], "s2", "s2", None, H, None),
    ],
)
async def test_where_it_holds_and_where_it_broke_first(
    tmp_path: Path,
    rounds: list[Judged],
    holding: list[Holding],
    last: str | None,
    last_ok: str | None,
    broke: str | None,
    now: Holding,
    since: str | None,
) -> None:
    """In the history, and in the list; what is not evaluated any more does not hold, whatever it was before."""
    ledger = Ledger(tmp_path, *rounds)
    (found,) = await ops.invariants(ledger.cluster, "ns", "money")
    assert [item.holding for item in reversed(found.evaluations)] == holding
    first = next(iter(found.violations), None)
    listed = await ledger.listed()
    named = (
        found.last,
        found.last_ok,
        first,
        listed.last,
        listed.last_ok,
        listed.not_evaluated_since,
        listed.broke,
    )
    ids = [item.id if item else None for item in named]
    assert ids == [last, last_ok, broke, last, last_ok, since, broke if now is V else None]
    assert (listed.name, listed.holding) == ("money", now)


async def test_the_service_and_its_metrics_have_what_is_not_evaluated_any_more(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, OK, ("passed", None))
    with served(ledger.cluster) as client:
        text = client.get("/metrics").text
        assert "snapkafka_invariant_violations{" not in text
        named = "snapkafka_invariant_not_evaluated_since_timestamp_seconds"
        assert [line for line in text.splitlines() if line.startswith(f"{named}{{")]
        answer = client.get("/v1/invariants").content
    listed = msgspec.json.encode((await ledger.listed()).listed())
    assert msgspec.json.decode(answer) == {"invariants": [msgspec.json.decode(listed)]}


async def test_one_that_cannot_be_evaluated_leaves_the_others(tmp_path: Path) -> None:
    """The snapshot is UNVERIFIABLE, or INCONSISTENT, by its invariants alone."""
    checks = [
        CheckEntry(name="V1", run=True, status="passed"),
        CheckEntry(name="V6 odd", run=True, status="unverifiable"),
    ]
    broken = CheckEntry(name="V6 money", run=True, status="failed", found=1)
    left_out = CheckEntry(name="V3", run=False, status="not-run")
    assert [it.name for it in violations_in("s", "INCONSISTENT", [*checks, broken, left_out], "")] == [
        "money"
    ]
    assert prove_violations("UNVERIFIABLE", checks, "")
    assert not prove_violations("UNVERIFIABLE", checks, "a process forgot its colour")
    assert not prove_violations("UNVERIFIABLE", [CheckEntry(name="V1", run=True, status="unverifiable")], "")


async def test_the_history_has_the_rows_of_the_first_violation_and_of_the_newest(tmp_path: Path) -> None:
    """As long as their files are there; it outlives them."""
    cluster = Ledger(tmp_path, ("passed", 0), ("passed", 2), ("passed", 1), ("passed", 3)).cluster
    (found,) = await ops.invariants(cluster, "ns", "money")
    rows = {item.id: [json.loads(row.what) for row in item.rows] for item in found.evaluations}
    assert rows == {
        "s0": [],
        "s1": [{"row": row, "of": 1} for row in range(2)],
        "s2": [],
        "s3": [{"row": row, "of": 3} for row in range(3)],
    }
    with pytest.raises(BadInputError, match="'stock'"):
        await ops.invariants(cluster, "ns", "stock")
    (tmp_path / "s1.json").unlink()
    (found,) = await ops.invariants(cluster, "ns", "money")
    assert found.broke is not None and (found.broke.id, found.broke.rows) == ("s1", ())
    assert f"{tmp_path}/s1.json" in found.broke.unreadable
    assert found.last is not None and (len(found.last.rows), found.last.unreadable) == (3, "")


async def test_the_snapshot_in_which_an_invariant_broke_first_is_not_pruned_while_it_is_violated(
    tmp_path: Path,
) -> None:
    ledger = Ledger(tmp_path, OK, ("passed", 2), ("passed", 3))
    ledger.cluster.the_admin.topics = {"_snapkafka.ns": Topic(1)}
    (why,) = (await snapshots_in_use(ledger.cluster, ["ns"])).why.items()
    assert why == ("s1", "invariant money is first violated in it")
    ledger.take("passed", 0)
    assert (await snapshots_in_use(ledger.cluster, ["ns"])).why == {}


def test_the_service_has_the_rows_of_manifests_below_its_roots(tmp_path: Path) -> None:
    cluster = Ledger(tmp_path, ("passed", 0), ("passed", 2), ("passed", 1)).cluster
    for roots, rows in (((str(tmp_path),), [2, 1]), ((), [0, 0])):
        with served(cluster, roots) as client:
            found = client.get("/v1/invariants/money").json()
            assert client.get("/v1/invariants/stock").status_code == 400
        assert [it["snapshot_id"] for it in found["evaluations"]] == ["s2", "s1", "s0"]
        assert [(it["snapshot_id"], it["found"]) for it in found["violations"]] == [("s1", 2), ("s2", 1)]
        assert [len(it["rows"]) for it in found["violations"]] == rows
        assert [bool(it["unreadable"]) for it in found["violations"]] == [not many for many in rows]


async def test_a_list_reads_back_to_where_each_holds_and_a_history_as_far_as_it_is_asked(
    tmp_path: Path,
) -> None:
    """One that no newer snapshot evaluates is watched no longer."""
    ledger = Ledger(tmp_path)
    ledger.take("passed", 2, name="old")
    ledger.take("passed", 0)
    for _ in range(WATCHED_IN - 2):
        ledger.take("passed", 3)
    assert [it.name for it in await ops.invariants(ledger.cluster, "ns")] == ["money", "old"]
    ledger.take("passed", 3)
    assert [it.name for it in await ops.invariants(ledger.cluster, "ns", "old")] == ["old"]
    (violated,) = ops.invariants_in(await ops.read_ledger(ledger.cluster, "ns"))
    assert violated.last_ok is not None and violated.last_ok.id == "s1"
    assert violated.broke is not None and violated.broke.id == "s2"
    ledger.take("passed", 0)
    ledger.take("passed", 0)
    reading = await ops.read_ledger(ledger.cluster, "ns")
    (holding,) = ops.invariants_in(reading)
    assert [item.id for item in holding.evaluations] == [f"s{WATCHED_IN + 2}"]
    assert len(ops.history_in(reading, "money", most=2).evaluations) == 2
    assert len(ops.history_in(reading, "money").evaluations) == WATCHED_IN + 2
