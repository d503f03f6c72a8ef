"""An app in a cycle with itself, whose worker dies at the step of cut or closing that a file names.

The driver runs as it is; around each action that the machine asks for, and before each event that it is fed, the
process checks whether this is where it has to die.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from snapkafka.drivers import First
from snapkafka.protocol.actions import Action
from snapkafka.protocol.events import Event, LedgerRead
from tests.features.apps.relaying import app

from .steps import name_of

ORDER = Path(os.environ["DYING_ORDER"])


def die_at(step: str, event: Event | None = None) -> None:
    """As by `kill -9`, once per order; not at a record of a snapshot before, which is read late."""
    try:
        since, _, ordered = ORDER.read_text().partition(" ")
    except FileNotFoundError:
        return
    late = isinstance(event, LedgerRead) and event.offset < int(since)
    if ordered == step and not late:
        ORDER.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


driver = app.snapkafka
do, feed = driver.do, driver.feed


def do_or_die(actions: Sequence[Action], *, us: int = 0) -> First | None:
    asked: First | None = None
    for action in actions:
        die_at(f"before {name_of(action)}")
        asked = do([action], us=us) or asked
        die_at(f"after {name_of(action)}")
    return asked


def feed_or_die(event: Event) -> First | None:
    die_at(f"fed {name_of(event)}", event)
    asked: First | None = feed(event)
    return asked


driver.do, driver.feed = do_or_die, feed_or_die
