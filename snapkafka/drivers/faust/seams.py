"""The hooks of Faust that snapkafka patches, all in one place.

| hook | for |
|---|---|
| `app._new_producer` -> `producer.send`, `producer.buffer.put` | stamping (`outgoing`) |
| `app.maybe_start_producer` | direct access to the producer (`at_hand`) |
| `app._attachments.put` | what leaves with a commit (`attached`) |
| the batches of aiokafka's producer | records that need no wait are appended in one step (`batches`) |
| `producer._new_producer` -> the ends of transactions | when their sends are acknowledged (`transactions`) |
| `app._new_conductor` -> `conductor._build_handler` | headers and markers (`incoming`) |
| `app._new_consumer` -> `consumer.subscribe` | `Hello`: what the app reads is known, nothing is sent yet |
| `app.on_rebalance_complete` | `Assigned`: tables are recovered, the inputs are not resumed yet (`announcing`) |
| `resume_partitions`, `perform_seek`, `resume_flow`, `_getmany` of the consumer | the inputs go on last (`resuming`) |
| `app.on_partitions_revoked` | inputs are revoked |
| methods of `app.sensors` | events and tables (`sensors`) |
| `app.stream` | batches, acknowledgement by hand, who reads what (`streams`) |
| `app._reply_consumer.add` | the event that asks, for replies (`replies`) |
| `table.on_changelog_event`, tables of sets | colours of what comes in (`tables`) |
| views, copies and iterators of tables | reads after the first look-up (`looks`, `views`) |
| `pop` of stores with windows; the ends of a rebalance, of a recovery | changes that no sensor sees (`tables`) |
| `table.persisted_offset` | records that a store holds, which are not read again (`tables`) |
| `consumer.highwaters` | tables of exactly-once apps are recovered (`recovering`) |
| `table.apply_changelog_batch` | records older than a restore are left out (`tables`) |
| `commit` of aiokafka's consumer | the metadata records what agents skip (`restored`) |
| `consumer.ack` | the end of events that are acknowledged by hand |
| `app.on_start`, `app.on_stop` | start and stop of the ledger's tasks |
| `app._new_web` | `/snapkafka/` on its web server (`web`) |

`install` may be called right after `faust.App(...)`, when nothing may be touched that would finalise the app, or at
the end of the module, when some of these objects exist already: factories are wrapped, and existing objects are
patched in place.

`probe` checks before that Faust has them all. If one fails all the same, the worker takes no part from then on
(`guard`): it never joins, or withdraws in the ledger with the reason, so no snapshot waits for it, and its records
have no stamp (R15).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from snapkafka import __version__
from snapkafka.errors import BrokerUnavailableError, InstallError, SnapkafkaError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.ledger.ledger import KafkaLedger
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.login.security import Security
from snapkafka.protocol.events import InputsTaken
from snapkafka.protocol.records import Hello, InputTopic, Retention, Table
from snapkafka.protocol.snapshots import Unread

from .announcing import Announcing, internal_topics
from .at_hand import keep_at_hand
from .code import agents_of, type_name
from .factories import wrap_factory
from .incoming import Incoming
from .looking import codec_name, codecs_of, copartitioned, expires_ms, is_global, of_sets, uncaptured
from .outgoing import Outgoing
from .recorder import Recorder, runs_no_agents
from .recovering import recover_to_the_end
from .restored import keep_metadata, plans_of_app
from .resuming import Resuming
from .streams import watch_streams
from .transactions import in_transactions
from .uncommitted import commit_restored
from .web import serve

if TYPE_CHECKING:
    from .driver import FaustDriver

__all__ = ["sew"]

logger = logging.getLogger("snapkafka")

#: A start waits no longer than this for topics that do not show, and looks so often.
SEEN_WITHIN_S: Final = 1.0
#: The broker has answered already; what it does not tell of a changelog by then no snapshot can be proved from (V3).
PROMISED_WITHIN_S: Final = 5.0
LOOK_AGAIN_S: Final = 0.05
#: Where a fault is met at the end.
STOPS: Final = "this worker stops all the same"
#: A process that runs no agents joins as an app of its own, named after its app.
OF_CLIENTS: Final = ":client"


def sew(driver: FaustDriver) -> None:
    """Attach the driver to its app; the app must not be touched in a way that finalises it."""
    with driver.failing_open("to patch Faust", for_good=True):
        _sew(driver)


def _sew(driver: FaustDriver) -> None:
    app = driver.app

    def wrap(name: str, attach: Callable[[Any], Any], *, existing: Any) -> None:
        def attach_or_stand_aside(made: Any) -> None:
            with driver.failing_open(f"to patch what Faust's {name} makes", for_good=True):
                attach(made)

        wrap_factory(app, name, attach_or_stand_aside, existing=existing)

    driver.sensors.attach(app.sensors)
    watch_streams(driver)
    wrap("_new_producer", lambda producer: _sew_producer(driver, producer), existing=app._producer)
    conductor = app.__dict__.get("topics")  # a cached property: there once it was used
    wrap("_new_conductor", lambda made: Incoming(driver, made), existing=conductor)
    wrap("_new_consumer", lambda made: _sew_consumer(driver, made), existing=app._consumer)
    app.on_partitions_revoked.connect(_on_revoked(driver), weak=False)
    _wrap_life(driver)
    if driver.config.web:
        serve(driver)
    if app.configured:
        _make_recorder(driver)
    else:
        app.on_after_configured.connect(lambda *args, **kwargs: _make_recorder(driver), weak=False)


def _make_recorder(driver: FaustDriver) -> None:
    with driver.failing_open("to make its recorder", for_good=True):
        driver.recorder = Recorder(driver)


def _sew_producer(driver: FaustDriver, producer: Any) -> None:
    driver.outgoing = Outgoing(driver, producer)
    keep_at_hand(driver.app, producer, driver.stand_down)


# -- life -----------------------------------------------------------------------------------------------------


def _wrap_life(driver: FaustDriver) -> None:
    app = driver.app
    on_start, on_stop = app.on_start, app.on_stop

    async def start() -> None:
        await on_start()
        driver.loop, driver.thread = asyncio.get_running_loop(), threading.get_ident()
        if driver.absent:
            return
        with driver.failing_open("to start", for_good=True):
            _refuse(driver)
            driver.replies.attach(app._reply_consumer)
            connection = connection_of(app)
            await driver.start(KafkaLedger(connection, driver.config.namespace), KafkaTopicAdmin(connection))
            if app.producer_only:  # no consumer will subscribe
                await driver.join(_hello(driver))

    async def stop() -> None:
        await on_stop()
        with driver.failing_open("to note what its tables hold", then=STOPS):
            driver.tables.leave()
        with driver.failing_open("to leave", then=STOPS):
            await driver.stop()

    app.on_start, app.on_stop = start, stop


def _refuse(driver: FaustDriver) -> None:
    """Refuse combinations of settings that cannot be supported, as far as the app's own settings show."""
    if driver.config.classic and in_transactions(driver.app):
        raise InstallError(
            "classic needs markers, and a service with processing_guarantee=exactly_once sends none",
            hint="leave classic out: headers do it",
        )


