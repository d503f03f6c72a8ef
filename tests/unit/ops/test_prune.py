"""`prune`: what may go and what never does, and that nothing of anybody else's is touched."""

import dataclasses
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from snapkafka import manifest as manifests
from snapkafka import ops
from snapkafka.errors import BadInputError, BrokerUnavailableError, StorageError
from snapkafka.manifest import FileEntry, LedgerEntry, Manifest, ParentEntry, Times
from snapkafka.protocol import RESTORE, Fork, Hello, Restore
from snapkafka.query.locate import heads
from tests.unit.base.test_manifest import example
from tests.worlds.fakes import FakeCluster, FakeLedger
from tests.worlds.stores import LocalStore

NOW_MS = 1_800_000_000_000
LEDGER = example().ledger


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def put(
    store: LocalStore,
    snapshot_id: str,
    epoch: int,
    *,
    days_old: float = 0,
    parent: str = "",
    files: tuple[str, ...] = (),
    run: str = "",
    **changes: Any,
) -> Manifest:
    """A snapshot with one table of one file of 100 bytes. `files`: others that its manifest names as well."""
    when = datetime.fromtimestamp(NOW_MS / 1_000 - days_old * 86_400, UTC).isoformat()
    folder = store.root / manifests.file_stem(snapshot_id) / run
    (folder / "state").mkdir(parents=True, exist_ok=True)
    (folder / "state" / "part-00000.parquet").write_text("x" * 100)
    own = (folder / "state" / "part-00000.parquet").relative_to(store.root).as_posix()
    entries = tuple(FileEntry(path=path, bytes=100, rows=1, sha256="0" * 64) for path in (own, *files))
    manifest = dataclasses.replace(
        example(),
        id=snapshot_id,
        epoch=epoch,
        content=f"{epoch:064x}",
        times=Times(assembled_at=when),
        tables=(dataclasses.replace(example().tables[0], files=entries),),
        captured=dataclasses.replace(example().captured, id=snapshot_id, parent=parent),
        parents=(ParentEntry(id=parent, epoch=0, path="", digest=""),) if parent else (),
        **{"verdict": "VERIFIED"} | changes,
    )
    return store.publish(manifest, manifests.file_stem(snapshot_id))


def put_all(store: LocalStore, *names: str) -> None:
    for epoch, name in enumerate(names, 1):
        put(store, name, epoch)


async def plan(store: LocalStore, last: int | None, namespace: str = "") -> ops.Pruning:
    return await ops.plan_pruning(store.uri, ops.Policy(last=last, namespace=namespace))


async def prune(store: LocalStore, last: int) -> ops.Pruning:
    return await ops.prune(store.uri, ops.Policy(last=last), await plan(store, last))


def names(store: LocalStore) -> list[str]:
    return sorted(path.relative_to(store.root).as_posix() for path in store.root.rglob("*") if path.is_file())


# -- the rules -----------------------------------------------------------------------------------------------


def at(name: str, epoch: int, **more: Any) -> Callable[[LocalStore], Manifest]:
    return lambda store: put(store, name, epoch, **more)


