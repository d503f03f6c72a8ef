"""The hooks of Faust that snapkafka patches, all in one table.

`install` may come right after `faust.App(...)`, when nothing may be touched that would finalise the app, or at the end
of the module, when some of these exist already: what exists is patched in place. Most are patched when the app starts,
and has created them.

Faust's release is looked up before (`support`). If one fails to hold all the same, the worker takes no part from then
on: it never joins, or withdraws in the ledger with the reason, so nobody waits for it, and what it sends has no stamp
(R15).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..patches import after
from .inbound.streams import watch_streams
from .support import at_start
from .tables.changelogs import delay_compaction
from .web import serve

if TYPE_CHECKING:
    from .driver import FaustDriver

#: Whatever is replaced of objects of Faust and of aiokafka, and what for; `__class__`: it gets a subclass.
PATCHED: Final[Mapping[str, str]] = {
    "App._new_producer": "the producer is watched (`outbound.producer`)",
    "App.on_start": "what Faust has created by then is patched; start of the ledger's tasks",
    "App.on_stop": "their end",
    "App.stream": "who reads what (`inbound.streams`)",
    "App.maybe_start_producer": "its guard is skipped once it has started (`outbound.producer`)",
    "Producer._new_producer": "aiokafka's producers stamp (`aio_client`)",
    "ProducerBuffer.put": "the colour of what waits in the buffer (`outbound.producer`)",
    "ProducerBuffer._send_pending": "what leaves the buffer has entered",
    "AIOKafkaProducer.send": "a send enters (`aio_client`)",
    "MessageAccumulator._append_batch": "batches stamp what is appended",
    "TransactionManager.__class__": "the ends of transactions, and positions in them (`outbound.producer`)",
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
    "Stream._on_stream_event_in": "an event starts (`inbound.running_events`)",
    "Stream._on_stream_event_out": "it ends",
    "Stream.__class__": "batches, acknowledgement by hand (`inbound.streams`)",
    "ReplyConsumer.add": "who asked, for replies (`inbound.running_events`)",
    "Table.__class__": "its reads and writes, its changelog, its store (`tables.reads`)",
    "Store.pop": "a window expires (`tables.changelogs`)",
}


def install_hooks(driver: FaustDriver) -> None:
    """Attach the driver to its app; the app must not be touched in a way that finalises it."""
    app, on_stop = driver.app, driver.app.on_stop

    async def started() -> None:
        driver.attach()
        if driver.config.web:
            await serve(driver)
        if driver.absent:
            return
        with driver.failing_open("to start", for_good=True):
            delay_compaction(app, driver.config.changelog_lag)
            await driver.begin()

    async def stop() -> None:
        await on_stop()
        with driver.failing_open("to leave", then="this worker stops anyway"):
            await driver.stop()

    with driver.failing_open("to patch Faust", for_good=True):
        watch_streams(driver)
        after(driver, app, "_new_producer", driver.producer_made, "to patch its producer")
        if app._producer is not None:
            driver.producer_made(app._producer)
        app.on_partitions_revoked.connect(driver.inputs_revoked, weak=False)
        at_start(app, after=started)
        app.on_stop = stop
