"""`SNAPKAFKA_FORK`: the same code as a second system, which can neither read nor write a topic of production; and
encrypted connections through a door, whose certificate is checked against the name of the broker."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faust
import pytest
from aiokafka.conn import AIOKafkaConnection

import snapkafka
from snapkafka.drivers import Isolation
from snapkafka.errors import InstallError
from snapkafka.runtime.door import DOOR, Door
from tests.kafka.secured import make_certificates

P = "fork.staging."


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SNAPKAFKA_FORK", "staging")
    yield
    if Isolation.current is not None:
        Isolation.current.remove()


def shop(**settings: Any) -> faust.App:
    return faust.App("shop", broker="kafka://127.0.0.1:1", autodiscover=False, **settings)


# -- names --------------------------------------------------------------------------------------------------------


def names_of(app: faust.App) -> dict[str, str]:
    """What an app of two agents and a table is called in Kafka."""
    topic = app.topic("orders", value_type=str)
    table = app.Table("totals", default=int)

    @app.agent(topic, name="by")
    async def by(stream: Any) -> None:
        async for _ in stream.group_by(lambda value: value, name="key"):
            pass

    @app.agent(name="inner")
    async def inner(stream: Any) -> None:
        async for _ in stream:
            pass

    app.finalize()
    grouped = topic.derive(prefix="by-", suffix="-key-repartition")
    leader = app._leader_assignor
    return {
        "id": app.conf.id,
        "topic": topic.get_topic_name(),
        "agent without a topic": inner.channel.get_topic_name(),
        "changelog": table.changelog_topic.get_topic_name(),
        "changelog, as the assignor builds it": table._changelog_topic_name(),
        "known changelog": next(iter(app.tables.changelog_topics)),
        "leader": leader._leader_topic.get_topic_name(),
        "leader, as it is looked for": leader._leader_topic_name,
        "group_by": grouped.get_topic_name(),
        "by name": app.topic("other").get_topic_name(),
    }


@pytest.mark.parametrize("when", ["early", "late", "configured"])
def test_every_name_has_the_prefix_of_the_fork(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    monkeypatch.delenv("SNAPKAFKA_FORK")
    production = names_of(shop())
    monkeypatch.setenv("SNAPKAFKA_FORK", "staging")
    app = shop()
    if when == "early":
        snapkafka.install(app, namespace="ns")
        found = names_of(app)
    else:
        table = app.Table("totals", default=int)
        topic = app.topic("orders", value_type=str)
        if when == "configured":
            assert app.conf.id == "shop"
        snapkafka.install(app, namespace="ns")
        assert topic.get_topic_name() == f"{P}orders"
        assert table.changelog_topic.get_topic_name() == f"{P}shop-totals-changelog"
        del app.tables["totals"]
        app.tables._changelogs.clear()
        found = names_of(app)
    assert found == {what: P + name for what, name in production.items()}


def test_the_namespace_and_the_declared_sources_are_of_the_fork() -> None:
    driver = snapkafka.install(shop(), namespace="ns", sources=["orders"])
    assert driver.config.namespace == f"{P}ns"
    assert driver.config.sources == (f"{P}orders",)


# -- what cannot be isolated does not start -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment_", "options", "why"),
    [
        ({"SNAPKAFKA": "off"}, {}, "the mode is off"),
        ({"SNAPKAFKA": "observe"}, {}, "the mode is observe"),
        ({}, {"mode": "off"}, "the mode is off"),
        ({"SNAPKAFKA_FORK": "a.b"}, {}, "invalid name"),
        ({}, {}, r"this release of Faust is not supported \(faust.App.gone\)"),
    ],
)
def test_a_fork_without_snapkafka_does_not_start(
    monkeypatch: pytest.MonkeyPatch, environment_: dict[str, str], options: dict[str, Any], why: str
) -> None:
    """On another Faust snapkafka stands aside elsewhere (R15); a fork would then be production."""
    for name, value in environment_.items():
        monkeypatch.setenv(name, value)
    if "Faust" in why:
        monkeypatch.setattr("snapkafka.drivers.faust.not_as_expected", lambda: ["faust.App.gone"])
    with pytest.raises(InstallError, match=why) as caught:
        snapkafka.install(shop(), namespace="ns", **options)
    assert str(caught.value).startswith(f"SNAPKAFKA_FORK={os.environ['SNAPKAFKA_FORK']}: ")
    assert Isolation.current is None


async def test_a_fork_that_does_not_exist_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    app: Any = shop()
    snapkafka.install(app, namespace="ns")
    asked: list[list[str]] = []

    async def describe(self: Any, topics: list[str]) -> dict[str, Any]:
        asked.append(topics)
        return {}

    monkeypatch.setattr("snapkafka.kafka.cluster.admin.KafkaTopicAdmin.describe_topics", describe)
    with pytest.raises(InstallError, match="there is no such fork here") as caught:
        await asyncio.wait_for(app.on_start(), 5)
    assert asked == [[f"_snapkafka.{P}ns"]]
    assert "snapkafka fork create staging" in caught.value.hint


FORK = "drill-1"


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    with tempfile.TemporaryDirectory() as short, Door(Path(short, "door"), FORK) as found:
        monkeypatch.setenv(DOOR, str(found.path))
        isolation = Isolation.of(FORK)
        yield found
        isolation.remove()


@pytest.mark.parametrize(("host", "passes"), [("localhost", True), ("127.0.0.2", False)])
async def test_a_certificate_is_checked(tmp_path: Path, door: Door, host: str, passes: bool) -> None:
    assert door.joined.is_set(), "an isolated process states that it is"
    received = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.set_result(await reader.read(100))
        writer.close()

    of_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    make_certificates(tmp_path)  # that of the server is of localhost and 127.0.0.1
    of_server.load_cert_chain(tmp_path / "server.pem", tmp_path / "server_key.pem")
    server = await asyncio.start_server(serve, "0.0.0.0", 0, ssl=of_server)
    port, context = server.sockets[0].getsockname()[1], ssl.create_default_context(cafile=tmp_path / "ca.pem")
    connection = AIOKafkaConnection(host, port, security_protocol="SSL", ssl_context=context)
    try:
        if passes:
            with pytest.raises(Exception, match="closed"):
                await connection.connect()
            assert b"aiokafka" in await asyncio.wait_for(received, 10), "the first request has come"
        else:
            with pytest.raises(ssl.SSLCertVerificationError, match=r"doesn't match|not valid for"):
                await connection.connect()
            assert not received.done()
    finally:
        connection.close()
        server.close()
        await server.wait_closed()
