"""The event loop under a slow storage: no route waits for the storage on it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest.mock import AsyncMock

import pytest

from snapkafka.service import ROUTES
from snapkafka.store import LocalFiles
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import asked, assembled, served

#: A storage in another town answers in this time.
STORAGE_S: Final = 0.04
#: No route takes longer, on a machine that other tests use as well; one look-up of 500 names took 20 s.
ANSWER_S: Final = 10.0
#: Routes beside those of the contract.
OTHERS: Final = {
    ("GET", path) for path in ("/", "/page/main.js", "/metrics", "/healthz", "/readyz", "/openapi.json")
}
NAMES: Final = ", ".join(f'"s{number}".state' for number in range(500))
#: These read a manifest themselves, and not in a process of their own.
READS: Final = {"list", "show"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[FakeCluster, Path]:
    """Two assembled snapshots."""
    cluster, folder = FakeCluster(), tmp_path_factory.mktemp("stored")
    Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(folder),)) as client:
        for name in ("one", "two"):
            assembled(cluster, client, folder, name)
    return cluster, folder


@pytest.mark.parametrize(("method", "path"), sorted({*ROUTES, *OTHERS}), ids=str)
def test_no_route_waits_for_the_storage_on_the_loop(
    world: tuple[FakeCluster, Path], method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def slow(found: Callable[..., Any]) -> Callable[..., Any]:
        def later(*args: Any, **more: Any) -> Any:
            threads.append(threading.get_ident())
            time.sleep(STORAGE_S)
            return found(*args, **more)

        return later

    for name in ("read", "size", "list", "pieces"):
        monkeypatch.setattr(LocalFiles, name, slow(getattr(LocalFiles, name)))
    name = ROUTES[method, path].name if (method, path) in ROUTES else ""
    bodies = {
        "trigger": asked(target_storage_uri=str(world[1])),
        "query": {"sql": f"SELECT count(*) FROM {NAMES}"},
    }
    target = re.sub(r"\{\w+\}", "one", path) + ("?against=two" if name == "diff" else "")
    with served(world[0], (str(world[1]),), assemble=AsyncMock(), verify=AsyncMock()) as client:
        assert client.portal is not None
        began = time.monotonic()
        body = bodies.get(name, {}) if method == "POST" else None
        with client.stream(method, target, json=body) as answer:
            found = next(answer.iter_text())
        assert answer.status_code < 500, found
        assert time.monotonic() - began < ANSWER_S
        assert client.portal.call(threading.get_ident) not in threads
    assert threads or name not in READS, "the storage was not asked, so this shows nothing"
    if name == "query":
        assert "500 names before a dot, above 50" in found
