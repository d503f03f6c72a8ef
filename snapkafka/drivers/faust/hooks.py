"""The hooks of Faust that snapkafka patches, all in one place.

| hook | for |
|---|---|
| `producer._new_producer` -> aiokafka's `send`, and its batches | stamping (`aio_client`) |
| `producer.buffer.put`, `_send_pending` | the colour of what waits in the buffer (`outbound.producer`) |
| `app.maybe_start_producer` | its guard is skipped once it has started (`outbound.producer`) |
| `producer._new_producer` -> the ends of transactions | when their sends are acknowledged (`outbound.transactions`) |
| `app._new_conductor` -> `conductor._build_handler` | headers and markers (`inbound.conductor`) |
| `app._new_consumer` -> `consumer.subscribe` | `Hello`: what the app reads is known, nothing is sent yet |
| `assign_from_subscribed`, `request_offset_reset` of aiokafka's consumer | records that are never read (`reading`) |
| `app.on_rebalance_complete` | `Assigned`: tables are recovered, inputs not resumed yet (`inbound.membership`) |
| `recovery._resume_streams`, `.on_recovery_completed`, `consumer._getmany` | inputs resume last (`inbound.resume`) |
| `app.on_partitions_revoked` | inputs are revoked |
| three methods of `app.sensors`, three of each table | events, keys (`inbound.sensors`) |
| `app.stream` | batches, acknowledgement by hand, who reads what (`inbound.streams`) |
| `app._reply_consumer.add` | who asked, for replies (`inbound.running_events`) |
| `table.on_changelog_event`, tables of sets | colours of what comes in (`tables.changelogs`) |
| views, copies and iterators of tables | what is read later than at the first look (`tables.table_class`) |
| `pop` of stores with windows; the ends of a rebalance, of a recovery | what no sensor hears (`tables.changelogs`) |
| `table.persisted_offset` | what a store holds and is not read again (`tables.changelogs`) |
| `consumer.highwaters` | tables of exactly-once apps are recovered (`tables.changelogs`) |
| `table.apply_changelog_batch` | records of before a restore are left out (`tables.changelogs`) |
| `commit` of aiokafka's consumer | what agents skip stands in the metadata (`restores`) |
| `consumer.ack` | the end of events that are acknowledged by hand |
| `app.on_start`, `app.on_stop` | start and stop of the ledger's tasks |
| `app._new_web` | `/snapkafka/` on its web server (`web`) |

`install` may come right after `faust.App(...)`, when nothing may be touched that would finalise the app, or at the end
of the module, when some of these exist already: factories are wrapped, and what exists is wrapped in place.

Faust's release is looked up before (`support`). If one fails to hold all the same, the worker takes no part
from then on (`guard`): it never joins, or withdraws in the ledger with the reason, so nobody waits for it, and what it
sends has no stamp (R15).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .factories import at_start, wrap_factory
from .support import refusal
from .tables.changelogs import delay_compaction, recover_to_the_end
from .web import serve

if TYPE_CHECKING:
    from .driver import FaustDriver

logger = logging.getLogger("snapkafka")

#: Where a fault is met at the end.
STOPS: Final = "this worker stops anyway"


def install_hooks(driver: FaustDriver) -> None:
    """Attach the driver to its app; the app must not be touched in a way that finalises it."""
    with driver.failing_open("to patch Faust", for_good=True):
        _install_hooks(driver)


def _install_hooks(driver: FaustDriver) -> None:
    app = driver.app

    def wrap(name: str, attach: Callable[[Any], Any], *, existing: Any) -> None:
        def attach_or_stand_down(made: Any) -> None:
            with driver.failing_open(f"to patch what Faust's {name} creates", for_good=True):
                attach(made)

        wrap_factory(app, name, attach_or_stand_down, existing=existing)

    def consumer_made(consumer: Any) -> None:
        recover_to_the_end(app, consumer)
        driver.consumer_made(consumer)

    driver.app_defined()
    wrap("_new_producer", driver.producer_made, existing=app._producer)
    conductor = app.__dict__.get("topics")  # a cached property: there once it was used
    wrap("_new_conductor", driver.conductor_made, existing=conductor)
    wrap("_new_consumer", consumer_made, existing=app._consumer)
    app.on_partitions_revoked.connect(_on_revoked(driver), weak=False)
    _wrap_life(driver)
    if driver.config.web:
        serve(driver)
    if app.configured:
        _configured(driver)
    else:
        app.on_after_configured.connect(lambda *args, **kwargs: _configured(driver), weak=False)


def _configured(driver: FaustDriver) -> None:
    """Create what needs the settings of the app. What keeps it out of snapshots is known before
    the worker joins; it joins all the same, and withdraws, so that the ledger names it (`support.require_usable`)."""
    with driver.failing_open("to read the app's settings"):
        if why := refusal(driver.app):
            logger.error("snapkafka: %s", why, extra=driver.about())
    with driver.failing_open("to create its recorder", for_good=True):
        driver.app_configured()


def _wrap_life(driver: FaustDriver) -> None:
    app = driver.app
    on_stop = app.on_stop

    async def started() -> None:
        driver.app_started()
        if driver.absent:
            return
        with driver.failing_open("to start", for_good=True):
            delay_compaction(app, driver.config.changelog_lag)
            await driver.begin()

    async def stop() -> None:
        await on_stop()
        with driver.failing_open("to leave", then=STOPS):
            await driver.stop()

    at_start(app, after=started)
    app.on_stop = stop


def _on_revoked(driver: FaustDriver) -> Callable[..., Any]:
    async def revoked(*args: Any, **kwargs: Any) -> None:
        try:
            driver.inputs_revoked()
        except Exception as error:
            driver.stand_down("to record that its inputs are revoked", error)

    return revoked
