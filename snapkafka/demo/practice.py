"""`--keep`: the system stays up, with its page, for people who practise: a crash, a restore, a fork."""

from __future__ import annotations

import asyncio
import os
import re
import select
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from snapkafka.cli.running import notices
from snapkafka.demo.summary import command_here, short
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
  {snapkafka} restore mine --yes --wait 60
A fork: the snapshot as a second system, of which this is one worker.
  {snapkafka} fork create staging --from mine --yes
  SNAPKAFKA_FORK=staging SNAPKAFKA_DEMO_DATA={storage} {faust} -A snapkafka.demo.accounts worker --without-web
  {snapkafka} fork drop staging --yes
Ctrl-C here stops everything."""


def invite(system: RunningSystem, storage: Path, page: str) -> None:
    """Print what can be done, on standard error; the process ids of the workers stand in a file, one a line."""
    pids = _write_pids(system, storage)
    invitation = INVITATION.format(
        page=page,
        bootstrap=system.bootstrap,
        namespace=system.namespace,
        workers=_named(system.workers),
        storage=shlex.quote(short(storage)),
        pids=shlex.quote(short(pids)),
        **{name: shlex.quote(command_here(name)) for name in ("snapkafka", "faust")},
    )
    print(invitation, file=sys.stderr, flush=True)


async def practise(system: RunningSystem, storage: Path) -> None:
    """Leave the system to people, with its page, until Ctrl-C. Workers that end wait for Enter: a restore needs it."""
    named: list[Worker] = []
    async with page(system, storage) as where:
        invite(system, storage, where)
        while True:
            await asyncio.sleep(PERIOD_S)
            ended = [worker for worker in system.workers if worker.status is not None]
            for it in [worker for worker in ended if worker not in named]:
                notices.print(f"{it.name} (pid {it.pid}) has ended, see {it.log}: Enter starts it again")
            named = ended
            if select.select([sys.stdin], [], [], 0)[0] and os.read(sys.stdin.fileno(), 4096):
                started = [system.restart(worker) for worker in ended]
                _write_pids(system, storage)
                notices.print(f"started {_named(started) or 'nothing: all run'}")


def _write_pids(system: RunningSystem, storage: Path) -> Path:
    pids = storage / "workers.txt"
    pids.write_text("".join(f"{worker.pid}\n" for worker in system.workers))
    return pids


@asynccontextmanager
async def page(system: RunningSystem, storage: Path) -> AsyncIterator[str]:
    """Serve the page for the length of the block; provide a sentence with its address, or why there is none."""
    arguments = ["snapkafka", "serve", "--port", "0", "--storage-root", str(storage)]
    where = {"SNAPKAFKA_BOOTSTRAP": system.bootstrap, "SNAPKAFKA_NAMESPACE": system.namespace}
    server = Worker("page", system.folder / "page.txt", arguments, where)
    try:
        async for _ in Tries(PAGE_TIMEOUT_S):
            found = re.search(r"serving \S+ on (\S+)", server.last_lines())
            if found or server.status is not None:
                break
        yield f"Page: {found[1]}" if found else f"No page: {server.last_lines()}"
    finally:
        server.interrupt()
        server.end()


def _named(workers: list[Worker]) -> str:
    return ", ".join(f"{worker.name} is pid {worker.pid}" for worker in workers)
