"""The settings of a service or a command: one value, checked as a whole."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from typing import Final, TypedDict, TypeGuard

from snapkafka.errors import BadInputError, InstallError, SnapkafkaError
from snapkafka.units import duration_ms

#: The ways in which a process may learn of a snapshot (R2).
HEAR_ALL: Final = frozenset({"ledger", "markers", "headers"})

#: How far an app is rolled out.
MODES: Final = ("off", "observe", "stamp", "on")

#: What may stand in the name of a Kafka topic, which the namespace becomes a part of: `_snapkafka.<namespace>`.
NAMESPACE: Final = re.compile(r"[A-Za-z0-9._-]+")
#: Kafka takes names of 249 characters; the prefix has eleven, group names ("snapkafka.<namespace>.<app>") have more.
NAMESPACE_CHARS_MAX: Final = 150
#: Under a tenth of a second no snapshot of a live system is captured; more than a day is a mistake.
TTL_MS_RANGE: Final = (100, 86_400_000)
#: Somebody who wants more than one a second triggers by himself.
EVERY_MIN_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of an app.

    Args:
        namespace: names the ledger; systems that are snapshotted together share one. There is no default.
        enabled: `False`: nothing is installed.
        mode: the stage of the roll-out. `"off"`: not at all; `"observe"`: only report at the start what a snapshot
            would hold and what not; `"stamp"`: join and add headers to sent records, but take no part in snapshots;
            `"on"`. The environment variable `SNAPKAFKA` takes precedence.
        hear: by what the app may learn of a snapshot; less than all is for tests and for proof.
        cause: stamp on each record which event it comes from (8 or 9 bytes more); V5 needs it.
        ttl_ms: milliseconds until a snapshot that this app triggers is aborted, if it is not captured; 100 to
            86,400,000.
        every: seconds between snapshots, 1 or more; `None`: only on request. All workers may have the timer: there is
            one snapshot each time.
        min_pause: seconds without a snapshot before the timer asks for the next.
        sources: topics written by apps with snapkafka and from outside, whose external records are no effects of what
            these apps send: they leave no snapshot `VERIFIED_OPEN`. Nothing checks that.
        changelog_lag: for how long no record of the app's changelogs is compacted, such as `"24h"`: for as long a
            snapshot can be assembled (`min.compaction.lag.ms`). It is set on those that Faust creates.
            None: as the broker has it, by default not at all.
        web: pages under `/snapkafka/` on the app's web server, where it has one: snapshots, metrics.
    """

    namespace: str
    enabled: bool = True
    mode: str = "on"
    hear: frozenset[str] = field(default=HEAR_ALL)
    cause: bool = True
    ttl_ms: int = 5_000
    every: float | None = None
    min_pause: float = 0.0
    web: bool = True
    sources: tuple[str, ...] = ()
    changelog_lag: str | None = None

    def __post_init__(self) -> None:
        given: object = self.hear  # one way may be given as it is, several as any collection
        if isinstance(given, str):
            object.__setattr__(self, "hear", frozenset({given}))
        elif isinstance(given, (list, tuple, set)):
            with contextlib.suppress(TypeError):  # what cannot be in a set: `problems` names it
                object.__setattr__(self, "hear", frozenset(given))
        topics: object = self.sources
        if isinstance(topics, (list, set, frozenset)):
            object.__setattr__(self, "sources", tuple(sorted(topics, key=str)))

    def problems(self) -> list[str]:
        """List all problems, one line each."""
        found = []
        if problem := namespace_problem(self.namespace):
            found.append(problem)
        hear: object = self.hear
        if not isinstance(hear, frozenset) or not hear <= HEAR_ALL:
            shown = (
                ", ".join(sorted(map(str, hear - HEAR_ALL))) if isinstance(hear, frozenset) else repr(hear)
            )
            found.append(f"hear has {shown}; it may have {', '.join(sorted(HEAR_ALL))}")
        elif not hear:
            found.append("hear is empty: a process has to learn of a snapshot somehow")
        if self.mode not in MODES:
            found.append(f"mode is {self.mode!r}; it can be {', '.join(MODES)}")
        switches: dict[str, object] = {
            "enabled": self.enabled,
            "cause": self.cause,
            "web": self.web,
        }
        for name, value in switches.items():
            if not isinstance(value, bool):
                found.append(f"{name} is {value!r}; it can be True or False")
        low, high = TTL_MS_RANGE
        ttl_ms: object = self.ttl_ms
        if type(ttl_ms) is not int or not low <= ttl_ms <= high:
            found.append(f"ttl_ms is {ttl_ms!r}; it can be {low} to {high} (milliseconds)")
        every: object = self.every
        if every is not None and not (_is_number(every) and every >= EVERY_MIN_S):
            found.append(f"every is {every!r}; it can be {EVERY_MIN_S:g} or more (seconds), or None")
        min_pause: object = self.min_pause
        if not (_is_number(min_pause) and min_pause >= 0):
            found.append(f"min_pause is {min_pause!r}; it can be 0 or more (seconds)")
        if self.changelog_lag is not None:
            try:
                duration_ms(str(self.changelog_lag), "changelog_lag")
            except BadInputError as error:
                found.append(f"{error.message}; {error.hint}")
        topics: object = self.sources
        if not isinstance(topics, tuple) or not all(isinstance(topic, str) and topic for topic in topics):
            found.append(f"sources is {topics!r}; it can be a list of names of topics")
        return found

    def validate(self, error: type[SnapkafkaError] = InstallError) -> None:
        """Refuse invalid settings, with all problems at once.

        Raises:
            error: there is a problem.
        """
        if problems := self.problems():
            raise error("; ".join(problems))


class Settings(TypedDict, total=False):
    """The keyword arguments of `snapkafka.install`: the fields of `Config`, for type checkers."""

    enabled: bool
    mode: str
    hear: str | Collection[str]
    cause: bool
    ttl_ms: int
    every: float | None
    min_pause: float
    web: bool
    sources: Collection[str]
    changelog_lag: str | None


#: The names of all settings but the namespace.
SETTINGS: Final = frozenset(setting.name for setting in fields(Config)) - {"namespace"}


def unknown_settings(names: Iterable[str]) -> list[str]:
    """List the names that are not settings, one line each, with the setting that it resembles."""
    import difflib  # no service that starts well needs it

    found = []
    for name in sorted(set(names) - SETTINGS):
        alike = difflib.get_close_matches(name, sorted(SETTINGS), n=1)
        found.append(f"unknown setting {name}" + (f" (did you mean {alike[0]}?)" if alike else ""))
    return found


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def namespace_problem(namespace: object) -> str | None:
    """Explain why a namespace is invalid; None: it is valid."""
    if namespace is None or namespace == "":
        return "no namespace is given; there is no default"
    if not isinstance(namespace, str):
        return f"namespace {namespace!r} is not text"
    if not NAMESPACE.fullmatch(namespace) or len(namespace) > NAMESPACE_CHARS_MAX:
        return (
            f"namespace {namespace!r} cannot be part of a topic's name: at most {NAMESPACE_CHARS_MAX} letters, digits,"
            " dots, dashes and underscores"
        )
    return None
