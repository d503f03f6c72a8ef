"""`--keep`: the system stays up, with its page, for people who practise: a crash, a restore, a fork.

A worker that ends is reported by name and waits for Enter: a restore needs its app to be down, a crash does not.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from snapkafka.demo.summary import short
from snapkafka.testing import RunningSystem, Worker
from snapkafka.until import Tries

PERIOD_S: Final = 0.5
PAGE_TIMEOUT_S: Final = 30.0
INVITATION: Final = """
The system is running, and money moves. {page}
In another terminal:
  export SNAPKAFKA_BOOTSTRAP={bootstrap} SNAPKAFKA_NAMESPACE={namespace}
  {snapkafka} trigger --wait --id mine --storage {storage}
  {snapkafka} assemble mine --storage {storage}
  {snapkafka} show mine
A crash: a worker dies, and Enter here starts it again. {workers}.
  kill -9 $(head -n 1 {pids})
A restore: stop every worker, restore, and press Enter here.
  kill -INT $(cat {pids})
  {snapkafka} restore mine --yes
A fork: the snapshot as a second system, of which this is one worker.
  {snapkafka} fork create staging --from mine --yes
  SNAPKAFKA_FORK=staging SNAPKAFKA_DEMO_DATA={storage} {faust} -A snapkafka.demo.accounts worker --without-web
  {snapkafka} fork drop staging --yes
Ctrl-C here stops everything."""


class Practice:
    """The system under practice, and the file with the process ids of its workers, one a line."""

    def __init__(self, system: RunningSystem, storage: Path) -> None:
        self._system, self._storage = system, storage
        self._pids = storage / "workers.txt"
        self._reported: set[int] = set()
        self._asks = True

    def invite(self, page: str) -> None:
        """Print what can be done."""
        self._write_pids()
        commands = {name: shlex.quote(_beside(name)) for name in ("snapkafka", "faust")}
        storage, pids = (shlex.quote(short(path)) for path in (self._storage, self._pids))
        print(
            INVITATION.format(
                page=page,
                bootstrap=self._system.bootstrap,
                namespace=self._system.namespace,
                workers=_named(self._system.workers),
                storage=storage,
                pids=pids,
                **commands,
            ),
            file=sys.stderr,
            flush=True,
        )

    async def go_on(self) -> None:
        """Report workers that have ended, and start them again when somebody presses Enter; for ever."""
        while True:
            await asyncio.sleep(PERIOD_S)
            ended = [worker for worker in self._system.workers if worker.status is not None]
            for worker in ended:
                if worker.pid not in self._reported:
                    self._reported.add(worker.pid)
                    self._report(worker)
            if self._pressed() and ended:
                started = [self._system.restart(worker) for worker in ended]
                self._write_pids()
                print(f"started {_named(started)}", file=sys.stderr, flush=True)

    def _report(self, worker: Worker) -> None:
        how = f"ended with status {worker.status}; its last lines:\n{worker.last_lines()}\n"
        if (worker.status or 0) <= 0:
            how = f"was ended by {signal.Signals(-worker.status).name}" if worker.status else "has stopped"
        again = (
            "press Enter here to start it again" if self._asks else "run the demo in a terminal to restart it"
        )
        print(f"worker {worker.name} (pid {worker.pid}) {how}: {again}", file=sys.stderr, flush=True)

    def _pressed(self) -> bool:
        """Return whether somebody has entered a line."""
        if not self._asks or not select.select([sys.stdin], [], [], 0)[0]:
            return False
        self._asks = bool(os.read(sys.stdin.fileno(), 4096))
        return self._asks

    def _write_pids(self) -> None:
        self._pids.write_text("".join(f"{worker.pid}\n" for worker in self._system.workers))


async def practise(system: RunningSystem, storage: Path) -> None:
    """Leave the system to people, with its page, until Ctrl-C."""
    practice = Practice(system, storage)
    with page(system, storage) as where:
        practice.invite(where)
        await practice.go_on()


@contextmanager
def page(system: RunningSystem, storage: Path) -> Iterator[str]:
    """Serve the page for the length of the block; provide a sentence with its address, or why there is none."""
    arguments = ["snapkafka", "serve", "--port", "0", "--storage-root", str(storage)]
    where = {"SNAPKAFKA_BOOTSTRAP": system.bootstrap, "SNAPKAFKA_NAMESPACE": system.namespace}
    server = Worker("page", system.folder / "page.txt", arguments, where)
    try:
        for _ in Tries(PAGE_TIMEOUT_S):
            found = re.search(r"serving \S+ on (\S+)", server.last_lines())
            if found or server.status is not None:
                break
        yield f"Page: {found[1]}" if found else f"No page: {server.last_lines()}"
    finally:
        server.interrupt()
        server.end()


def _beside(name: str) -> str:
    """Return the command of this environment, as short as it can be typed here."""
    found = Path(sys.executable).with_name(name)
    return short(found) if found.is_file() else name


def _named(workers: list[Worker]) -> str:
    return ", ".join(f"{worker.name} is pid {worker.pid}" for worker in workers)
