"""The common settings of the demo's parts: names, amounts, and the broker (from the environment)."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any, Final

PARTITIONS: Final = 4
ACCOUNTS: Final = 400
OPENING_BALANCE: Final = 1_000
#: The constant that the money must always add up to, wherever it is at the moment.
TOTAL: Final = ACCOUNTS * OPENING_BALANCE

#: From outside: transfer money, or open an account. The slow ones wait for somebody between table and send.
REQUESTS: Final = "requests"
SLOW_REQUESTS: Final = "slow-requests"
#: accounts -> clearing: money that has left one account.
TRANSFERS: Final = "transfers"
#: clearing -> accounts: money that is about to reach another.
CREDITS: Final = "credits"
TOPICS: Final = (REQUESTS, SLOW_REQUESTS, TRANSFERS, CREDITS)


def account(number: int) -> str:
    """Return the name of an account, the key of all its records."""
    return f"acct-{number:04d}"


#: For a week a snapshot stays restorable: no value of before its cut gives way to a later one of its key.
CHANGELOG_SETTINGS: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(7 * 24 * 3_600_000)}


def changelog(app_id: str, table: str) -> str:
    """Return the changelog topic of a Faust table."""
    return f"{app_id}-{table}-changelog"


def new_app(name: str) -> Any:
    """Create a Faust app of the demo, with snapkafka in it."""
    import faust

    import snapkafka

    session_s = float(os.environ.get("SNAPKAFKA_DEMO_SESSION_S", "20"))
    app = faust.App(
        name,
        broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
        store="memory://",
        topic_partitions=PARTITIONS,
        topic_disable_leader=True,
        datadir=os.environ.get("SNAPKAFKA_DEMO_DATA"),
        web_enabled=os.environ.get("SNAPKAFKA_DEMO_WEB", "") == "1",
        # Faust takes the environment's BROKER_URL and so on before what stands here: those of another app.
        env={},
        broker_session_timeout=session_s,
        broker_heartbeat_interval=session_s / 10,
    )
    snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])
    _trigger_on_signal(app)
    return app


def _trigger_on_signal(app: Any) -> None:
    """Let SIGUSR1 make this worker request a snapshot: two workers signalled at once are two initiators."""

    @app.task
    async def listen_for_signal() -> None:
        import asyncio
        import signal

        pending: set[Any] = set()

        def ask() -> None:
            pending.add(
                asyncio.ensure_future(app.snapkafka.trigger(who=f"{app.conf.id} worker {os.getpid()}"))
            )

        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, ask)


#: Where things are kept and fetched from, and settings of the demo and of its broker.
OF_THIS_MACHINE: Final = ("SNAPKAFKA_CACHE", "SNAPKAFKA_DEMO_", "SNAPKAFKA_TEST_")
#: The variables that Faust reads before any app.
OF_FAUST: Final = ("FAUST_DATADIR", "F_DATADIR", "FAUST_LOOP", "F_LOOP", "F_WORKDIR")


def forget_other_systems(environ: MutableMapping[str, str]) -> None:
    """Drop settings that are meant for the user's own system: credentials, switches, the place of Faust's data."""
    for name in list(environ):
        if name in OF_FAUST or (name.startswith("SNAPKAFKA") and not name.startswith(OF_THIS_MACHINE)):
            del environ[name]