OTHER_LEDGER = LedgerEntry(topic=LEDGER.topic, topic_id="1" * 32)
TWO = [
    at("a1", 900, days_old=9, namespace="a"),
    at("a2", 3, days_old=2, namespace="a", ledger=OTHER_LEDGER),
    at("b1", 1, days_old=20, namespace="b"),
    at("b2", 2, days_old=20, namespace="b", verdict="INCONSISTENT"),
]
NAMED = [at("below", 1), at("above", 2, files=("below/state/part-00000.parquet",))]
NEWEST = "newest good snapshot"
#: What is there, how many of the newest are kept of which namespace; what goes, and why others stay.
RULES: dict[str, tuple[list[Any], int, str, list[str], dict[str, str]]] = {
    "the newest good one stays however old": (
        [
            at("older", 1, days_old=90),
            at("good", 2, days_old=80, verdict="VERIFIED_WITH_REPLAYS"),
            at("open", 3, days_old=70, verdict="UNVERIFIABLE"),
            at("bad", 4, days_old=60, verdict="INCONSISTENT"),
        ],
        0, "", ["bad", "open", "older"], {"good": NEWEST},
    ),
    "each namespace counts for itself, each ledger begins with low epochs": (
        TWO, 1, "", ["a1"], {"a2": NEWEST, "b1": NEWEST, "b2": "one of the newest 1"},
    ),
    "one namespace alone": (
        TWO, 0, "b", ["b2"], dict.fromkeys(("a1", "a2"), "of another namespace") | {"b1": NEWEST},
    ),
    "parents of what stays stay, and theirs": (
        [at("root/1", 1), at("middle", 2, parent="root/1"), at("alone", 3), at("tip", 4, parent="middle")],
        1, "", ["alone"], {"tip": NEWEST, "middle": "tip builds on it", "root/1": "middle builds on it"},
    ),
    "files that another names": (NAMED, 1, "", [], {"above": NEWEST, "below": "above builds on it"}),
    "files of nobody that stays": ([*NAMED, at("new", 3)], 1, "", ["above", "below"], {"new": NEWEST}),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
async def test_what_goes_and_why_others_stay(store: LocalStore, rule: str) -> None:
    there, last, namespace, gone, stay = RULES[rule]
    for each in there:
        each(store)
    found = await plan(store, last, namespace)
    assert [item.id for item in found.removed] == gone
    assert {item.id: item.why for item in found.kept} == stay
    own = {it.id: 100 + store.manifest_path(it.id).stat().st_size for it in found.removed}
    assert {it.id: it.bytes for it in found.removed} == own, "not those of others"


async def test_what_to_keep_has_to_be_said_and_every_manifest_can_be_read(store: LocalStore) -> None:
    with pytest.raises(BadInputError):
        await plan(store, None)
    put(store, "old", 1)
    put(store, "new", 2)
    path = store.manifest_path("new")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 9}))
    with pytest.raises(BadInputError):
        await plan(store, 1)
    with pytest.raises(StorageError):
        await ops.plan_pruning(str(store.root / "none"), ops.Policy(last=1))


# -- what restores and forks need ----------------------------------------------------------------------------


class Ledgers(FakeCluster):
    """A cluster with the ledgers of these namespaces, and no other."""

    def __init__(self, *namespaces: str) -> None:
        super().__init__()
        self.add(*namespaces)

    def add(self, *namespaces: str) -> None:
        topics = (f"_snapkafka.{namespace}" for namespace in namespaces)
        self.the_admin.ledgers |= {topic: FakeLedger(topic) for topic in topics}

    def restore(self, *stages: Any, snapshot: str = "tip") -> None:
        """Up to a stage of the plan `r`; its author is the second record."""
        ledger = self.ledger("shop")
        begun = ledger.put(Restore(n=1, plan="r", stage="begun", snapshot=snapshot, apps=("a",)))
        author = ledger.put(Hello(n=2, app="snapkafka-restore", mode=RESTORE))
        assert author == begun + 1
        for n, stage in enumerate(("begun", *stages), 3):
            ledger.put(Restore(n=n, plan="r", stage=stage, snapshot=snapshot, apps=("a",), author=author))

    def fork(self, name: str, source: str, snapshot: str) -> None:
        self.add(f"fork.{name}.{source}")
        record = Fork(n=1, plan="f", fork=name, source=source, snapshot=snapshot, apps=("a",))
        self.ledger(f"fork.{name}.{source}").put(record)


async def stays(store: LocalStore, cluster: Ledgers) -> dict[str, str]:
    found = await ops.plan_pruning(store.uri, ops.Policy(last=1), where=cluster)
    return {item.id: item.why for item in found.kept}


ELSEWHERE = "the ledger of its namespace is not in this cluster"
BELOW = {"root": "tip builds on it"}
#: What is in the ledgers of `shop` and `bank`, and what stays of `shop` for it, but for its newest one.
IN_USE: list[tuple[Callable[[Ledgers], object], dict[str, str]]] = [
    (lambda it: it.restore(), {"tip": "plan r restores it, and is begun"} | BELOW),
    (lambda it: it.restore("appending"), {"tip": "plan r restores it, and is appending"} | BELOW),
    (lambda it: it.restore("done"), {}),
    (lambda it: it.restore("aborted"), {}),
    (lambda it: it.fork("staging", "shop", "tip"), {"tip": "fork staging was created from it"} | BELOW),
    (lambda it: it.fork("demo", "bank", "other"), {"other": "fork demo was created from it"}),
    (lambda it: it.add("fork.new.shop"), {}),
    (
        lambda it: it.the_admin.ledgers.pop("_snapkafka.shop"),
        dict.fromkeys(("root", "tip", "other"), ELSEWHERE),
    ),
]


