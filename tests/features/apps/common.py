"""What the feature apps share: how an app is made from the environment, and how its agents say what they saw.

Every app runs twice: with snapkafka, and with SNAPKAFKA=off under another id. Both read the same inputs, named after
FEATURES_INPUT; what an app writes is named after its own id.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import faust

import snapkafka

ID = os.environ["FEATURES_ID"]
INPUT = os.environ["FEATURES_INPUT"]
MODE = os.environ.get("FEATURES_MODE", "on")
STORE = os.environ.get("FEATURES_STORE", "memory://")
LATE = os.environ.get("FEATURES_INSTALL") == "late"
#: A seam of Faust's that is not as expected.
BROKEN = os.environ.get("FEATURES_BROKEN", "")
USER = os.environ.get("FEATURES_USER")
#: What is done at an event; what it returns is told.
Step = Callable[[Any], Awaitable[dict[str, Any]]]


def new_app(**settings: Any) -> Any:
    """An app with two partitions to everything, and snapkafka in it unless SNAPKAFKA=off."""
    if USER:
        password = os.environ["FEATURES_PASSWORD"]
        settings["broker_credentials"] = faust.SASLCredentials(
            username=USER, password=password, mechanism="PLAIN"
        )
    own = {
        "broker": f"{os.environ.get('FEATURES_TRANSPORT', 'kafka')}://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
        "store": STORE,
        "topic_partitions": 2,
        "topic_disable_leader": True,
        "datadir": os.environ["SNAPKAFKA_DEMO_DATA"],
    }
    if name := os.environ.get("FEATURES_SETTING"):
        settings[name] = True
    app = faust.App(ID, **own | settings)
    if not LATE:
        _install(app)
    if "FEATURES_READY" in os.environ:
        threading.Thread(target=_report_when_ready, args=(app,), daemon=True).start()
    return app


def _report_when_ready(app: Any) -> None:
    """Keep a file, one for each worker, that says how many inputs it reads; -1 while it has to come to that, as what
    comes before Faust by itself may pass over. In a thread of its own: the app has nothing to do with it."""
    path, said = Path(os.environ["FEATURES_READY"], f"{ID}.{os.getpid()}"), None
    while True:
        if (count := _inputs_that_run(app)) != said:
            new = path.with_name(f"{path.name}.new")
            new.write_text(str(count))
            new.rename(path)
            said = count
        time.sleep(0.05)  # nobody tells


def _inputs_that_run(app: Any) -> int:
    consumer, tables = app._consumer, app.__dict__.get("tables")
    recovery = None if tables is None else tables._recovery  # nothing is made here that Faust has not made
    if consumer is None or recovery is None or app.rebalancing or recovery.in_recovery:
        return -1
    if not app.flow_control.is_active():
        return -1
    try:
        inputs = {tp for tp in consumer.assignment() if not consumer._is_changelog_tp(tp)}
        running = set(consumer._active_partitions or ())
    except (AssertionError, RuntimeError):  # it is being made, or changes in this moment
        return -1
    inputs = {tp for tp in inputs if tp.topic != app.conf.reply_to}
    return len(inputs) if inputs <= running else -1


def end_of_module(app: Any) -> None:
    """Here it is installed where FEATURES_INSTALL=late, when everything of the app exists already."""
    if LATE:
        app.conf.id  # noqa: B018 -- finalises the app, as a module that reads its settings does
        _install(app)


def _install(app: Any) -> None:
    if BROKEN:
        from snapkafka.drivers.faust import driver, hooks
        from snapkafka.drivers.faust.inbound import membership

        place: Any = next(it for it in (hooks, driver, membership) if hasattr(it, BROKEN))
        awaited = asyncio.iscoroutinefunction(getattr(place, BROKEN))
        setattr(
            place, BROKEN, (AsyncMock if awaited else Mock)(side_effect=RuntimeError(f"{BROKEN} is broken"))
        )
    lag = os.environ.get("FEATURES_LAG")
    snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"], mode=MODE, changelog_lag=lag)
    if "FEATURES_HEAR" in os.environ:
        app.snapkafka.machine.hear = frozenset({os.environ["FEATURES_HEAR"]})


def commit_on_signal(app: Any) -> None:
    """Commit as Faust's own timer does, whenever the file FEATURES_COMMIT_WHEN has grown."""
    path, seen = Path(os.environ.get("FEATURES_COMMIT_WHEN", os.devnull)), 0

    @app.timer(0.2)
    async def commits_on_signal() -> None:
        nonlocal seen
        before, seen = seen, path.stat().st_size  # noqa: ASYNC240 -- the test lets it grow
        if seen > before:
            await app.consumer.commit()


