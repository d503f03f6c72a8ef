"""Real damage on real topics of a real system, made by a foreign producer and by deleting records. The verifier is a
process of its own, with nothing but the manifest and the broker; each damage is found by the right check, at the very
offset."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from aiokafka import AIOKafkaProducer

from snapkafka import ops
from snapkafka.demo import TRANSFERS
from snapkafka.kafka import compose_trigger
from snapkafka.protocol import TopicPartition
from snapkafka.testing import wait_until
from snapkafka.wire import headers as wire
from tests.e2e.parts import Live, assemble, live

HEALTHY = ("healthy-0", "healthy-1", "healthy-2")
#: No process and no epoch of the ledger is as high: red by birth and by header.
BORN_LATER = 1_000_000


def verify(system: Live, *manifests: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit status, and per snapshot its checks by name, from a verifier in a process of its own."""
    arguments = [item for path in manifests for item in ("--manifest", str(path))]
    command = [sys.executable, "-m", "snapkafka.assembly", *arguments, "--bootstrap", system.bootstrap]
    # nothing of the checkout or the storage is near
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")
    assert done.returncode in (0, 30), done.stderr[-3000:]
    found = json.loads(done.stdout)["snapshots"]
    return done.returncode, {it["snapshot_id"]: {of["name"]: of for of in it["checks"]} for it in found}


async def forge(system: Live, tp: TopicPartition, *, epoch: int, process: int, seq: int) -> int:
    """A foreign producer appends a transfer of nothing, with a header that looks like ours; the offset."""
    stamp = wire.stamp(system.observer.ledger.ledger_id, wire.tp_check(*tp), epoch, process, seq)
    value = json.dumps({"amount": 0, "from": "nobody", "asked": 0}).encode()
    async with AIOKafkaProducer(bootstrap_servers=system.bootstrap) as producer:
        sent = await producer.send_and_wait(
            tp.topic, value, key=b"acct-0000", partition=tp.partition, headers=[(wire.HEADER, stamp)]
        )
    return int(sent.offset)


def places(check: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(w["topic"], w["partition"], w["offset"]) for w in check["witnesses"]]


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_each_damage_is_found_by_the_right_check_at_the_very_offset(namespace: str, tmp_path: Path) -> None:
    """A white record after the marker, a red one below a position, an in-flight record gone: V1, V2, V4 each fail with
    the very offset that was damaged; and before the damage they pass."""
    with live(namespace) as system:
        for name in HEALTHY:
            system.take(name)
        red = _red_below_a_position(system)
        system.observer.stop_load()
        assert not assemble(system.bootstrap, namespace, [*HEALTHY, "red-below"], tmp_path)
        paths = {name: tmp_path / f"{name}.json" for name in (*HEALTHY, "red-below")}
        drawn = asyncio.run(ops.draw(None, "", manifest=str(paths["red-below"]))).svg
        assert f'class="message backward" data-at="{red[0]}[{red[1]}] offset {red[2]}"' in drawn
        assert "received, not sent: inconsistent" in drawn
        captured = {name: json.loads(path.read_text())["captured"] for name, path in paths.items()}

        name, lost = _some_in_flight_at_its_position(tmp_path, captured)
        status, before = verify(system, paths[name])
        assert status == 0, before
        run = {check: found["status"] for check, found in before[name].items() if found["run"]}
        assert run == dict.fromkeys(("V1", "V2", "V3", "V4", "V5", "V6 money"), "passed")

        late = white_after_the_marker(system, captured[name], other_than=lost)
        _delete_up_to_and_with(system, lost)
        status, after = verify(system, paths[name], paths["red-below"])
        assert status == 30
        assert after[name]["V1"]["status"] == "failed"
        assert places(after[name]["V1"]) == [late]
        assert after[name]["V4"]["status"] == "failed"
        assert lost in places(after[name]["V4"])
        assert all(place[:2] == lost[:2] and place[2] <= lost[2] for place in places(after[name]["V4"]))
        assert after["red-below"]["V2"]["status"] == "failed"
        assert red in places(after["red-below"]["V2"])
        assert len(places(after["red-below"]["V2"])) == 1


def _red_below_a_position(system: Live) -> tuple[str, int, int]:
    """A red record is appended and taken in; then a snapshot is taken whose trigger may not read the ends (R1)."""
    tp = TopicPartition(TRANSFERS, 1)
    offset = system.observer.call(forge(system, tp, epoch=BORN_LATER, process=BORN_LATER, seq=0))
    end = system.observer.admin.log_ends
    passed = "the receiver to pass the forged record"
    system.system.wait_until(passed, lambda: system.observer.call(end([tp]))[tp] > offset + 10, timeout_s=60)
    work = compose_trigger(system.observer.admin, system.observer.state, snapshot_id="red-below")
    trigger = dataclasses.replace(system.observer.call(work), ends=())
    view = system.observer.decided(system.observer.call(system.observer.ledger.append(trigger)) + 1)
    assert view.failure is None, view.failure
    (source,) = [i for i in system.observer.state.captured(view.epoch).inputs if (i.topic, i.partition) == tp]
    assert source.position > offset, "the forged record must have been taken in, else this test shows nothing"
    return (tp.topic, tp.partition, offset)


def _some_in_flight_at_its_position(
    storage: Path, captured: dict[str, Any]
) -> tuple[str, tuple[str, int, int]]:
    """A healthy snapshot and a message of it that is the very next one its receiver will start."""
    for name in HEALTHY:
        query = 'SELECT topic, partition, "offset" FROM read_parquet(?)'
        messages = duckdb.execute(query, [str(storage / name / "*" / "messages" / "*.parquet")]).fetchall()
        nexts = {(i["topic"], i["partition"], i["position"]) for i in captured[name]["inputs"]}
        if found := sorted(nexts & {tuple(row) for row in messages}):
            return name, found[0]
    raise AssertionError("no message was in flight at a position in any snapshot: this test shows nothing")


def white_after_the_marker(
    system: Live, captured: dict[str, Any], *, other_than: tuple[str, int, int]
) -> tuple[str, int, int]:
    """A record in the colour and the name of a sender, after its marker."""
    sender = next(
        s
        for s in captured["senders"]
        if s["marker"] >= 0 and s["white_end"] > 0 and (s["topic"], s["partition"]) != other_than[:2]
    )
    tp = TopicPartition(sender["topic"], sender["partition"])
    work = forge(system, tp, epoch=0, process=sender["process"], seq=sender["last_seq"] + 1)
    offset = system.observer.call(work)
    assert offset > sender["marker"]
    return (tp.topic, tp.partition, offset)


def _delete_up_to_and_with(system: Live, place: tuple[str, int, int]) -> None:
    """The broker itself deletes the head of the partition (DeleteRecords)."""
    topic, partition, offset = place
    tp, call, admin = TopicPartition(topic, partition), system.observer.call, system.observer.admin
    call(admin.delete_records(tp, offset + 1))
    gone = {tp: offset + 1}
    wait_until("the records to be gone", lambda: call(admin.log_starts([tp])) == gone, timeout_s=30)
