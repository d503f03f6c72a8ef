"""The comparison: turns with checkpoints and without, of each side in turn; its tables as Markdown."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from snapkafka.errors import EXIT_OK, SnapkafkaError
from snapkafka.testing import EmbeddedKafka, create_topics

from . import cluster, faust_side
from .load import Arrived, Offered, fill, share
from .settings import PARTITIONS, Side

#: Seconds between two checkpoints.
EVERY_S: Final = 1.0
COLUMNS: Final = (
    "keys",
    "side",
    "in flight without: p50 / p99",
    "in flight with: p50 / p99",
    "ratio of p99",
    "taken: p50 / p99",
    "bytes each",
)


@dataclass(slots=True)
class Found:
    """What the turns of one side have shown."""

    way_ms: dict[bool, list[float]] = field(default_factory=lambda: defaultdict(list))
    ratios: list[float] = field(default_factory=list)
    taken_ms: list[float] = field(default_factory=list)
    bytes_each: list[float] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    """Run it; return an exit status."""
    parser = argparse.ArgumentParser(prog="studies.flink", description=__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 1_000_000])
    parser.add_argument("--rate", type=float, default=200.0, help="events per second")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--turn", type=int, default=6, help="seconds of a turn")
    options = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    try:
        cluster.require_tools()
        _print(options, load)
    except SnapkafkaError as error:
        print(f"error: {error.message}\n       {error.hint}", file=sys.stderr)
        return error.exit_status
    return EXIT_OK


def _print(options: argparse.Namespace, load: float) -> None:
    print(f"| {' | '.join(COLUMNS)} |")
    print(f"|{'---|' * len(COLUMNS)}", flush=True)
    for keys in options.keys:
        for line in _lines(keys, _study(keys, options)):
            print(line, flush=True)
    print(
        f"\n{os.cpu_count()} cores, load {load:.1f} before; {options.rate:g} events per second, a checkpoint or"
        f" snapshot per second, {options.rounds} rounds of turns of {options.turn} s."
    )


def _study(keys: int, options: argparse.Namespace) -> dict[str, Found]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(EmbeddedKafka())
        bootstrap = broker.bootstrap
        sides = _started(stack, broker, folder, keys)
        arrived = {side.name: Arrived(bootstrap, f"{side.name}-out") for side in sides}
        for reader in arrived.values():
            stack.callback(reader.close)
        for mode in cluster.MODES:  # every key has its count
            fill(bootstrap, f"{mode}-in", keys, changelog=False)
            arrived[mode].next(keys)
        found: dict[str, Found] = defaultdict(Found)
        for number in range(options.rounds + 1):
            for side in sides:
                way = {}
                for with_them in (True, False) if number % 2 else (False, True):
                    way[with_them] = _turn(
                        side, arrived[side.name], bootstrap, keys, options, found, with_them, number
                    )
                if number:
                    found[side.name].ratios.append(share(way[True], 0.99) / share(way[False], 0.99))
        if keys <= min(options.keys):
            verdict = next(it for it in sides if isinstance(it, faust_side.Workers)).verdict(
                folder / "tables"
            )
            assert verdict == "VERIFIED", verdict
        return found


def _started(stack: ExitStack, broker: EmbeddedKafka, folder: Path, keys: int) -> list[Side]:
    bootstrap, names = broker.bootstrap, (*cluster.MODES, faust_side.NAME)
    create_topics(
        bootstrap, *(f"{name}-{it}" for name in names for it in ("in", "mid")), partitions=PARTITIONS
    )
    by_broker = {"message.timestamp.type": "LogAppendTime"}
    create_topics(bootstrap, *(f"{name}-out" for name in names), partitions=PARTITIONS, config=by_broker)
    compacted = {"cleanup.policy": "compact"}
    create_topics(bootstrap, *faust_side.changelogs(), partitions=PARTITIONS, config=compacted)
    for changelog in faust_side.changelogs():
        fill(bootstrap, changelog, keys, changelog=True)
    jobs = stack.enter_context(cluster.running(bootstrap, folder))
    for job in jobs:
        job.await_running()
    return [*jobs, stack.enter_context(faust_side.running(broker, folder))]


def _turn(
    side: Side,
    arrived: Arrived,
    bootstrap: str,
    keys: int,
    options: argparse.Namespace,
    found: dict[str, Found],
    with_them: bool,
    number: int,
) -> list[float]:
    """Return the milliseconds that each event of a turn was in flight. The first round warms up."""
    side.begin()
    offered = Offered(bootstrap, f"{side.name}-in", keys=keys, rate=options.rate, seconds=options.turn)
    began = time.monotonic()
    offered.start()
    for second in range(options.turn):
        time.sleep(max(0.0, began + (second + 0.3) * EVERY_S - time.monotonic()))
        if with_them:
            side.trigger()
    offered.join()
    way = arrived.next(offered.sent)
    if number:
        here = found[side.name]
        here.way_ms[with_them] += way
        if with_them:
            taken = side.taken()
            here.taken_ms += taken.milliseconds
            here.bytes_each.append(taken.bytes_each)
    return way


def _lines(keys: int, found: dict[str, Found]) -> Iterable[str]:
    names = {"aligned": "Flink, aligned", "unaligned": "Flink, unaligned"}
    for name, it in found.items():
        ratios = f"{median(it.ratios):.2f} ({min(it.ratios):.2f} to {max(it.ratios):.2f})"
        ways = (f"{share(it.way_ms[w], 0.5):.1f} / {share(it.way_ms[w], 0.99):.0f} ms" for w in (False, True))
        taken = f"{share(it.taken_ms, 0.5):.0f} / {share(it.taken_ms, 0.99):.0f} ms"
        size = f"{share(it.bytes_each, 0.5) / 1_000:,.1f} kB"
        yield f"| {keys:,} | {' | '.join((names.get(name, name), *ways, ratios, taken, size))} |"
