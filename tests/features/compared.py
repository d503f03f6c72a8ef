"""The apps whose features are compared, with snapkafka and without: their topics, and who drives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .driving import (
    LOOKED_AT,
    OTHERS,
    drive_alike,
    drive_calls,
    drive_copies,
    drive_shared,
    drive_streams,
    drive_tables,
)
from .harness import Pair
from .judging import Row
from .rows import (
    CALLS,
    COPIES,
    EXACTLY_ONCE,
    LEAVING,
    SHARED,
    STREAMS,
    TABLES,
    WAYS,
    inputs,
    outputs,
)

WAYS_OUTPUTS: Final = [name for row in WAYS for name in (*row.outputs, *row.inner)]
WAYS_CHANGELOGS: Final = ("counted", "rocks")
#: Faust's own table of `key_index=True`.
KEY_INDEX: Final = "by_stream-key_index"


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An app that runs twice.

    `drive` sends its records and waits until both runs are through; what it returns, tests may ask for. `inputs`,
    `outputs` and `changelogs` are those that no row names, `options` others of `running`, `snapshots` how many there
    must be at least, and `in_flight` that messages were on their way in some.
    """

    module: str
    rows: Sequence[Row]
    drive: Callable[[Pair], object]
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    changelogs: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    snapshots: int = 4  # one before, two under load, and the last
    in_flight: bool = True
    long: bool = False

    @property
    def topics(self) -> Mapping[str, Any]:
        """The options of `running`."""
        small = self.options.get("small_changelogs", ())
        inner = [name for row in self.rows for name in row.inner if "<input>" not in name]
        tables = [name for row in self.rows for name in (*row.tables, *row.sets) if name not in small]
        return {
            "inputs": [*inputs(self.rows), *self.inputs],
            "outputs": [*outputs(self.rows), *inner, *self.outputs],
            "changelogs": [*tables, *self.changelogs],
            **self.options,
        }


_CALLS: Final = App(
    module="calls",
    rows=CALLS,
    drive=drive_calls,
    outputs=("square", "sunk", "reply-out"),
    changelogs=("squares",),
    options={"web": True},
)
_COPIES: Final = App(
    module="copies",
    rows=COPIES,
    drive=drive_copies,
    options={"small_changelogs": [*(row.name for row in COPIES), OTHERS], "workers": 2},
    in_flight=False,
    long=True,
)
_EXACTLY_ONCE: Final = App(
    module="transactional",
    rows=EXACTLY_ONCE,
    drive=drive_alike(EXACTLY_ONCE, ("exact-mid", "exact-out", "again-out"), 200, 5.0, stretch=False),
    options={"isolation": "read_committed"},
    snapshots=3,
)
_WAYS: Final = App(
    module="transactional_ways",
    rows=WAYS,
    drive=drive_alike(WAYS, WAYS_OUTPUTS, 200, 5.0, stretch=False),
    options={"isolation": "read_committed"},
    snapshots=3,
    long=True,
)
_LEAVING: Final = App(
    module="leaving",
    rows=LEAVING,
    drive=drive_alike(LEAVING, outputs(LEAVING), 250, 7.0, stretch=True),
    in_flight=False,
)
_SHARED: Final = App(
    module="shared",
    rows=SHARED,
    drive=drive_shared,
    options={"small_changelogs": ["rates"], "workers": 2},
    in_flight=False,
)
_STREAMS: Final = App(module="streams", rows=STREAMS, drive=drive_streams)
_TABLES: Final = App(
    module="tables",
    rows=TABLES,
    drive=drive_tables,
    inputs=("clean", "written", "looks"),
    outputs=("closed-out", "looks-out"),
    changelogs=(KEY_INDEX, *LOOKED_AT),
    snapshots=3,
    in_flight=False,
)
#: By the names of their parameters.
APPS: Final[Mapping[str, App]] = {
    "calls": _CALLS,
    "copies": _COPIES,
    "exactly-once": _EXACTLY_ONCE,
    "exactly-once-ways": _WAYS,
    "leaving": _LEAVING,
    "shared": _SHARED,
    "streams": _STREAMS,
    "streams-pure-python": replace(_STREAMS, env={"NO_CYTHON": "1", "FEATURES_INSTALL": "late"}, long=True),
    "streams-optimized": replace(_STREAMS, env={"FEATURES_CYTHON_OPTIMIZATIONS": "1"}, long=True),
    "tables": _TABLES,
}
