"""Restored apps whose group has lost its offsets: these are committed again before the worker joins.

A broker deletes the offsets of a group a week after its last member has left (`offsets.retention.minutes`), and
anybody may delete a group. Then the reset policy of the app decides where it starts: with `latest` it would never read
the messages that a restore has put back, and with `earliest` it would read again what it has processed since. The
ledger knows better: where the restore set each agent, and where a later snapshot has found them.

An app that was never restored is left to its policy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError
from snapkafka.protocol.records import TopicPartition
from snapkafka.protocol.restores import RESTORED_METADATA

from ..ledger_tasks import RETRY_S
from .restores import RestoreScope

if TYPE_CHECKING:
    from snapkafka.ports import Topic

    from .host import Host

logger = logging.getLogger("snapkafka")

#: Returns the rules of restores for a partition.
ScopeOf = Callable[[TopicPartition], RestoreScope]

#: Another worker that starts at the same moment commits the same, and joins; it takes far less than this.
COMMITTED_WITHIN_S: Final = 10.0


class Groups(Protocol):
    """The requests that this module makes; see `kafka.cluster.admin.KafkaTopicAdmin`."""

    async def committed(self, group: str) -> Mapping[TopicPartition, tuple[int, str]]: ...

    async def commit_positions(
        self, group: str, positions: Mapping[TopicPartition, int], note: str
    ) -> None: ...

    async def describe_topics(self, topics: Collection[str] | None = None) -> Mapping[str, Topic]: ...

    async def log_starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]: ...

    async def log_ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]: ...


async def commit_restored(host: Host, scope: ScopeOf, admin: Groups, topics: Collection[str]) -> None:
    """Commit the start of each restored input of an app for which its group has no committed offset.

    To be called before the worker joins its group: the broker accepts this only while the group has no member. If
    another worker came first, wait for its commit.

    Args:
        host: whose ledger is read, and no restore of its app is open.
        scope: the rules of restores for a partition.
        admin: over the app's own connection.
        topics: that the worker subscribes to.
    """
    app = host.app.conf.id
    restored = [tp for tp in host.machine.ledger.restores.starts(app) if tp.topic in topics]
    if not restored:
        return None
    deadline = asyncio.get_running_loop().time() + COMMITTED_WITHIN_S
    while True:
        try:
            return await _ensure_committed(host, scope, admin, restored)
        except BrokerUnavailableError:
            pass  # without it no input can be read either
        except LedgerUnusableError as error:
            if asyncio.get_running_loop().time() > deadline:
                logger.error(
                    "snapkafka: group %s has committed nothing for some of %s, and it cannot be committed: %s; there"
                    " the reset policy of the app decides what is read of the restore",
                    app,
                    ", ".join(map(str, sorted(restored))),
                    error,
                    extra=host.about(),
                )
                return None
        await asyncio.sleep(RETRY_S)


async def _ensure_committed(
    host: Host, scope: ScopeOf, admin: Groups, restored: Collection[TopicPartition]
) -> None:
    """Commit the starts of these inputs where no offset is committed, and read them back.

    Raises:
        LedgerUnusableError: the group has members by now, or a right is missing.
        BrokerUnavailableError: the broker does not answer.
    """
    app = host.app.conf.id
    committed = await admin.committed(app)
    missing = set(restored) - committed.keys()
    if not missing:
        return
    starts = host.machine.ledger.restored_starts(app)
    lost = await _still_there(host, admin, {tp: starts[tp] for tp in missing})
    if not lost:
        return
    await _commit(host, scope, admin, lost)
    now = await admin.committed(app)
    if unread := lost.keys() - now.keys():
        raise LedgerUnusableError(f"the broker reports nothing committed for {min(unread)}")
    logger.warning(
        "snapkafka: group %s had committed nothing any more for inputs that were restored: it starts at %s",
        app,
        _listed(lost),
        extra=host.about(),
    )


def _listed(positions: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{tp} at {at}" for tp, at in sorted(positions.items()))


async def _commit(host: Host, scope: ScopeOf, admin: Groups, lost: Mapping[TopicPartition, int]) -> None:
    """Commit, with the name of the plan where agents skip records above (D6), and without elsewhere."""
    by_note: dict[str, dict[TopicPartition, int]] = {}
    for tp, at in lost.items():
        rules = scope(tp)
        note = RESTORED_METADATA + rules.plan if at < rules.until else ""
        by_note.setdefault(note, {})[tp] = at
    for note, positions in by_note.items():
        await admin.commit_positions(host.app.conf.id, positions, note)


async def _still_there(
    host: Host, admin: Groups, lost: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Leave out partitions that do not exist, or end before their position: they belong to another topic. If the
    beginning of a log was deleted, its rest is read."""
    described = await admin.describe_topics({tp.topic for tp in lost})
    there = [tp for tp in lost if tp.topic in described and tp.partition < described[tp.topic].partitions]
    log_starts, log_ends = await admin.log_starts(there), await admin.log_ends(there)
    found = {tp: max(lost[tp], log_starts[tp]) for tp in there if lost[tp] <= log_ends[tp]}
    for tp in sorted(set(there) - found.keys()):
        logger.warning(
            "snapkafka: %s ends at offset %d, and a restore has put its reader at %d: it was recreated, or cut",
            tp,
            log_ends[tp],
            lost[tp],
            extra=host.about(),
        )
    return found
