"""R9: a rolling restart under a snapshot per second. What a rebalance fails by name, a later attempt captures."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence

from snapkafka.protocol import Hello, InputsRevoked, InputTopic, StopAsked, TopicPartition
from snapkafka.protocol.records import PAUSE_MOST_S, PAUSE_S, RETRIES, RETRYABLE
from snapkafka.until import pause_after

from .world import Process, World, settle

WORKERS, EVERY_S = 20, 3
HELLO = Hello(n=0, app="p", inputs=(InputTopic(topic="a", partitions=WORKERS),))


def rebalance(world: World, workers: Sequence[Process]) -> None:
    """Every input is revoked, and given to the next worker."""
    for worker in workers:
        worker.feed(InputsRevoked())
    for n, worker in enumerate(workers):
        mine = [TopicPartition("a", p) for p in range(WORKERS) if p % len(workers) == n]
        worker.give(*mine, generation=world.generation + 1, read=False)


def test_r9_of_a_snapshot_each_second_of_a_rolling_restart_of_20_workers_19_in_20_are_captured() -> None:
    """A worker starts, or the one that it replaces leaves, in the midst of every third snapshot."""
    world, rng, ends = World(), random.Random(0), Counter[str]()
    workers = [Process(world, hello=HELLO) for _ in range(WORKERS)]
    rebalance(world, workers)
    settle(*workers)
    due = defaultdict[int, list[tuple[str, int]]](list)
    moves = 2 * WORKERS * EVERY_S
    for second in range(moves + 60):
        if second < moves:
            due[second].append((f"s{second}", 1))
        epochs = {world.trigger(name, attempt=attempt): (name, attempt) for name, attempt in due[second]}
        for worker in rng.sample(workers, rng.randrange(len(workers))):
            worker.catch_up()
        if second < moves and second % EVERY_S == 0:
            if len(workers) == WORKERS:
                workers.append(Process(world, hello=HELLO))
            else:
                workers.pop(0).feed(StopAsked())
            rebalance(world, workers)
        settle(*workers)
        for epoch, (name, attempt) in epochs.items():
            failure = world.snapshot(epoch).failure
            if failure is not None and failure.code in RETRYABLE and attempt <= RETRIES:
                ends["failed attempts"] += 1
                pause = pause_after(attempt, rng.random(), first=PAUSE_S, most=PAUSE_MOST_S)
                due[second + 1 + int(pause)].append((name, attempt + 1))
            else:
                ends["captured" if failure is None else failure.code] += 1
    assert ends["failed attempts"] >= moves / EVERY_S, "nothing moved in the midst of a snapshot"
    assert ends["captured"] >= 0.95 * moves, ends
