"""The reads of tables by running events, the first one and later ones (R6).

A table is given a subclass when it is attached, with the layout of the original one: it derives from that alone. It
sees look-ups by key and writes, tables read as a whole, views and iterators, and values that an event can see change
while it holds them. Such values are the objects of a table in memory (a list or a record is the same object for all
readers), and the sets of a table of sets. A table in RocksDB decodes a new object for each look-up.

A table may be read in another thread than the loop's: the moment of the loop is unknown then, so it counts as a read by
all running events, held until they end. It is also reported by name, as a thread may pass what it has read to events
that start later, and no hook sees that. The loop processes such reads before anything is sent and before any event
ends, even if the event blocks the loop while it waits for the thread.

A view may be kept as long as its owner likes, and reads the table whenever it is used: so whoever uses one holds the
table (R6). After a fault of ours they are plain views (R15).
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import operator
import threading
import uuid
from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from snapkafka.protocol.colours import Cause

from ...patches import contained
from ..describe import of_sets

if TYPE_CHECKING:
    from ..driver import FaustDriver

T = TypeVar("T")

USED: Final = "to record how a table is used"

#: Objects of these types never change.
FIXED: Final[frozenset[type]] = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes, range),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
    }
)


def is_fixed(value: Any) -> bool:
    """Return whether neither a value nor anything in it can ever change in place."""
    kind = type(value)
    if kind in FIXED or isinstance(value, enum.Enum):
        return True
    return kind in (tuple, frozenset) and all(map(is_fixed, value))


Uses = Mapping[str, Callable[..., Any]]


class Reads:
    """The reads of the tables of one app.

    Attributes:
        unnoted: table -> the thread that has read it, and the machine does not know yet.
    """

    def __init__(self, driver: FaustDriver) -> None:
        self._driver, self._machine = driver, driver.machine
        self.unnoted: dict[str, str] = {}
        self._logged: set[str] = set()  # tables that another thread has read

    def note(self, what: Callable[..., T], *args: Any) -> T | None:
        """Note something, in the midst of the app's own work (R15); None after a fault of ours."""
        return self._driver.note(USED, what, *args)

    # -- keys ---------------------------------------------------------------------------------------------------

    def touched(self, table: Any, key: Any, *, write: bool = False) -> None:
        """Note that the event running here reads or writes a key."""
        if get_ident() != self._driver.thread and self._elsewhere(table, key, write=write):
            return
        if self._machine.colours.tearing:
            self.touched_by(self._driver.events.cause(), table, key, write=write)

    @contained(USED)
    def touched_by(self, cause: Cause | None, table: Any, key: Any, *, write: bool = True) -> None:
        """Note that an event uses a key, in the thread of the loop; None: no event does."""
        colours = self._machine.colours
        if colours.tearing:
            self._driver.do(self._machine.torn(colours.touch(cause, table.name, key, write=write)))

    def note_lookup(self, table: Any, key: Any) -> None:
        """Note that the event running here has read a value that it can see change."""
        if not table.in_place or self._driver.absent:
            self.touched(table, key)
        elif get_ident() == self._driver.thread or not self._elsewhere(table, key, write=False):
            self.held(table, key)

    def held(self, table: Any, key: Any) -> None:
        """Note that the event running here holds a value that can change in place."""
        cause = self._driver.events.cause()
        if cause is not None:
            torn = self._machine.colours.hold(cause, table.name, key, unrecorded=not table.of_sets)
            if torn:
                self._driver.do(self._machine.torn(torn))

    @contained(USED)
    def rewritten(self, table: Any) -> None:
        """Note that Faust has changed a table as a whole without a record."""
        if self._machine.colours.tearing:
            self._driver.do(self._machine.torn(self._machine.colours.rewritten(table.name)))

    # -- whole tables -------------------------------------------------------------------------------------------

    def hold_whole(self, table: Any) -> None:
        """Note that the event running here iterates over a table, counts, compares or copies it: it may read any key
        until it ends."""
        if self._driver.absent:
            return
        if get_ident() != self._driver.thread and self._elsewhere(table, None, write=False):
            return
        cause, colours = self._driver.events.cause(), self._machine.colours
        if cause is not None and cause in colours.running:
            self._driver.do(self._machine.torn(colours.iterate(cause, table.name)))
        elif colours.tearing:
            self._driver.do(self._machine.torn(self._machine.colours.touch_whole(cause, table.name)))

    # -- other threads ------------------------------------------------------------------------------------------------

    def _elsewhere(self, table: Any, key: Any, *, write: bool) -> bool:
        """Pass what another thread does to the loop, before any consequence of it can arrive there."""
        driver = self._driver
        if driver.thread is None or driver.absent:
            return driver.absent != ""
        if write:
            driver.in_loop(self.touched_by, driver.events.cause(), table, key)
        elif table.name not in self.unnoted:
            self.unnoted[table.name] = threading.current_thread().name
            driver.in_loop(self.note_threads)
        return True

    @contained(USED)
    def note_threads(self) -> None:
        """Process the reads of other threads: before an event that may have waited for them sends or ends."""
        while self.unnoted:
            table, thread = self.unnoted.popitem()
            for event in list(self._machine.colours.running):
                self._driver.do(self._machine.torn(self._machine.colours.iterate(event, table)))
            if table not in self._logged:
                self._logged.add(table)
                self._driver.log(
                    "thread %s reads table %s: that counts for all events that run at the time; what it hands on to"
                    " later ones is in no snapshot",
                    thread,
                    table,
                )


# -- the classes of tables ---------------------------------------------------------------------------------------------


