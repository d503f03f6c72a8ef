"""A proxy in front of an S3 server that answers 503 (SlowDown) to more requests than it allows in a second."""

import asyncio
import threading
import time
from collections import Counter, deque
from typing import Final, Self

import aiohttp
from aiohttp import web
from yarl import URL

SLOW_DOWN: Final = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
WINDOW_S: Final = 0.1
#: Those of one connection; not to be passed on.
HOP: Final = {"connection", "expect", "keep-alive", "transfer-encoding"}


class Throttle:
    """Listens as long as the block lasts.

    Args:
        server: the endpoint behind it.
        per_second: how many requests are let through; a tenth of them in each tenth of a second.
    """

    def __init__(self, server: str, *, per_second: int) -> None:
        self.endpoint = ""
        #: Answers by their status.
        self.answers: Counter[int] = Counter()
        self._server = server
        self._per_second = per_second
        self._passed: deque[float] = deque()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def allow(self, per_second: int) -> None:
        """From here on so many are let through."""
        self._per_second = per_second

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, auto_decompress=False)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._client:
            self._ready.set()
            await self._end.wait()
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        now = time.monotonic()
        while self._passed and self._passed[0] < now - WINDOW_S:
            self._passed.popleft()
        if len(self._passed) >= self._per_second * WINDOW_S:
            self.answers[503] += 1
            return web.Response(status=503, text=SLOW_DOWN, content_type="application/xml")
        self._passed.append(now)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        url = URL(self._server + request.raw_path, encoded=True)
        async with self._client.request(request.method, url, headers=headers, data=body) as answer:
            content = await answer.read()
            self.answers[answer.status] += 1
            back = {name: value for name, value in answer.headers.items() if name.lower() not in HOP}
            if request.method != "HEAD":
                back.pop("Content-Length", None)
            return web.Response(status=answer.status, headers=back, body=content)
