"""What a small snapshot costs: `snapkafka assemble` as a command, and a snapshot in a test of a user's."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from snapkafka.testing import EmbeddedKafka, system
from tests.bench.figures import Figure, figure
from tests.e2e import tested_shop as shop
from tests.spark.scene import Stage, play

RUNS: Final = 5
#: Keys in the table, and the most seconds that a command may take.
SIZES: Final = ((0, 4.0), (10_000, 5.0), (100_000, 12.0))


def bench_small() -> list[Figure]:
    """Seconds of `snapkafka assemble`: of a few records, of 10,000 and of 100,000; the first one by Spark as well."""
    found = []
    with EmbeddedKafka() as broker, tempfile.TemporaryDirectory() as folder:
        for keys, bar in SIZES:
            stage = play(broker.bootstrap, f"small{keys}", calm=True, bulk=keys)
            runs = [_assembled(stage, Path(folder), "embedded") for _ in range(RUNS + 1)][1:]
            found.append(figure(f"assemble_{keys or 'few'}_s", [run.wall for run in runs], "s", bar=bar))
            found.append(figure(f"assemble_{keys or 'few'}_cpu_s", [run.cpu for run in runs], "s"))
            if not keys:
                of_spark = [_assembled(stage, Path(folder), "spark") for _ in range(2)][1:]
                found.append(figure("assemble_few_spark_s", [run.wall for run in of_spark], "s"))
    return found


def bench_tested() -> list[Figure]:
    """Seconds of `assert_consistent()` in a test of a user's."""
    seconds = []
    with system(shop.orders, shop.payments) as s:
        for _ in range(RUNS + 1):
            s.send("tested-new-orders", *range(100), key="ann")
            snapshot = s.snapshot()
            began = time.monotonic()
            snapshot.assert_consistent()
            seconds.append(time.monotonic() - began)
    return [figure("assert_consistent_s", seconds[1:], "s", bar=4.0)]


class _Seconds(NamedTuple):
    """Seconds of a command and the job that it starts. `cpu` depends less on what else runs."""

    wall: float
    cpu: float


def _assembled(stage: Stage, folder: Path, engine: str) -> _Seconds:
    command = [sys.executable, "-m", "snapkafka.cli", "assemble", f"{stage.namespace}-snap", "--json"]
    where = ["--bootstrap", stage.bootstrap, "--namespace", stage.namespace]
    began, cpu = time.monotonic(), _cpu_of_children()
    subprocess.run(
        [*command, *where, "--storage", str(folder / engine), "--engine", engine],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return _Seconds(time.monotonic() - began, _cpu_of_children() - cpu)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
