"""Our side: two Faust workers with snapkafka, one for each stage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from snapkafka import ops
from snapkafka.kafka.preflight import compose_trigger
from snapkafka.testing import EmbeddedKafka, RunningSystem, wait_until
from tests.observing import Observer, observing

from .settings import LIMIT_S, Taken

NAME: Final = "snapkafka"
STAGES: Final = ((f"{NAME}-1", "in", "mid"), (f"{NAME}-2", "mid", "out"))


def changelogs() -> list[str]:
    """Return the topics that hold the counts."""
    return [f"{stage}-counts-changelog" for stage, _, _ in STAGES]


@contextmanager
def running(broker: EmbeddedKafka, folder: Path) -> Iterator[Workers]:
    """Start the two workers; they end with the block."""
    bootstrap = broker.bootstrap
    system = RunningSystem(bootstrap=bootstrap, namespace=NAME, folder=folder)
    with observing(bootstrap, NAME) as observer:
        try:
            for stage, source, target in STAGES:
                env = {
                    "STAGE_ID": stage,
                    "STAGE_SOURCE": f"{NAME}-{source}",
                    "STAGE_TARGET": f"{NAME}-{target}",
                }
                system.start_worker(stage, env, module="studies.flink.stages")
            wait_until(
                "the workers to have their inputs",
                lambda: sum(bool(view.inputs) for view in observer.state.living()) == len(STAGES),
                timeout_s=LIMIT_S,
                system=system,
            )
            yield Workers(system, observer, broker.folder / "data")
        finally:
            system.stop()


class Workers:
    """The workers and their ledger."""

    name = NAME

    def __init__(self, system: RunningSystem, observer: Observer, data: Path) -> None:
        self._system, self._observer, self._data = system, observer, data
        self._epochs: list[int] = []
        self._bytes = 0

    def begin(self) -> None:
        """Begin a turn."""
        self._epochs, self._bytes = [], self._log_bytes()

    def trigger(self) -> None:
        """Ask for a snapshot."""
        self._epochs.append(self._observer.call(_trigger(self._observer)) + 1)

    def taken(self) -> Taken:
        """Wait for the snapshots of this turn. Their bytes: the ledger's, and those of the changelogs, which an
        assembly of an incremental snapshot reads."""
        snapshots, times = self._observer.state.snapshots, self._observer.times
        wait_until(
            "the snapshots to be decided",
            lambda: all(it in snapshots and not snapshots[it].open for it in self._epochs),
            timeout_s=LIMIT_S,
            system=self._system,
        )
        found = []
        for epoch in self._epochs:
            view = snapshots[epoch]
            assert view.captured_at is not None, view.failure
            found.append(float(times[view.captured_at] - times[epoch - 1]))
        return Taken(found, (self._log_bytes() - self._bytes) / max(1, len(found)))

    def verdict(self, folder: Path) -> str:
        """Assemble the last snapshot."""
        spec = ops.JobSpec(namespace=NAME, snapshots=("latest",), storage=str(folder))
        (done,) = asyncio.run(ops.assemble(self._observer.connection, spec))
        return done.verdict

    def _log_bytes(self) -> int:
        topics = [self._observer.ledger.topic, *changelogs()]
        logs = (log for topic in topics for log in self._data.glob(f"{topic}-*/*.log"))
        return sum(log.stat().st_size for log in logs)


async def _trigger(observer: Observer) -> int:
    return await observer.ledger.append(await compose_trigger(observer.admin, observer.state))