def _refuse_transport(consumer: Any) -> None:
    """Refuse an unknown consumer. Asked when this worker has joined, so that the ledger names a worker that cannot
    take part.

    Raises:
        UnknownClientError: the positions and commits of such a consumer are unknown.
    """
    from faust.transport.drivers.aiokafka import Consumer

    if not isinstance(consumer, Consumer):
        raise UnknownClientError(f"the transport {type(consumer).__module__} is not aiokafka's")


class UnknownClientError(Exception):
    """A client of Kafka that the driver was not written for."""


def connection_of(app: Any) -> Connection:
    """Return the connection to the app's broker, for our own clients: from `SNAPKAFKA_KAFKA_*` if set, else from the
    app's settings."""
    from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth, server_list

    conf = app.conf
    bootstrap = ",".join(server_list(conf.broker, 9092))
    if settings := Security.from_environment(os.environ):
        return Connection.secured(bootstrap, settings)
    return Connection(
        bootstrap=bootstrap,
        security=dict(credentials_to_aiokafka_auth(conf.broker_credentials, conf.ssl_context)),
    )


# -- the consumer -----------------------------------------------------------------------------------------------


def _sew_consumer(driver: FaustDriver, consumer: Any) -> None:
    subscribe, resuming, announcing = (
        consumer.subscribe,
        Resuming(consumer, driver.stand_down),
        Announcing(driver, consumer),
    )
    driver.resuming, driver.announcing = resuming, announcing

    async def say_hello_then_subscribe(topics: Any) -> None:
        if driver.machine.process is None and not driver.absent:
            with driver.failing_open("to join"):
                driver.tables.attach()
                _report_uncaptured(driver)
                hello = await hello_of(driver, topics)
                _report_missing(driver, hello)
                await driver.join(hello)
                _refuse_transport(consumer)
        await _wait_for_restores(driver, topics)
        await subscribe(topics)
        if not driver.absent:
            with driver.failing_open("to keep metadata in commits"):
                keep_metadata(driver.restored, consumer._thread._ensure_consumer())

    async def announce(*args: Any, **kwargs: Any) -> None:
        """Announce the inputs (R9): Faust waits for this before it resumes them."""
        try:
            if driver.absent or not await announcing.announce():
                return  # or Faust has been given others meanwhile, and begins anew
            if driver.outgoing.transactions is not None:
                driver.outgoing.transactions.kept(consumer)
            resuming.announced()
        except Exception as error:
            driver.stand_down("to end a rebalance", error)

    acknowledge, events = consumer.ack, driver.events
    recover_to_the_end(driver.app, consumer)

    def acknowledged(message: Any) -> bool:
        """Note an acknowledgement, also by `event.ack()`, which no sensor sees."""
        done = bool(acknowledge(message))
        try:
            if events.parked:
                events.acknowledged(message.tp, message.offset)
        except Exception as error:
            driver.stand_down("to note that an event is acknowledged", error)
        return done

    consumer.ack = acknowledged
    driver.app.on_rebalance_complete.connect(announce, weak=False)
    consumer.subscribe = say_hello_then_subscribe


