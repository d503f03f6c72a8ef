"""Restores and forks as the command does them: wait, plan, and do that plan."""

import asyncio
import subprocess
import sys
from typing import Any, Final

from snapkafka import ops
from snapkafka.kafka import Connection

#: On a busy machine, sessions of killed workers and runs (30 s) and open transactions (60 s) included.
ENDS_WITHIN_S: Final = 180.0


class Operator:
    """A restore by the command, in a process of its own, which acts when the workers have left."""

    def __init__(self, bootstrap: str, namespace: str, name: str, *options: str) -> None:
        where = ("--bootstrap", bootstrap, "--namespace", namespace)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "snapkafka", "restore", name, "--yes", "--wait", "90", *where, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def comes_to(self, phase: str) -> bool:
        """Wait until it prints this phase; False: it has failed before."""
        assert self.process.stderr is not None
        if any(line.startswith(f"restore: {phase}") for line in self.process.stderr):
            return True
        assert self.process.wait(), f"it never says {phase!r}"
        return False

    def ends(self) -> tuple[int, str, str]:
        """Wait for its end: status, and what it printed as results and as errors."""
        try:
            out, err = self.process.communicate(timeout=ENDS_WITHIN_S)
        finally:
            self.process.kill()
        return self.process.returncode, out, err

    def finish(self) -> str:
        """Wait until it has succeeded; what it printed."""
        status, out, err = self.ends()
        assert status == 0, f"status {status}: {err or out}"
        return out

    def end(self) -> int:
        """Kill it, if it still runs; its status."""
        self.process.kill()
        self.process.communicate(timeout=10)
        return self.process.returncode


def recovered(
    connection: Connection, namespace: str, *, wait_s: float = 0.0, **options: Any
) -> ops.Recovered:
    """Wait for the workers to leave, plan a restore or a fork, and do it.

    Args:
        options: of `ops.RecoveryRequest`.
    """

    async def work() -> ops.Recovered:
        if wait_s:
            await ops.await_workers(connection, namespace, options["name"], wait_s=wait_s)
        request = ops.RecoveryRequest(namespace=namespace, **options)
        return await ops.recover(connection, await ops.plan_recovery(connection, request))

    return asyncio.run(work())
