"""The demo's outside world, for containers: `python -m snapkafka.demo.container prepare` makes the topics, `load`
opens the accounts and requests transfers until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

from snapkafka.demo.load import Load
from snapkafka.demo.system import prepare

#: Faust may pass over what comes while it ends a recovery, so the accounts are asked for a second time.
ASK_AGAIN_S = 10.0


def main(arguments: list[str]) -> int:
    """Run one of the two; return the exit status."""
    bootstrap = os.environ["SNAPKAFKA_BOOTSTRAP"]
    if arguments == ["prepare"]:
        prepare(bootstrap)
        return 0
    if arguments == ["load"]:
        asyncio.run(_load(bootstrap))
        return 0
    print("usage: python -m snapkafka.demo.container prepare|load", file=sys.stderr)
    return 2


async def _load(bootstrap: str) -> None:
    load, task = Load(bootstrap), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await load.open_accounts()
        await asyncio.sleep(ASK_AGAIN_S)
        await load.open_accounts()
        await load.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