async def _wait_for_restores(driver: FaustDriver, topics: Any) -> None:
    """Hold the inputs as a restore asks: the one place that fails closed. A fault of ours still stops nothing (R15)."""
    if driver.restored.joined or runs_no_agents(driver.app):
        return
    try:
        await driver.restored.known(lambda: plans_of_app(driver.app))
        if not driver.absent:
            await driver.restored.hold()
            await commit_restored(driver, driver.admin, topics)
    except InstallError:
        raise
    except Exception as error:
        if driver.absent:
            logger.warning(
                "snapkafka: could not see whether the app was restored: %r", error, extra=driver.about()
            )
        driver.stand_down("to see whether a restore is open", error)


def _report_uncaptured(driver: FaustDriver) -> None:
    """Log what no snapshot of this app holds."""
    for what in uncaptured(driver.app, driver.recorder.agent):
        logger.warning("snapkafka: %s", what, extra=driver.about())


def _report_missing(driver: FaustDriver, hello: Hello) -> None:
    """Log the inputs that this worker will not consume, even if they are created soon: Faust itself logs one line for
    them."""
    for topic in hello.missing:
        logger.warning("snapkafka: %s", Unread(app=hello.app, topic=topic), extra=driver.about())


def _on_revoked(driver: FaustDriver) -> Callable[..., Any]:
    async def revoked(*args: Any, **kwargs: Any) -> None:
        try:
            if driver.resuming is not None:
                driver.resuming.taken_away()  # also where we take no part any more: it may hold some
            if driver.announcing is not None:
                driver.announcing.taken_away()
            if driver.absent:
                return
            for queues in (driver.events, driver.replies, driver.tables, driver.outgoing.attached):
                queues.taken_away()
            driver.feed(InputsTaken())
        except Exception as error:
            driver.stand_down("to note that its inputs are revoked", error)

    return revoked


def _hello(driver: FaustDriver, **more: Any) -> Hello:
    """Return the `Hello` of this process. A process that runs no agents is an app of its own without inputs: a sender
    that closes at once.

    Under the name of its app it would stand for workers that do not run, and no process would cut their inputs.
    """
    app = driver.app
    return Hello(
        n=0,
        app=f"{app.conf.id}{OF_CLIENTS}" if runs_no_agents(app) else app.conf.id,
        host=socket.gethostname(),
        pid=os.getpid(),
        release=__version__,
        mode=driver.config.mode,
        **more,
    )


