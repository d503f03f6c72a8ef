"""Split keys on a real broker, beside a good verdict."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.assembly import main
from snapkafka.kafka import Connection
from snapkafka.testing import Broker
from tests.worlds.stores import LocalStore

from .reading import spec_file
from .scene import play, play_on


@pytest.mark.parametrize("engine", ["embedded", pytest.param("spark", marks=pytest.mark.nightly)])
def test_a_snapshot_its_child_and_a_verifier_name_the_key(
    engine: str, kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A child names what its parent holds, though the key is not written again in both partitions."""
    stage, storage = play(kafka.bootstrap, f"s{os.getpid()}{engine}", calm=True, split=True), tmp_path / "s"
    parent, child = f"{stage.namespace}-snap", f"{stage.namespace}-next"
    where = ["--bootstrap", stage.bootstrap, "--engine", engine]
    job = [*where, "--namespace", stage.namespace, "--storage", str(storage)]
    assert main([*job, "--snapshot", parent]) == 0
    play_on(stage, child, parent=parent, written=[(b'"other"', b"1")])
    assert main([*job, "--snapshot", child]) == 0
    for name in (parent, child):
        manifest = LocalStore(storage).read(name)
        (notes,) = (check.notes for check in manifest.checks if check.name == "V3")
        (note,) = (note for note in notes if note.kind == "state-split")
        assert manifest.verdict.startswith("VERIFIED")
        assert note.what.startswith("table balances of alpha: 1 key lies in several partitions: x (0, 1);")
        shown = asyncio.run(ops.show(Connection(bootstrap=stage.bootstrap), stage.namespace, name))
        assert [it for check in shown.checks for it in check.remarks] == [note.what], "the ledger has it"
        capsys.readouterr()
        again = spec_file(tmp_path, manifests=(str(storage / f"{name}.json"),), tables=True)
        assert main([*where, *again]) == 0
        (reported,) = json.loads(capsys.readouterr().out)["snapshots"]
        (v3,) = (check for check in reported["checks"] if check["name"] == "V3")
        assert [it["what"] for it in v3["notes"] if it["kind"] == "state-split"] == [note.what]
