"""Unseen paths: consumer groups without snapkafka that read the records of ours.

Such a group may write back results without a header of ours. Kafka does not record who wrote a record, so two
conditions make a path: a group reads outputs, and the snapshot's inputs hold records without a header of ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError
from snapkafka.kafka.preflight import OWN_GROUPS
from snapkafka.manifest import ExternalEntry, OpenEntry, OutsiderEntry
from snapkafka.ports import TopicAdmin
from snapkafka.protocol.captured_snapshot import Captured

#: In the place of a group: all of them.
ANY: Final = "*"
#: A person is shown so many.
SHOWN_MAX: Final = 5


async def external_readers(
    admin: TopicAdmin, captured: Captured, *, sinks: Collection[str] = ()
) -> tuple[OpenEntry, ...]:
    """Return the groups that read what the snapshot's processes write, and are none of its apps, by name.

    An app out of its scope is not such a group if a process of it turned red for the snapshot: its records have
    colours. An app that ran without taking part when the snapshot was triggered is one, whatever became of it since.

    Args:
        sinks: groups that write nothing back, as the user declares; `*`: all groups.

    Returns:
        one entry without a name if groups cannot be seen.
    """
    if ANY in sinks:
        return ()
    apps = {cut.app for cut in captured.processes} | {source.app for source in captured.inputs}
    apps |= {outsider.app for outsider in captured.outsiders if outsider.cut}
    changelogs = {cut.topic for cut in captured.changelogs}
    written = {end.topic for end in captured.senders if end.last_seq >= 0} - changelogs
    if not written:
        return ()
    then = (
        OpenEntry(group=it.app, topics=tuple(sorted(written & {*it.topics})))
        for it in captured.run_without
        if it.app not in sinks and (not it.topics or written & {*it.topics})
    )
    try:
        groups = await admin.groups()
    except (LedgerUnusableError, BrokerUnavailableError):  # a right is missing; a coordinator is away
        return (*then, OpenEntry(group=""))
    now = (
        OpenEntry(group=group.name, topics=tuple(sorted(written & (group.topics or frozenset()))))
        for group in groups
        if group.name not in apps
        and group.name not in sinks
        and not group.name.startswith(OWN_GROUPS)
        and (group.topics is None or written & group.topics)
    )
    return tuple({entry.group: entry for entry in (*then, *now)}.values())


def still_open(
    before: Iterable[OpenEntry], now: Iterable[OpenEntry], sinks: Collection[str]
) -> tuple[OpenEntry, ...]:
    """Merge the present groups with those of an earlier check: Kafka forgets a group some time after it has ended.

    If groups could not be seen then, the present ones make up for that.
    """
    if ANY in sinks:
        return ()
    named = (entry for entry in before if entry.group and entry.group not in sinks)
    return tuple({entry.group: entry for entry in (*named, *now)}.values())


def left_open(
    groups: Sequence[OpenEntry],
    external: Iterable[ExternalEntry],
    outsiders: Iterable[OutsiderEntry],
    *,
    strict: bool,
) -> Iterator[str]:
    """Format what leaves a snapshot open, for people; of the groups the first few."""
    for group in groups[:SHOWN_MAX]:
        if not group.group:
            yield "groups are not visible (without DESCRIBE on the cluster); inputs hold external records"
            continue
        read = f"reads {', '.join(group.topics)}" if group.topics else "reads unknown topics"
        yield (
            f"group {group.group} {read} without snapkafka and may write back to inputs (if not, declare it as a sink)"
        )
    if (more := len(groups) - SHOWN_MAX) > 0:
        yield f"and {more} more groups: the manifest lists all"
    for topic in external:
        if topic.mixed and not topic.declared:
            yield (
                f"topic {topic.topic} holds external records beside those of the apps: they may be caused by what"
                " the apps write (if not, declare it as a source, to the assembly or in install(sources=...))"
            )
        elif strict and not topic.declared:
            yield f"topic {topic.topic} holds external records and is not declared as a source (strict)"
    for outsider in outsiders:
        app = f" of app {outsider.app}" if outsider.app else ""
        why = "is not part of the snapshot" if app else "has no accepted Hello in the ledger"
        what = f"to topic {outsider.topic}, which" if outsider.topic else "replies or table changes, which"
        yield (
            f"process {outsider.process}{app} {why} but sent {what} the apps read: that may come from after the cut"
            " (include its app, or find out why it does not take part)"
        )


def assumptions(entries: Iterable[ExternalEntry], *, strict: bool) -> Iterator[str]:
    """Format the assumptions of a verdict about topics with external records, for people."""
    for entry in entries:
        if entry.declared:
            yield f"external records of topic {entry.topic} are not caused by what the apps write (declared)"
        elif not (entry.mixed or strict):
            yield f"whoever writes to topic {entry.topic} does not read what the apps write"
