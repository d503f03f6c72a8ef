"""The service in a process of its own, over a cluster in memory.

`python -m tests.worlds.served_alone SETTINGS SOFT HARD`: SETTINGS is a JSON object; SOFT and
HARD, the limits of open files. It prints its URL, and logs to standard error.
"""

import asyncio
import json
import logging
import resource
import sys

from snapkafka.service import Settings, make_app, serve
from tests.worlds.fakes import FakeCluster, Worker


async def main(settings: Settings) -> None:
    """Serve until this process is killed."""
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    await serve(make_app(cluster, "ns", settings), settings, lambda url: print(url, flush=True))


if __name__ == "__main__":
    logging.basicConfig()
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[3])))
    asyncio.run(main(Settings(**json.loads(sys.argv[1]))))
