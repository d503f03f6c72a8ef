"""The settings of a service or a command: one value, checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Final, Literal, TypedDict

import msgspec
from msgspec import Meta

from snapkafka.errors import BadInputError, InstallError, SnapkafkaError
from snapkafka.units import duration_ms

#: How far an app is rolled out.
Mode = Literal["off", "observe", "stamp", "on"]
#: Which of the timer's snapshots send markers.
Marking = Literal["always", "sampled", "never"]
#: What may stand in the name of a Kafka topic, which the namespace becomes a part of: `_snapkafka.<namespace>`.
NAMESPACE: Final = re.compile(r"[A-Za-z0-9._-]+")
#: Kafka takes names of 249 characters; the prefix has eleven, group names ("snapkafka.<namespace>.<app>") have more.
NAMESPACE_CHARS_MAX: Final = 150
#: Under a tenth of a second no snapshot of a live system is captured; more than a day is a mistake.
TTL_MS_RANGE: Final = (100, 86_400_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of an app.

    Args:
        namespace: names the ledger; systems that are snapshotted together share one. There is no default.
        mode: the stage of the roll-out. `"off"`: not at all; `"observe"`: only report at the start what a snapshot
            would hold and what not; `"stamp"`: join and add headers to sent records, but take no part in snapshots;
            `"on"`. The environment variable `SNAPKAFKA` takes precedence.
        cause: stamp on each record which event it comes from (8 or 9 bytes more); V5 needs it.
        ttl_ms: milliseconds until a snapshot that this app triggers is aborted, if it is not captured; 100 to
            86,400,000.
        every: seconds between snapshots, 1 or more; `None`: only on request. All workers may have the timer: there is
            one snapshot each time.
        markers: which of the timer's snapshots send markers: `"always"`, `"never"`, or `"sampled"`, every tenth.
        sources: topics written by apps with snapkafka and from outside, whose external records are no effects of what
            these apps send: they leave no snapshot `VERIFIED_OPEN`. Nothing checks that.
        changelog_lag: for how long no record of the app's changelogs is compacted, such as `"24h"`: for as long a
            snapshot can be assembled (`min.compaction.lag.ms`). It is set on those that Faust creates.
            None: as the broker has it, by default not at all.
        web: pages under `/snapkafka/` on the app's web server, where it has one: snapshots, metrics.
    """

    namespace: str
    mode: Mode = "on"
    cause: bool = True
    ttl_ms: Annotated[int, Meta(ge=TTL_MS_RANGE[0], le=TTL_MS_RANGE[1])] = 5_000
    # Somebody who wants more than one a second triggers by himself; 1e9 s are for ever.
    every: Annotated[float, Meta(ge=1, le=1e9)] | None = None
    markers: Marking = "sampled"
    web: bool = True
    sources: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    changelog_lag: str | None = None

    def __post_init__(self) -> None:
        topics: object = self.sources
        if isinstance(topics, (list, set, frozenset)):
            object.__setattr__(self, "sources", tuple(sorted(topics, key=str)))

    def problem(self) -> str | None:
        """Return what is wrong first, in one line; None: nothing."""
        if problem := namespace_problem(self.namespace):
            return problem
        try:
            msgspec.convert(asdict(self), Config)
            if self.changelog_lag is not None:
                duration_ms(self.changelog_lag, "changelog_lag")
        except msgspec.ValidationError as error:
            text, _, place = str(error).partition(" - at `$.")
            name = place.rstrip("`")
            return f"{name} is {getattr(self, name.partition('[')[0])!r}: {text}"
        except BadInputError as error:
            return f"{error.message}; {error.hint}"
        return None

    def validate(self, error: type[SnapkafkaError] = InstallError) -> None:
        """Refuse invalid settings.

        Raises:
            error: there is a problem.
        """
        if problem := self.problem():
            raise error(problem)


class Settings(TypedDict, total=False):
    """The keyword arguments of `snapkafka.install`: the fields of `Config`, for type checkers."""

    mode: str
    cause: bool
    ttl_ms: int
    every: float | None
    markers: Marking
    web: bool
    sources: Collection[str]
    changelog_lag: str | None


#: The names of all settings but the namespace.
SETTINGS: Final = frozenset(setting.name for setting in fields(Config)) - {"namespace"}


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