async def hello_of(driver: FaustDriver, topics: Any) -> Hello:
    """Return a `Hello` with what this worker reads: its subscription without Faust's own topics (changelogs, leader,
    replies)."""
    app = driver.app
    if runs_no_agents(app):
        return _hello(driver)  # it reads without a group: from now on, and nothing that it could go back to
    tables = list(app.tables.values())
    changelogs = {table.changelog_topic_name for table in tables}
    inputs = sorted(set(topics) - changelogs - internal_topics(app))
    described = await _described(driver, [*inputs, *sorted(changelogs)])
    return _hello(
        driver,
        inputs=tuple(_input(app, topic, described[topic]) for topic in inputs if topic in described),
        tables=tuple(_table(table, described) for table in tables),
        uncaptured=(
            *uncaptured(app, driver.recorder.agent),
            *map(driver.looks.of_thread, driver.looks.threads),
        ),
        sources=driver.config.sources,
        retention=await _retention(driver, sorted(changelogs & described.keys())),
        reset=app.conf.consumer_auto_offset_reset,
        missing=tuple(t for t in inputs if t not in described and not _declared_by_faust(app, t)),
        agents=tuple(agents_of(app, driver.recorder.agent)),
    )


def _declared_by_faust(app: Any, topic: str) -> bool:
    """Return whether Faust itself creates a topic that does not exist yet: one of a `group_by`, or state."""
    channels = [channel for channel in app.topics if topic in channel.topics]
    return bool(app.conf.topic_allow_declare and channels and all(channel.internal for channel in channels))


async def _retention(driver: FaustDriver, changelogs: list[str]) -> tuple[Retention, ...]:
    """Return the retention settings of changelogs, as far as this worker may read them: V3 believes no later settings
    alone."""
    from snapkafka.checks.retention import promised_by  # nothing else of the checks is for a service

    async def promised(changelog: str) -> Retention | None:
        while True:
            try:
                holding, _ = await driver.admin.topic_settings(changelog)
            except BrokerUnavailableError:
                await asyncio.sleep(LOOK_AGAIN_S)
            except SnapkafkaError:
                return None  # it may not see it
            else:
                return promised_by(changelog, holding)

    asked = [asyncio.ensure_future(promised(changelog)) for changelog in changelogs]
    if asked:
        await asyncio.wait(asked, timeout=PROMISED_WITHIN_S)
    for one in asked:
        one.cancel()
    told = await asyncio.gather(*asked, return_exceptions=True)
    for error in told:
        if isinstance(error, Exception):
            raise error
    return tuple(found for found in told if isinstance(found, Retention))


async def _described(driver: FaustDriver, topics: list[str]) -> dict[str, Any]:
    """Describe topics. Faust has just created some of them, and the broker may take a moment to show them; others may
    never exist."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SEEN_WITHIN_S
    while True:
        described: dict[str, Any] = dict(await driver.admin.describe_topics(topics))
        if len(described) == len(topics) or loop.time() > deadline:
            return described
        await asyncio.sleep(LOOK_AGAIN_S)


def _input(app: Any, topic: str, described: Any) -> InputTopic:
    key_codec, value_codec = codecs_of(app, topic)
    return InputTopic(
        topic=topic,
        partitions=described.partitions,
        topic_id=described.topic_id,
        key_codec=key_codec,
        value_codec=value_codec,
    )


def _table(table: Any, described: Any) -> Table:
    topic = table.changelog_topic_name
    known = described.get(topic)
    return Table(
        name=table.name,
        changelog=topic,
        partitions=known.partitions if known else 0,
        key_codec=codec_name(table.key_serializer),
        value_codec=codec_name(table.value_serializer),
        topic_id=known.topic_id if known else "",
        expires_ms=expires_ms(table),
        sets=of_sets(table),
        windowed=table.window is not None,
        copartitioned=copartitioned(table),
        is_global=is_global(table),
        kind=type(table).__name__,
        key_type=type_name(table.key_type),
        value_type=type_name(table.value_type),
    )
