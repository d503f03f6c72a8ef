"""Describe what the creation of a fork does, computed without I/O."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from snapkafka.manifest import Manifest
from snapkafka.ops.restore.editing import RuleCount
from snapkafka.ops.restore.planning import apps_of
from snapkafka.ops.restore.refusing import Refusal, copy_refusals
from snapkafka.ops.restore.topics import NewTopic, topics_of
from snapkafka.protocol.captured import Captured
from snapkafka.protocol.forking import LEDGER, of_fork, prefix_of, prefixed

__all__ = ["ForkPlan", "in_fork", "refusals"]

#: Kafka's own limit.
TOPIC_CHARS_MAX = 249


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPlan:
    """Hold what the creation of a fork would do, and why it would not.

    `apps`, `namespace`: by their names in the fork. `records`: how many messages in flight it begins with. `stored`:
    how many external records come from the snapshot, as production's log has them no longer. `unfinished`: topics of an
    earlier attempt, which are removed first. `rules`: how much each rule about erased keys and each mask matches.
    """

    fork: str
    snapshot: str
    epoch: int
    verdict: str
    source: str
    namespace: str
    apps: tuple[str, ...]
    topics: tuple[NewTopic, ...]
    records: int
    stored: int
    state: int
    refusals: tuple[Refusal, ...]
    unfinished: tuple[str, ...] = ()
    rules: tuple[RuleCount, ...] = ()

    @property
    def refused(self) -> bool:
        return bool(self.refusals)


def in_fork(captured: Captured, fork: str) -> Captured:
    """Translate inputs and changelogs to their names in the fork."""

    def named(name: str) -> str:
        return prefixed(fork, name)

    return dataclasses.replace(
        captured,
        inputs=tuple(
            dataclasses.replace(
                cut,
                app=named(cut.app),
                topic=named(cut.topic),
                topic_id="",
                agents=tuple(dataclasses.replace(at, topic=named(at.topic)) for at in cut.agents),
            )
            for cut in captured.inputs
        ),
        changelogs=tuple(
            dataclasses.replace(cut, app=named(cut.app), topic=named(cut.topic), topic_id="")
            for cut in captured.changelogs
        ),
    )


# --- Why not ---------------------------------------------------------------------------------------------------------


def refusals(
    manifest: Manifest,
    fork: str,
    *,
    files: str,
    there: Collection[str],
    unfinished: Collection[str],
    exists: str,
    external: Iterable[Refusal],
    force: bool,
) -> tuple[Refusal, ...]:
    """Find every reason not to create a fork.

    Args:
        external: why the external records that it is to have cannot be read.
        files: what is wrong with the files; empty: nothing.
        there: topics that exist.
        unfinished: those among them that an earlier attempt has left.
        exists: a fork that is there already, as a phrase; empty: none.
        force: leave out what it overrides.
    """
    found = [
        *copy_refusals(manifest, files, done="forked"),
        *(dataclasses.replace(item, hint=f"{item.hint}; or leave out --with-inputs") for item in external),
        *_names(manifest, fork, there, unfinished, exists),
    ]
    return tuple(item for item in found if not (force and item.forceable))


def _names(
    manifest: Manifest, fork: str, there: Collection[str], unfinished: Collection[str], exists: str
) -> Iterator[Refusal]:
    if exists:
        yield Refusal(
            code="fork-exists",
            what=exists,
            hint=f"remove it first: snapkafka fork drop {fork}; or choose another name",
        )
        return
    external = sorted(topic for topic in there if of_fork(fork, topic) and topic not in unfinished)
    if external:
        more = f" and {len(external) - 1} more" if len(external) > 1 else ""
        yield Refusal(
            code="topics-exist",
            what=f"topic {external[0]}{more} begins with {prefix_of(fork)} already",
            hint=f"remove what is left of it (snapkafka fork drop {fork}), or choose another name",
        )
    names = [prefixed(fork, name) for name in (*topics_of(manifest), *apps_of(manifest.captured))]
    names.append(LEDGER + prefixed(fork, manifest.namespace))
    if too_long := [name for name in names if len(name) > TOPIC_CHARS_MAX]:
        yield Refusal(
            code="name-too-long",
            what=f"{too_long[0]} has {len(too_long[0])} characters, and Kafka takes {TOPIC_CHARS_MAX}",
            hint="choose a shorter name",
        )
