"""The hooks of Faust that snapkafka patches, all in one place.

| hook | for |
|---|---|
| `app._new_producer` -> `producer.send`, `producer.buffer.put` | stamping (`outbound.producer`) |
| `app.maybe_start_producer` | its guard is skipped once it has started (`outbound.fast_path`) |
| `app._attachments.put` | what leaves with a commit (`outbound.commit_attachments`) |
| the batches of aiokafka's producer | what needs no wait is appended in one step (`outbound.fast_path`) |
| `producer._new_producer` -> the ends of transactions | when their sends are acknowledged (`outbound.transactions`) |
| `app._new_conductor` -> `conductor._build_handler` | headers and markers (`inbound.conductor`) |
| `app._new_consumer` -> `consumer.subscribe` | `Hello`: what the app reads is known, nothing is sent yet |
| `app.on_rebalance_complete` | `Assigned`: tables are recovered, inputs not resumed yet (`inbound.assignment`) |
| `resume_partitions`, `perform_seek`, `resume_flow`, `_getmany` | inputs resume last (`inbound.resume`) |
| `app.on_partitions_revoked` | inputs are revoked |
| methods of `app.sensors` | events and tables (`inbound.sensors`) |
| `app.stream` | batches, acknowledgement by hand, who reads what (`inbound.streams`) |
| `app._reply_consumer.add` | who asked, for replies (`inbound.replies`) |
| `table.on_changelog_event`, tables of sets | colours of what comes in (`tables.changelogs`) |
| views, copies and iterators of tables | what is read later than at the first look (`tables.reads`, `tables.views`) |
| `pop` of stores with windows; the ends of a rebalance, of a recovery | what no sensor hears (`tables.changelogs`) |
| `table.persisted_offset` | what a store holds and is not read again (`tables.changelogs`) |
| `consumer.highwaters` | tables of exactly-once apps are recovered (`tables.recovery`) |
| `table.apply_changelog_batch` | records of before a restore are left out (`tables.changelogs`) |
| `commit` of aiokafka's consumer | what agents skip stands in the metadata (`restores`) |
| `consumer.ack` | the end of events that are acknowledged by hand |
| `app.on_start`, `app.on_stop` | start and stop of the ledger's tasks |
| `app._new_web` | `/snapkafka/` on its web server (`web`) |

`install` may come right after `faust.App(...)`, when nothing may be touched that would finalise the app, or at the end
of the module, when some of these exist already: factories are wrapped, and what exists is wrapped in place.

That Faust has them all is looked up before (`support`). If one fails to hold all the same, the worker takes no part
from then on (`guard`): it never joins, or withdraws in the ledger with the reason, so nobody waits for it, and what it
sends has no stamp (R15).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from snapkafka.errors import InstallError
from snapkafka.kafka.admin import KafkaTopicAdmin
from snapkafka.kafka.ledger import KafkaLedger
from snapkafka.protocol.events import InputsTaken
from snapkafka.protocol.records import Hello
from snapkafka.protocol.snapshots import Unread

from .connection import connection_of
from .describe import (
    in_transactions,
    runs_no_agents,
    uncaptured,
)
from .factories import wrap_factory
from .hello import hello_of, process_hello
from .inbound.assignment import Announcing
from .inbound.conductor import Incoming
from .inbound.recorder import Recorder
from .inbound.resume import Resuming
from .inbound.streams import watch_streams
from .outbound.fast_path import skip_producer_guard
from .outbound.producer import Outgoing
from .restores import keep_metadata, plans_of_app
from .tables.recovery import recover_to_the_end
from .uncommitted import commit_restored
from .web import serve

if TYPE_CHECKING:
    from .driver import FaustDriver

__all__ = ["sew"]

logger = logging.getLogger("snapkafka")

#: Where a fault is met at the end.
STOPS: Final = "this worker stops all the same"


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
    skip_producer_guard(driver.app, producer, driver.stand_down)


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
                await driver.join(process_hello(driver))

    async def stop() -> None:
        await on_stop()
        with driver.failing_open("to note what its tables hold", then=STOPS):
            driver.tables.leave()
        with driver.failing_open("to leave", then=STOPS):
            await driver.stop()

    app.on_start, app.on_stop = start, stop


def _refuse(driver: FaustDriver) -> None:
    """Return what cannot be had together, as far as the app's own settings show."""
    if driver.config.classic and in_transactions(driver.app):
        raise InstallError(
            "classic needs markers, and a service with processing_guarantee=exactly_once sends none",
            hint="leave classic out: headers do it",
        )


def _refuse_transport(consumer: Any) -> None:
    """Asked when this worker has joined: so the ledger names one that cannot take part.

    Raises:
        UnknownClientError: positions and commits of such a consumer are not known here.
    """
    from faust.transport.drivers.aiokafka import Consumer

    if not isinstance(consumer, Consumer):
        raise UnknownClientError(f"the transport {type(consumer).__module__} is not aiokafka's")


class UnknownClientError(Exception):
    """A client of Kafka that the driver was not written for."""


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
        """R9: Faust waits for this before it lets the inputs go."""
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
        """Also for who acknowledges by `event.ack()`, of which no sensor hears."""
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
    """Name what no snapshot of this app holds."""
    for what in uncaptured(driver.app, driver.recorder.agent):
        logger.warning("snapkafka: %s", what, extra=driver.about())


def _report_missing(driver: FaustDriver, hello: Hello) -> None:
    """Name the inputs that this worker will not consume, however soon they are created: Faust logs one line of them."""
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
