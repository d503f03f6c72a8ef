"""States of the exhaustive search: their copies, and their equality.

Both go over everything that an object holds, field by field, so a new field is copied and compared without being named
here; an unknown type is an error, never a guess.

*Copying.* Immutable objects are shared: frozen dataclasses, named tuples of such, records in a log. Everything else is
copied once, so that one object stays one object.

*Equality.* `Names` gives every immutable value a number, the same for equal values, and turns a mutable object into a
tuple of such. An object that is met again is represented by its number: two states are equal only if they share
objects in the same way. Tuples are compared as they are; there is no digest that two different states could have in
common.

*History.* The simulator's history numbers steps and executions as they happen, so two orders of independent steps would
give two histories. Here an execution is (process, app, agent, input, offset, how many such ran before), and a step is
its place in its execution. Then independent steps in either order lead to one and the same state.
"""

from __future__ import annotations

import io
import pickle
import random
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

from snapkafka.protocol import Cause, LedgerState, TopicPartition
from snapkafka.protocol.records import LedgerRecord
from snapkafka.protocol.snapshots import Reader
from snapkafka.sim import SimStored
from snapkafka.sim.judge import Execution
from snapkafka.sim.world.driver import SimSending
from snapkafka.sim.world.history import History

T = TypeVar("T")

#: Never copied, and its own name.
PLAIN: Final = (int, str, bool, float, type(None), frozenset, TopicPartition, Cause, Reader)
#: Never compared: a fold is what was read of the ledger, and how much that is stands beside it.
UNNAMED: Final = (LedgerState, random.Random)


class Shared:
    """What all worlds of one search have in common."""


def fields(cls: type) -> tuple[str, ...]:
    """Return the slots of a class and of its bases."""
    return tuple(name for base in reversed(cls.__mro__) for name in vars(base).get("__slots__", ()))


def _immutable(cls: type) -> bool:
    parameters = getattr(cls, "__dataclass_params__", None)
    return cls in PLAIN or issubclass(cls, Enum) or (parameters is not None and parameters.frozen)


_SENDING: Final = fields(SimSending)


@cache
def _is_shared(cls: type) -> bool:
    return issubclass(cls, (Fold, SimStored, Shared, random.Random)) or _immutable(cls)


# -- copying -----------------------------------------------------------------------------------------------------------

#: What copies share, while one is made.
_KEPT: Final[list[Any]] = []


def _kept(n: int) -> Any:
    return _KEPT[n]


class _Copier(pickle.Pickler):
    """Takes down everything that may change, and notes what is shared."""

    def reducer_override(self, thing: Any) -> Any:
        cls = type(thing)
        if cls is SimSending and thing.offset < 0:  # its record changes until it is in the log (its stamp)
            rest = (getattr(thing, name) for name in _SENDING[2:])
            return cls, (thing.tp, replace(thing.record), *rest)
        if not _is_shared(cls):  # type: ignore[arg-type]
            return NotImplemented
        _KEPT.append(thing.shared() if cls is Fold else thing)
        return _kept, (len(_KEPT) - 1,)


def copy(thing: T) -> T:
    """Copy a part of a state; one object stays one object."""
    _KEPT.clear()
    taken = io.BytesIO()
    _Copier(taken, pickle.HIGHEST_PROTOCOL).dump(thing)
    return cast(T, pickle.loads(taken.getbuffer()))


class Fold(LedgerState):
    """The fold of the ledger, whose content many worlds share.

    Its content after a record depends only on the content before. So each step is done once, on a copy, and
    remembered; a fold only goes from one remembered state to the next.
    """

    def __init__(self, *, history: bool) -> None:
        super().__init__(history=history)
        self.next: dict[int, tuple[LedgerRecord | None, dict[str, Any]]] = {}

    def apply(self, offset: int, record: LedgerRecord | None) -> None:
        known = self.next.get(id(record))
        if known is None:
            new = LedgerState.__new__(Fold)
            new.__dict__ = copy({name: value for name, value in vars(self).items() if name != "next"})
            new.next = {}
            LedgerState.apply(new, offset, record)
            # It keeps the record alive, so its id stays its own.
            known = self.next[id(record)] = (record, new.__dict__)
        self.__dict__ = known[1]

    def shared(self) -> Fold:
        """Return the same fold, to be fed on its own."""
        new = Fold.__new__(Fold)
        new.__dict__ = self.__dict__
        return new


# -- sameness ----------------------------------------------------------------------------------------------------------