def source(app: Any, name: str, **options: Any) -> Any:
    """An input that both runs of the app read."""
    return app.topic(f"{INPUT}-{name}", key_type=str, value_serializer="json", **options)


def target(app: Any, name: str, **options: Any) -> Any:
    """A topic that this run writes."""
    return app.topic(f"{ID}-{name}", key_type=str, value_serializer="json", **options)


def saw(agent: str, event: Any, **more: Any) -> dict[str, Any]:
    """Arguments of a send that tells what an agent saw: the value and the headers as they were, and their types.

    The header `src` tells the test which event the record comes from; it is not compared, as offsets differ by markers.
    """
    message = event.message
    headers = sorted((name, repr(value)) for name, value in event.headers.items() if name != "src")
    theirs = sorted((k, repr(v)) for k, v in dict(message.headers or ()).items() if k != "src")
    raw = (type(message.headers).__name__, theirs)
    return {
        "key": event.key,
        "value": {
            "value": _plain(event.value),
            "headers": headers,
            "message_headers": raw,
            "acked": message.acked,
            **more,
        },
        "partition": message.partition,
        "headers": {"src": f"{agent}|{message.topic}|{message.partition}|{message.offset}".encode()},
    }


def each(
    app: Any,
    name: str,
    *,
    of: Any = None,
    out: Any = None,
    derived: Callable[[Any], Any] = lambda stream: stream,
    soon: bool = False,
    **options: Any,
) -> Callable[[Step], Any]:
    """An agent that takes a step at each event: of `of`, or of the input of its name, or of a stream `derived` from it.

    What the step returns is sent, beside what the agent saw, to `out`, or to the topic of its name.
    """
    told = target(app, f"{name}-out") if out is None else out

    def agent_of(step: Step) -> Any:
        async def steps(stream: Any) -> None:
            async for event in derived(stream).events():
                seen = saw(name, event, **await step(event))
                if soon:
                    told.send_soon(**seen)
                else:
                    await told.send(**seen)

        return app.agent(source(app, name) if of is None else of, name=name, **options)(steps)

    return agent_of


def count(
    app: Any, name: str, table: Any, value: Callable[[Any], Any] = lambda found: found, **options: Any
) -> Any:
    """An agent that counts events by key in a table, and tells how many; options as for `each`."""

    async def counts(event: Any) -> dict[str, Any]:
        table[event.key] += 1
        return {"count": value(table[event.key])}

    return each(app, name, **options)(counts)


def pass_on(
    app: Any,
    name: str,
    to: Any,
    value: Callable[[Any], Any] = lambda event: event.value,
    *,
    key: Callable[[Any], Any] = lambda event: event.key,
    of: Any = None,
) -> Any:
    """An agent that sends a value made of each event to another topic, to the same partition."""

    async def steps(stream: Any) -> None:
        async for event in stream.events():
            await to.send(key=key(event), value=value(event), partition=event.message.partition)

    return app.agent(source(app, name) if of is None else of, name=name)(steps)


def both_ways(app: Any, name: str, to: Any) -> Any:
    """An agent that sends to one topic by both ways: seqs and offsets have to rise together all the same."""

    async def steps(stream: Any) -> None:
        async for event in stream.events():
            if event.value["n"] % 2:
                to.send_soon(**saw(name, event))
            else:
                await to.send(**saw(name, event), force=True)

    return app.agent(source(app, name), name=name)(steps)


def of_value(agent: str, value: dict[str, Any], *names: str) -> dict[str, Any]:
    """Arguments of a send, as of `saw`, where an agent gets values only: the test counts them per partition."""
    return {
        "key": value["key"],
        "value": {name: value[name] for name in ("n", *names)},
        "headers": {"src-n": f"{agent}|{value['n']}".encode()},
    }


def tell(app: Any, name: str, **options: Any) -> Any:
    """An agent that does nothing but say what it sees; options as for `each`."""

    async def nothing_else(event: Any) -> dict[str, Any]:
        return {}

    return each(app, name, **options)(nothing_else)


def _plain(value: Any) -> Any:
    return value.asdict() if hasattr(value, "asdict") else value
