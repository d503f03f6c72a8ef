"""A Faust app that uses much of Faust, so that a snapshot of it calls much of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import faust

#: Every so many events do what takes longer.
NOW_AND_THEN: Final = 4
LATE_PARTITIONS: Final = 48
EXACTLY_ONCE: Final = "exactly-once"
ROCKSDB: Final = "rocksdb"
KINDS: Final = (EXACTLY_ONCE, ROCKSDB)


class WideApp:
    """`app`, and what it has done. `kind`: one of `KINDS`; empty: the plain one."""

    def __init__(self, name: str, bootstrap: str, folder: Path, kind: str = "") -> None:
        #: With it a question is sent when the event is over that waits for the answer.
        self._asks = kind != EXACTLY_ONCE
        app = faust.App(
            name,
            broker=f"kafka://{bootstrap}",
            store="memory://",
            topic_partitions=1,
            datadir=str(folder),
            web_enabled=False,
            topic_disable_leader=True,
            broker_commit_interval=0.3,
            reply_create_topic=True,
            stream_wait_empty=False,
            consumer_auto_offset_reset="earliest",
            processing_guarantee="exactly_once" if kind == EXACTLY_ONCE else "at_least_once",
        )
        self.app = app
        app.in_worker = True  # as `faust worker` sets it: Faust opens transactions then only
        # Faust keeps these in the class: an app that stops would end the transactions of all apps of this process.
        app.producer._transaction_producers, app.producer._trn_locks = {}, {}
        raw = {"key_serializer": "raw", "value_serializer": "raw", "partitions": 1}
        self.source = app.topic(f"{name}-in", **raw)
        self.target = app.topic(f"{name}-out", **raw)
        self.soon = app.topic(f"{name}-soon", **raw)
        #: Some partition of it is sent to for the first time, whenever that is.
        self.late = app.topic(f"{name}-late", **raw | {"partitions": LATE_PARTITIONS})
        stores = {it: {"store": f"rocksdb:{it}"} if kind == ROCKSDB else {} for it in ("counts", "lists")}
        self.counts = app.Table("counts", default=int, partitions=1, **stores["counts"])
        self.lists = app.Table("lists", default=list, partitions=1, **stores["lists"])
        self.sets = app.SetTable("sets", partitions=1)
        #: Some events wait for it.
        self.pause: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0.01)
        self.came: dict[str, list[int]] = {name: [] for name in ("count", "batch", "hand", "asked")}
        self._define()

    def _define(self) -> None:
        app, came = self.app, self.came

        @app.agent(app.topic(f"{app.conf.id}-asks", value_type=int, partitions=1), name="asked")
        async def asked(stream: Any) -> Any:
            async for number in stream:
                came["asked"].append(number)
                yield number + 1

        @app.agent(self.source, name="count", concurrency=1)
        async def count(stream: Any) -> None:
            async for event in stream.events():
                assert "_sk" not in event.headers, "agents never see our header"
                number = int(event.value)
                await self._work(number, event, asked)
                came["count"].append(number)

        @app.agent(self.target, name="batch")
        async def batch(stream: Any) -> None:
            async for values in stream.take(3, within=0.05):
                came["batch"] += map(int, values)

        @app.agent(self.soon, name="hand")
        async def hand(stream: Any) -> None:
            async for event in stream.noack().events():
                came["hand"].append(int(event.value))
                event.ack()

        @app.timer(interval=0.1)
        async def tick() -> None:
            await app.topic(f"{app.conf.id}-ticks", value_serializer="raw", partitions=1).send(value=b"tick")

    async def _work(self, number: int, event: Any, asked: Any) -> None:
        key = f"k{number % 3}"
        self.counts[key] += 1
        self.lists[key] = [*self.lists[key][-3:], number]
        self.sets[key].add(number)
        if number % NOW_AND_THEN == 0:
            found = [key in self.counts, len(self.counts), list(self.counts.items()), list(self.counts)]
            found += [list(self.counts.keys()), list(self.counts.values()), 3 in self.counts.values()]
            assert all(part is not None for part in found)
            self.counts["gone"] = 1
            self.counts.pop("gone")
            await self.pause()
            self.counts[key] += 0
            assert list(self.counts.items())
            if self._asks:
                assert await asked.ask(number) == number + 1
            await asyncio.to_thread(self.counts.get, key)
        await self.late.send(value=event.value, partition=number % LATE_PARTITIONS)
        await self.target.send(key=event.key, value=event.value, headers={"of": b"app"})
        await self.soon.send(key=event.key, value=event.value, force=False)
        self.soon.send_soon(key=event.key, value=event.value)

    def amiss(self, numbers: int) -> str:
        """Describe what was not done exactly once; empty: all was."""
        every = list(range(numbers))
        wanted = {
            "count": every,
            "batch": every,
            "hand": sorted(every * 2),
            "asked": [number for number in every if number % NOW_AND_THEN == 0 and self._asks],
        }
        wrong = [
            f"{agent}: {len(self.came[agent])} of {len(want)}"
            for agent, want in wanted.items()
            if sorted(self.came[agent]) != want
        ]
        counted = sum(self.counts.data.values())
        if counted != numbers:
            wrong.append(f"the table counts {counted} of {numbers}")
        return "; ".join(wrong)