class Names:
    """Numbers for values, kept for one search: a named value keeps its number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._by_id: dict[int, tuple[object, int]] = {}  # keeps what it knows alive, so no id comes twice
        self._how: dict[type, Callable[[Any, dict[int, int]], Hashable]] = {}

    def number(self, value: Hashable) -> int:
        """Return the number of an immutable value."""
        return self._numbers.setdefault(value, len(self._numbers))

    def once(self, thing: T, key: Callable[[T], Hashable]) -> int:
        """Return the number of an object that does not change any more, however often it is asked for."""
        known = self._by_id.get(id(thing))
        if known is None:
            known = self._by_id[id(thing)] = (thing, self.number(key(thing)))
        return known[1]

    def key(self, thing: Any, met: dict[int, int]) -> Hashable:
        """Return the content of a part of a state, as a value. `met`: mutable objects met before, with their
        numbers."""
        if type(thing) in _NAMES_OF_THEIR_OWN:
            return cast(Hashable, thing)
        how = self._how.get(type(thing))
        if how is None:
            how = self._how[type(thing)] = self._how_to_key(type(thing))
        return how(thing, met)

    def keys(self, things: Iterable[Any], met: dict[int, int]) -> Hashable:
        key, own = self.key, _NAMES_OF_THEIR_OWN
        return tuple([x if type(x) in own else key(x, met) for x in things])

    def _how_to_key(self, cls: type) -> Callable[[Any, dict[int, int]], Hashable]:
        if issubclass(cls, UNNAMED):
            return lambda thing, met: None
        if issubclass(cls, Enum):
            return lambda thing, met: cast(Hashable, thing)
        if _immutable(cls):
            return lambda thing, met: self.once(thing, lambda same: cast(Hashable, same))
        if issubclass(cls, tuple) or cls in (list, deque):
            return self.keys
        if cls in (dict, Counter):
            return self._dict_key
        if cls is set:
            return lambda thing, met: frozenset(self.key(item, met) for item in thing)
        slots = fields(cls)

        def object_key(thing: Any, met: dict[int, int]) -> Hashable:
            known = met.get(id(thing))
            if known is not None:
                return ("met", known)
            met[id(thing)] = len(met)
            return self.keys([getattr(thing, name) for name in slots] if slots else vars(thing).values(), met)

        return object_key

    def _dict_key(self, thing: dict[Any, Any], met: dict[int, int]) -> Hashable:
        """Return the content in the order in which the keys came: iteration uses that order."""
        if not thing:
            return ()
        known = met.get(id(thing))
        if known is not None:
            return ("met", known)
        met[id(thing)] = len(met)
        return self.keys(thing, met), self.keys(thing.values(), met)


_NAMES_OF_THEIR_OWN: Final = frozenset(PLAIN)


#: What distinguishes a record in a log; its place does not.
key_of_stored: Final = attrgetter(
    *("process", "epoch", "seq", "marker", "previous", "cause", "ledger"),
    *("key", "hops", "reply_to", "step", "state"),
)


# -- history -----------------------------------------------------------------------------------------------------------

#: No execution has so many steps.
STEPS_MAX: Final = 1000


class NamedHistory(History):
    """A history with names that do not depend on the order of events."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names

    def copied(self) -> NamedHistory:
        new = NamedHistory(self.names)
        new.steps, new.executions = self.steps.copy(), self.executions.copy()
        return new

    def number_of_execution(self, *place: Hashable) -> int:
        again = 0
        while (number := self.names.number(("execution", *place, again))) in self.executions:
            again += 1
        return number

    def number_of_step(self, execution: Execution | None) -> int:
        if execution is not None:
            return execution.number * STEPS_MAX + len(execution.steps)
        return self.names.number(("timer", sum(s.execution < 0 for s in self.steps.values()))) * STEPS_MAX

    def own(self, number: int) -> None:
        """Copy a step that is about to change: the other worlds keep theirs."""
        self.steps[number] = replace(self.steps[number])

    def fail(self, step: int) -> None:
        self.own(step)
        super().fail(step)

    def key(self) -> Hashable:
        """Return a key that is equal for two histories of the same steps, whatever the order of unconnected ones."""
        names = self.names
        steps = frozenset([names.once(step, _step_key) for step in self.steps.values()])
        runs = frozenset(
            [
                (e.number, len(e.steps), tuple(sorted(e.torn_at.items())), e.died, e.undone)
                for e in self.executions.values()
            ]
        )
        return steps, runs


_step_key: Final = attrgetter("number", "what", "after", "record", "failed")
