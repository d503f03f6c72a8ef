"""Background jobs, assembly and verification: submitted by a request, run by Spark in a process of its own.

The results of a job are in the ledger and in storage; here is only whether it runs. If the service is killed, its job
ends with it and leaves nothing half-written; the same request starts it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import msgspec

from snapkafka.errors import InternalError, Reported, SnapkafkaError
from snapkafka.ops import JobResult

from .problems import RefusedError

logger = logging.getLogger("snapkafka")

#: So many jobs that have ended are remembered.
KEPT: Final = 100


class Job(msgspec.Struct, kw_only=True, rename={"manifest": "checkpoint_manifest_uri"}):
    """An assembly or a verification of a snapshot. `job_id`: one job of a kind may run for a snapshot at a time."""

    job_id: str
    kind: Literal["assemble", "verify"]
    snapshot_id: str
    epoch: int
    state: Literal["queued", "running", "done", "failed", "cancelled"] = "queued"
    verdict: str | None = None
    manifest: str = ""
    error: Reported | None = None
    last_line: str = ""

    @property
    def over(self) -> bool:
        return self.state not in ("queued", "running")


Work = Callable[..., Awaitable[tuple[JobResult, ...]]]


class Jobs:
    """A runner of `most` jobs at once; as many again may wait."""

    def __init__(self, most: int) -> None:
        self._most, self._slots = most, asyncio.Semaphore(most)
        self._jobs: dict[str, tuple[Job, asyncio.Task[None]]] = {}

    def get(self, name: str) -> Job | None:
        """Find a job by its id; a job of an earlier service, or of another instance, is unknown here."""
        return self._jobs[name][0] if name in self._jobs else None

    def submit(self, job: Job, work: Work) -> Job:
        """Start a job, or return the running one of the same kind and snapshot.

        Raises:
            RefusedError: too many wait already.
        """
        there = self.get(job.job_id)
        if there is not None and not there.over:
            return there
        over = [name for name, (other, _) in self._jobs.items() if other.over]
        if len(self._jobs) - len(over) >= 2 * self._most:
            raise RefusedError("busy", "too many assemblies are waiting", "try again when one is done")
        for name in over[:-KEPT]:
            del self._jobs[name]
        self._jobs.pop(job.job_id, None)
        self._jobs[job.job_id] = job, asyncio.ensure_future(self._run(job, work))
        return job

    async def _run(self, job: Job, work: Work) -> None:
        def notify(line: str) -> None:
            job.last_line = line[:500]

        try:
            async with self._slots:
                job.state = "running"
                (found,) = await work(notify=notify)
                job.verdict, job.manifest, job.state = found.verdict, found.manifest, "done"
        except asyncio.CancelledError:
            job.state = "cancelled"
            raise
        except SnapkafkaError as error:
            job.error, job.state = Reported.of(error), "failed"
        except Exception as error:
            logger.exception("snapkafka: %s failed", job.job_id)
            bug = InternalError(f"a bug in snapkafka: {type(error).__name__}")
            job.error, job.state = Reported.of(bug), "failed"

    async def close(self) -> None:
        """Cancel running jobs, and wait until their processes have ended."""
        tasks = [task for _, task in self._jobs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