@pytest.mark.parametrize(("use", "kept"), IN_USE)
async def test_what_restores_and_forks_name_stays_and_what_it_builds_on(
    store: LocalStore, use: Callable[[Ledgers], object], kept: dict[str, str]
) -> None:
    for epoch, (name, parent) in enumerate((("root", ""), ("tip", "root"), ("other", ""), ("new", "")), 1):
        put(store, name, epoch, parent=parent)
    for epoch, name in enumerate(("bank-old", "bank-new"), 1):
        put(store, name, epoch, namespace="bank")
    cluster = Ledgers("shop", "bank")
    use(cluster)
    assert await stays(store, cluster) == dict.fromkeys(("new", "bank-new"), NEWEST) | kept


async def test_ledgers_are_read_only_where_something_would_go(store: LocalStore) -> None:
    put(store, "new", 1)
    cluster = Ledgers("shop")
    cluster.ledger("shop").failure = BrokerUnavailableError("no broker answers")
    assert await stays(store, cluster) == {"new": NEWEST}
    put(store, "old", 0)
    with pytest.raises(BrokerUnavailableError):
        await stays(store, cluster)


async def test_what_is_needed_by_now_stays(store: LocalStore) -> None:
    """Between the question and the answer a restore has begun, one was assembled that builds on another, and one was
    made anew."""
    put_all(store, "parent", "again", "restored", "old", "new")
    cluster, policy = Ledgers("shop"), ops.Policy(last=1)
    planned = await ops.plan_pruning(store.uri, policy, where=cluster)
    assert [item.id for item in planned.removed] == ["old", "restored", "again", "parent"]
    cluster.restore(snapshot="restored")
    put(store, "child", 9, parent="parent")
    put(store, "again", 2, days_old=-1, files=("again/state/more",))
    done = await ops.prune(store.uri, policy, planned, where=cluster)
    assert [item.id for item in done.removed] == ["old"]
    assert {manifest.id for manifest in heads(store)} == {"parent", "again", "restored", "new", "child"}


# -- removing ------------------------------------------------------------------------------------------------


async def test_manifest_files_and_folder_go_and_nothing_else(tmp_path: Path) -> None:
    """A path that leads out of its folder is not followed."""
    store, everywhere = LocalStore(tmp_path / "in"), LocalStore(tmp_path)
    theirs = "new/state/part-00000.parquet"
    put(store, "old", 1, files=("../outside.txt", theirs, f"old/../{theirs}"))
    put(store, "new", 2)
    put(store, "older", 0)
    for name in ("../outside.txt", "notes.txt", "settings.json", "somebody.tmp-backup", "old/state/mine.csv"):
        (store.root / name).write_text("{}")
    (store.root / "copy.json").write_text(store.manifest_path("old").read_text())
    (store.root / "empty").mkdir()
    before = names(everywhere)
    done = await prune(store, last=1)
    assert [item.id for item in done.removed] == ["old", "older"]
    gone = {
        f"in/{name}{rest}" for name in ("old", "older") for rest in (".json", "/state/part-00000.parquet")
    }
    assert {*before} - {*names(everywhere)} == gone
    assert (store.root / "empty").is_dir() and not (store.root / "older").exists()


async def test_the_manifest_goes_first(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before any file is gone: there is no such snapshot any more, and the rest is found a day later."""
    put(store, "old", 1, run=f"run-{'a' * 32}")
    put(store, "new", 2)
    unlink = Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".parquet":
            raise OSError(5, "killed")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(StorageError):
        await prune(store, last=1)
    monkeypatch.undo()
    assert [manifest.id for manifest in heads(store)] == ["new"]
    assert (await plan(store, last=1)).leftovers == (), "somebody may be at work on it"


def age(path: Path, days: float = 1.1) -> None:
    """Make everything there look as old as that."""
    when = time.time() - days * 86_400
    for item in (*path.rglob("*"), path):
        os.utime(item, (when, when))


async def test_leftovers_of_a_killed_assembly_go_after_a_day(store: LocalStore) -> None:
    put(store, "new", 2)
    old, busy = (store.root / "x" / f"run-{digit * 32}" for digit in "ab")
    unwritten = store.root / f"x.json.tmp-{'c' * 32}"
    for folder in (old, busy):
        (folder / "state").mkdir(parents=True)
        (folder / "state" / "part").write_text("1234")
        age(folder)
    (busy / "state" / "part").write_text("written just now")
    unwritten.write_text("{")
    age(unwritten)
    done = await prune(store, last=1)
    assert [(item.name, item.bytes) for item in done.leftovers] == [(unwritten.name, 1), (f"x/{old.name}", 4)]
    assert names(store) == ["new.json", "new/state/part-00000.parquet", f"x/{busy.name}/state/part"]
