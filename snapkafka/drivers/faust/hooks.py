"""The hooks of Faust that snapkafka patches, all in one table.

`install` may come right after `faust.App(...)`, when nothing may be touched that would finalise the app, or at the end
of the module, when some of these exist already: factories are wrapped, and what exists is wrapped in place.

Faust's release is looked up before (`support`). If one fails to hold all the same, the worker takes no part
from then on (`guard`): it never joins, or withdraws in the ledger with the reason, so nobody waits for it, and what it
sends has no stamp (R15).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..patches import watch_made
from .inbound.conductor import IncomingRecords
from .inbound.recorder import Recorder
from .inbound.streams import watch_streams
from .support import at_start, refusal
from .tables.changelogs import delay_compaction
from .web import serve

if TYPE_CHECKING:
    from .driver import FaustDriver

#: Whatever is replaced of objects of Faust and of aiokafka, and what for; `__class__`: it gets a subclass.
PATCHED: Final[Mapping[str, str]] = {
    "App._new_producer": "the producer is watched (`outbound.producer`)",
    "App._new_conductor": "what comes in passes us (`inbound.conductor`)",
    "App._new_consumer": "its group is watched (`inbound.membership`)",
    "App._new_web": "`/snapkafka/` on its web server (`web`)",
    "App.on_start": "start of the ledger's tasks",
    "App.on_stop": "their end",
    "App.stream": "who reads what (`inbound.streams`)",
    "App.maybe_start_producer": "its guard is skipped once it has started (`outbound.producer`)",
    "Producer._new_producer": "aiokafka's producers stamp (`aio_client`)",
    "ProducerBuffer.put": "the colour of what waits in the buffer (`outbound.producer`)",
    "ProducerBuffer._send_pending": "what leaves the buffer has entered",
    "AIOKafkaProducer.send": "a send enters (`aio_client`)",
    "MessageAccumulator._append_batch": "batches stamp what is appended",
    "AIOKafkaProducer.send_offsets_to_transaction": "the ends of transactions (`outbound.producer`)",
    "AIOKafkaProducer.commit_transaction": "their sends are acknowledged",
    "AIOKafkaProducer.abort_transaction": "they are not",
    "AIOKafkaProducer.stop": "nor are those of an open one",
    "Conductor._build_handler": "headers and markers (`inbound.conductor`)",
    "Consumer.subscribe": "`Hello`: what the app reads is known, nothing is sent yet (`inbound.membership`)",
    "Consumer.ack": "the end of events that are acknowledged by hand",
    "Consumer.stop_flow": "what is held back is forgotten",
    "Consumer._getmany": "inputs resume last (`inbound.resume`)",
    "Consumer.highwaters": "tables of exactly-once apps are recovered (`tables.changelogs`)",
    "AIOKafkaConsumer.commit": "what agents skip stands in the metadata (`restores`)",
    "SubscriptionState.assign_from_subscribed": "records that are never read (`reading`)",
    "Fetcher.request_offset_reset": "records that are never read",
    "Consumer.perform_seek": "inputs resume last (`inbound.resume`)",
    "Consumer.resume_flow": "inputs resume last",
    "SensorDelegate.on_stream_event_in": "an event starts (`inbound.running_events`)",
    "SensorDelegate.on_stream_event_out": "it ends",
    "SensorDelegate.on_message_out": "or is acknowledged",
    "Stream.__class__": "batches, acknowledgement by hand (`inbound.streams`)",
    "ReplyConsumer.add": "who asked, for replies (`inbound.running_events`)",
    "Table.__class__": "reads of a whole table, its changelog, its store (`tables.reads`)",
    "Table._sensor_on_get": "reads of a key (`tables.reads`)",
    "Table._sensor_on_set": "writes of a key",
    "Table._sensor_on_del": "writes of a key",
    "ChangeloggedSetManager.send_changelog_event": "a set is changed (`tables.changelogs`)",
    "Store.pop": "a window expires",
}


def install_hooks(driver: FaustDriver) -> None:
    """Attach the driver to its app; the app must not be touched in a way that finalises it."""
    app = driver.app

    def wrap(name: str, attach: Callable[[Any], Any], existing: Any) -> None:
        watch_made(driver, app, name, attach, f"to patch what Faust's {name} creates", existing)

    with driver.failing_open("to patch Faust", for_good=True):
        driver.events.attach(app.sensors)
        watch_streams(driver)
        wrap("_new_producer", driver.producer_made, app._producer)
        # a cached property: there once it was used
        wrap("_new_conductor", partial(IncomingRecords, driver), app.__dict__.get("topics"))
        wrap("_new_consumer", driver.consumer_made, app._consumer)
        app.on_partitions_revoked.connect(driver.inputs_revoked, weak=False)
        _wrap_life(driver)
        if driver.config.web:
            serve(driver)
        if app.configured:
            _configured(driver)
        else:
            app.on_after_configured.connect(lambda *args, **kwargs: _configured(driver), weak=False)


def _configured(driver: FaustDriver) -> None:
    """Create what needs the settings of the app. What keeps it out of snapshots is known before
    the worker joins; it joins all the same, and withdraws, so that the ledger names it (`FaustDriver.join_usable`)."""
    with driver.failing_open("to read the app's settings"):
        if why := refusal(driver.app):
            driver.log("%s", why, level=logging.ERROR)
    with driver.failing_open("to create its recorder", for_good=True):
        driver.recorder = Recorder(driver)


def _wrap_life(driver: FaustDriver) -> None:
    on_stop = driver.app.on_stop

    async def started() -> None:
        if driver.absent:
            return
        with driver.failing_open("to start", for_good=True):
            delay_compaction(driver.app, driver.config.changelog_lag)
            await driver.begin()

    async def stop() -> None:
        await on_stop()
        with driver.failing_open("to leave", then="this worker stops anyway"):
            await driver.stop()

    at_start(driver.app, after=started)
    driver.app.on_stop = stop