def attach(driver: FaustDriver, table: Any) -> None:
    """Give a table a subclass of its class that reports reads, writes and what comes in by its changelog."""
    from faust.stores.base import SerializedStore

    original: Any = table.__class__
    table.reads, table.of_sets = driver.reads, of_sets(table)
    #: Does it hand out the objects that it keeps, and has it any that can change?
    table.keeps_objects = table.of_sets or not isinstance(table.data, SerializedStore)
    table.in_place = table.of_sets
    members = {name: getattr(original, name) for name in ("__qualname__", "__module__")}
    members |= _used(driver.reads, original, of_sets=table.of_sets)
    ours: tuple[Any, ...] = (*_hot(driver, original), *_coming_in(driver, original))
    members |= {function.__name__: function for function in ours}
    table.__class__ = type(original)(original.__name__, (original,), members)


def _hot(driver: FaustDriver, original: Any) -> Any:
    """Return the methods through which each use of one key passes."""
    reads, machine = driver.reads, driver.machine
    get, send = original.on_key_get, original.send_changelog

    def on_key_get(self: Any, key: Any) -> None:
        get(self, key)
        try:
            if self.in_place or machine.colours.tearing or get_ident() != driver.thread:
                reads.note_lookup(self, key)
        except Exception as error:
            driver.stand_down(USED, error)

    def send_changelog(
        self: Any,
        partition: Any,
        key: Any,
        value: Any,
        key_serializer: Any = None,
        value_serializer: Any = None,
    ) -> Any:
        """Send a change: each write of a key, and each operation on a set, is one."""
        sent = send(self, partition, key, value, key_serializer, value_serializer)
        try:
            if machine.colours.tearing or get_ident() != driver.thread:
                # The key of an operation follows that.
                reads.touched(self, key[1] if self.of_sets else key, write=True)
            may_change = type(value) not in FIXED and self.keeps_objects and not self.of_sets
            if may_change and not driver.absent and not is_fixed(value):
                self.in_place = True  # its writer still holds the object, and others are handed it
                if get_ident() == driver.thread:
                    reads.held(self, key)
        except Exception as error:
            driver.stand_down(USED, error)
        return sent

    return on_key_get, send_changelog


def _coming_in(driver: FaustDriver, original: Any) -> Any:
    """Return the methods through which a changelog and a store come in."""
    reads, tables = driver.reads, driver.tables

    async def on_changelog_event(self: Any, event: Any) -> None:
        if reads.note(tables.comes_in, self, event) is not False:
            await original.on_changelog_event(self, event)

    def apply_changelog_batch(self: Any, batch: Any) -> Any:
        batch = list(batch)
        applied = reads.note(tables.to_apply, batch)
        return original.apply_changelog_batch(self, batch if applied is None else applied)

    def persisted_offset(self: Any, tp: Any) -> Any:
        driver.restored.renew_store(self, tp)
        offset = original.persisted_offset(self, tp)
        reads.note(tables.store_asked, tp, offset)
        return offset

    return on_changelog_event, apply_changelog_batch, persisted_offset


def _used(reads: Reads, original: Any, *, of_sets: bool) -> dict[str, Any]:
    """Return the methods by which a table is used as a whole, or changes as a whole, by their names."""

    def clone(self: Any, **options: Any) -> Any:
        return original(**{**self.info(), **options})  # nobody has attached that one

    def noting(name: str, note: Callable[..., None]) -> Callable[..., Any]:
        does = getattr(original, name)

        def noted(self: Any, *args: Any) -> Any:
            reads.note(note, self, *args)
            return does(self, *args)

        return noted

    def viewed(name: str, kind: Any) -> Callable[..., Any]:
        make = getattr(original, name)

        def view(self: Any) -> Any:
            found = make(self)
            noting_one = reads.note(kind, found, self)
            return found if noting_one is None else noting_one

        return view

    def changing(name: str) -> Callable[..., Any]:  # without a record
        change = getattr(original, name)

        async def changed(self: Any, *args: Any, **options: Any) -> None:
            try:
                await change(self, *args, **options)
            finally:  # also if it fails half-way
                reads.rewritten(self)

        return changed

    members = {name: changing(name) for name in ("on_rebalance", "on_recovery_completed")}
    members |= {name: noting(name, reads.hold_whole) for name in ("__iter__", "__len__", "copy")}
    members |= {name: viewed(name, kind) for name, kind in VIEWS.items()}
    members |= {"clone": clone, "__contains__": noting("__contains__", reads.touched)}
    return members | ({"__getitem__": noting("__getitem__", reads.note_lookup)} if of_sets else {})


#: What a view does with the whole table. Whether a key is in it is a look-up by that key.
KEY_USES: Final[Uses] = {"__iter__": iter, "__reversed__": reversed, "__len__": len, "__repr__": repr}
USES: Final[Uses] = {**KEY_USES, "__contains__": operator.contains}


def _view_of(kind: Any, uses: Uses) -> Any:
    """Return a class of views that report their use.

    Args:
        kind: of views, with all that follows from these uses.
    """

    def __init__(self: Any, view: Any, table: Any) -> None:  # noqa: N807
        self._view, self._mapping = view, table

    def reporting(use: Callable[..., Any]) -> Callable[..., Any]:
        def used(self: Any, *args: Any) -> Any:
            table = self._mapping
            table.reads.note(table.reads.hold_whole, table)
            return use(self._view, *args)

        return used

    mapping = property(lambda self: MappingProxyType(self._mapping), doc="The table, read-only.")
    members = {name: reporting(use) for name, use in uses.items()}
    return type(kind.__name__, (kind,), {**members, "__init__": __init__, "mapping": mapping})


VIEWS: Final = {
    "keys": _view_of(KeysView, KEY_USES),
    "values": _view_of(ValuesView, USES),
    "items": _view_of(ItemsView, USES),
}
