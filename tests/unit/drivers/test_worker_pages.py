"""The pages of a worker: the trigger is there if it is asked for, and refuses what foreign pages have sent."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from snapkafka.config import Config
from snapkafka.drivers.faust.web import _add_pages
from snapkafka.runtime.browsers import foreign

OWN = "10.0.0.7"


def pages(*, web_trigger: bool, triggered: list[str] | None = None) -> dict[str, Any]:
    """Return the pages of a worker by their paths."""
    names: list[str] = [] if triggered is None else triggered

    async def trigger(name: str) -> str:
        names.append(name)
        return name or "made-up"

    conf = SimpleNamespace(web_host="shop.internal")
    host: Any = SimpleNamespace(
        app=SimpleNamespace(conf=conf), config=SimpleNamespace(web_trigger=web_trigger), trigger=trigger
    )
    views: list[Any] = []
    _add_pages(host, SimpleNamespace(add_view=views.append))
    return {view.view_path: view for view in views}


class Request:
    """A request of aiohttp, as far as the page reads it."""

    def __init__(self, body: str = "", **headers: str) -> None:
        self.headers = {"Host": f"{OWN}:6066", "Content-Type": "application/json"} | headers
        self.content_type = self.headers["Content-Type"]
        self.transport = SimpleNamespace(get_extra_info=lambda name: (OWN, 6066))
        self._body = body

    async def text(self) -> str:
        return self._body

    async def read(self) -> bytes:
        return self._body.encode()


async def post(request: Request, triggered: list[str]) -> int:
    """Return the status of an answer."""
    answering = SimpleNamespace(json=lambda value, status=200: status)
    view = pages(web_trigger=True, triggered=triggered)["/snapkafka/trigger/"]
    return int(await view.post(answering, request))


def test_the_trigger_is_there_if_it_is_asked_for() -> None:
    others = {"/snapkafka/", "/snapkafka/metrics/"}
    assert pages(web_trigger=Config(namespace="shop").web_trigger).keys() == others, "it is off by default"
    assert pages(web_trigger=True).keys() == others | {"/snapkafka/trigger/"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 202),
        ({"Host": "localhost:6066"}, 202),
        ({"Host": "shop.internal"}, 202),
        ({"Origin": f"http://{OWN}:6066"}, 202),
        ({"Host": "evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": f"http://{OWN}:1"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_what_a_foreign_page_has_sent_is_refused(headers: dict[str, str], status: int) -> None:
    triggered: list[str] = []
    body = json.dumps({"id": "one"})
    assert await post(Request(body, **headers), triggered) == status
    assert triggered == (["one"] if status == 202 else [])


@pytest.mark.parametrize("host", ["[::1]:80", "127.9.9.9", "LOCALHOST", "Shop.Internal:80"])
def test_names_of_this_server_are_not_foreign(host: str) -> None:
    assert foreign(host, "", names={"shop.internal"}) == ""
    assert foreign(host, f"https://{host}", names={"shop.internal"}) == ""
