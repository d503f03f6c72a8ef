"""Restores and forks as the command does them: wait, plan, and do that plan."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from typing import Any, Final

from snapkafka import ops
from snapkafka.kafka import Connection

#: A run that meets the groups of another one waits until their sessions are over.
ENDS_WITHIN_S: Final = 180.0


class Operator:
    """A command of snapkafka that acts, in a process of its own.

    Args:
        verb: "restore" or "fork", which its lines begin with.
    """

    def __init__(self, bootstrap: str, namespace: str, verb: str, *arguments: str) -> None:
        self._verb = verb
        where = ("--bootstrap", bootstrap, "--namespace", namespace)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "snapkafka", verb, *arguments, "--yes", *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def suspend_at(self, phase: str) -> None:
        """Stop it by a signal when it prints this phase."""
        self.prints(phase)
        self.process.send_signal(signal.SIGSTOP)

    def prints(self, phase: str) -> None:
        """Wait until it prints a line that begins so."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith(f"{self._verb}: {phase}"):
                return
        raise AssertionError(f"it never came to {phase}: status {self.process.wait(10)}")

    def resume(self) -> tuple[int, str]:
        """Let it go on to its end: status and what it printed as errors."""
        self.process.send_signal(signal.SIGCONT)
        status, _, err = self.ended()
        return status, err

    def finish(self) -> str:
        """Wait until it has succeeded; what it printed."""
        status, out, err = self.ended()
        assert status == 0, err
        return out

    def ended(self) -> tuple[int, str, str]:
        """Wait for its end: status, and what it printed as results and as errors."""
        out, err = self.process.communicate(timeout=ENDS_WITHIN_S)
        return self.process.returncode, out, err

    def end(self) -> None:
        """Kill it, if it still runs."""
        self.process.kill()
        self.process.communicate(timeout=10)


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
