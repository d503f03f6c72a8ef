"""`doctor`: what in this cluster would spoil a snapshot, before anybody needs one. It changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from snapkafka.errors import SnapkafkaError
from snapkafka.kafka.connection import Connection
from snapkafka.kafka.triggering import OWN_GROUPS, knows_markers
from snapkafka.ports import Cluster, Group, Topic
from snapkafka.protocol.completion import LedgerState, ProcessView

from .reading import Opened, opened

__all__ = ["ASSEMBLY_MINUTES", "Advice", "Checkup", "Weight", "doctor"]

#: How long after a snapshot its records must still be there, if nobody says otherwise.
ASSEMBLY_MINUTES: Final = 60


class Weight(StrEnum):
    """How bad it is."""

    #: Snapshots fail, or cannot be relied on.
    PROBLEM = "problem"
    #: Snapshots work, and prove less than they could.
    WARNING = "warning"
    #: Good to know.
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing that was found. `code` is stable; `do`: what to do, with the way back where something is changed."""

    code: str
    weight: Weight
    what: str
    do: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """All that was found, the worst first. `apps`: those that have joined, with how many processes run."""

    namespace: str
    apps: Mapping[str, int]
    found: tuple[Advice, ...]

    @property
    def well(self) -> bool:
        """No problem was found."""
        return not any(advice.weight is Weight.PROBLEM for advice in self.found)


async def doctor(
    where: Connection | Cluster, namespace: str, *, assembly_minutes: float = ASSEMBLY_MINUTES
) -> Checkup:
    """Look at the ledger, the topics of the apps that have joined, and who else reads them.

    Args:
        assembly_minutes: how long after a snapshot its records must still be there.
    """
    async with opened(where, namespace) as work:
        state = work.reading.state
        views = _latest(state)
        found = [*_about_apps(state, views)]
        topics = sorted({*_inputs(views), *_changelogs(views)})
        described = await work.admin.describe_topics(topics) if topics else {}
        found += _about_topics(views, described)
        for topic in described:
            found += await _about_settings(work, topic, topic in _changelogs(views), assembly_minutes)
        found += await _about_groups(work, state, _inputs(views))
    order = list(Weight)
    living = Counter(view.hello.app for view in state.living())
    return Checkup(
        namespace=namespace,
        apps={view.hello.app: living[view.hello.app] for view in views},
        found=tuple(sorted(found, key=lambda advice: (order.index(advice.weight), advice.code, advice.what))),
    )


def _latest(state: LedgerState) -> list[ProcessView]:
    """Of each app that is not retired, the process that joined last."""
    latest = {view.hello.app: view for _, view in sorted(state.processes.items())}
    return [view for app, view in sorted(latest.items()) if app not in state.retired]


def _inputs(views: Iterable[ProcessView]) -> set[str]:
    return {source.topic for view in views for source in view.hello.inputs}


def _changelogs(views: Iterable[ProcessView]) -> set[str]:
    return {table.changelog for view in views for table in view.hello.tables}


# -- what the ledger says ------------------------------------------------------------------------------------


def _about_apps(state: LedgerState, views: list[ProcessView]) -> Iterator[Advice]:
    living = list(state.living())
    if not living:
        yield Advice(
            code="nobody",
            weight=Weight.PROBLEM,
            what="no process has joined, or all have left",
            do="start the services; each joins when it calls snapkafka.install",
        )
    if state.paused:
        yield Advice(code="paused", weight=Weight.PROBLEM, what="snapshots are paused", do="snapkafka resume")
    running = {view.hello.app for view in living}
    for view in views if living else ():
        if view.hello.app not in running:
            yield Advice(
                code="stopped",
                weight=Weight.NOTE,
                what=f"app {view.hello.app} does not run; its inputs are cut where it stopped",
                do=f"if it is gone for good: snapkafka retire --app {view.hello.app}",
            )
    releases = sorted({view.hello.release for view in living})
    if len(releases) > 1:
        yield Advice(
            code="releases",
            weight=Weight.NOTE,
            what=f"processes of releases {', '.join(releases)} take part",
            do="neighbouring releases share a ledger; finish the upgrade",
        )


def _about_topics(views: list[ProcessView], described: Mapping[str, Topic]) -> Iterator[Advice]:
    for view in views:
        app = view.hello.app
        counts = set()
        for source in view.hello.inputs:
            if source.topic not in described:
                yield Advice(
                    code="topic-missing",
                    weight=Weight.PROBLEM,
                    what=f"topic {source.topic}, an input of app {app}, does not exist",
                    do="create it, and restart the app: Faust does not see a topic that comes later",
                )
            elif (now := described[source.topic].partitions) != source.partitions:
                yield Advice(
                    code="partitions-added",
                    weight=Weight.WARNING,
                    what=f"topic {source.topic} has {now} partitions, app {app} joined with {source.partitions}",
                    do="restart the app",
                )
            counts.add(source.partitions)
        for table in view.hello.tables:
            if table.changelog in described and counts and table.partitions not in counts:
                yield Advice(
                    code="partition-counts",
                    weight=Weight.PROBLEM,
                    what=f"table {table.name} of app {app} has a changelog of {table.partitions} partitions, the "
                    f"inputs of the app have {', '.join(map(str, sorted(counts)))}",
                    do="Faust assigns a table's partition with the input's: make the counts equal",
                )


# -- what the cluster says -----------------------------------------------------------------------------------


async def _about_settings(work: Opened, topic: str, changelog: bool, minutes: float) -> list[Advice]:
    """Will what a snapshot needs still be there when it is assembled?"""
    try:
        holding, own = await work.admin.topic_settings(topic)
    except SnapkafkaError as error:
        return [Advice(code="settings-unseen", weight=Weight.WARNING, what=str(error), do=error.advice)]
    needed_ms = round(minutes * 60_000)
    policy = holding.get("cleanup.policy", "delete")
    what = "changelog" if changelog else "input"
    found = []
    retention_ms = int(holding.get("retention.ms", "-1"))
    if "delete" in policy and 0 <= retention_ms < needed_ms:
        found.append(
            Advice(
                code="retention",
                weight=Weight.PROBLEM,
                what=f"{what} {topic} keeps records for {_time(retention_ms)}, assembly needs them for "
                f"{_time(needed_ms)}",
                do=_change(topic, "retention.ms", needed_ms, own.get("retention.ms")),
            )
        )
    lag_ms = int(holding.get("min.compaction.lag.ms", "0"))
    if "compact" in policy and lag_ms < needed_ms:
        found.append(
            Advice(
                code="compaction",
                weight=Weight.WARNING,
                what=f"{what} {topic} may be compacted after {_time(lag_ms)}: a value of before the cut may give way "
                f"to one of after it before assembly has read it, in {_time(needed_ms)}",
                do=_change(topic, "min.compaction.lag.ms", needed_ms, own.get("min.compaction.lag.ms")),
            )
        )
    return found


def _change(topic: str, name: str, value: int, before: str | None) -> str:
    alter = f"kafka-configs --alter --entity-type topics --entity-name {topic}"
    undo = f"--add-config {name}={before}" if before is not None else f"--delete-config {name}"
    return f"{alter} --add-config {name}={value}   (the way back: {alter} {undo})"


async def _about_groups(work: Opened, state: LedgerState, inputs: set[str]) -> list[Advice]:
    """Who reads the inputs and does not know us."""
    try:
        groups = await work.admin.groups()
    except SnapkafkaError as error:
        return [
            Advice(
                code="groups-unseen",
                weight=Weight.WARNING,
                what=f"{error}: no markers are sent, headers alone do it",
                do=error.advice,
            )
        ]
    found = []
    for group in groups:
        if group.name.startswith(OWN_GROUPS) or knows_markers(state, group):
            continue
        found += list(_about_stranger(state, group, inputs))
    return found


def _about_stranger(state: LedgerState, group: Group, inputs: set[str]) -> Iterator[Advice]:
    joined = sum(view.hello.app == group.name for view in state.living())
    read = sorted(inputs & (group.topics or frozenset()))
    if joined:
        yield Advice(
            code="members-without",
            weight=Weight.PROBLEM,
            what=f"group {group.name} has {len(group.members)} members, {joined} of them with snapkafka",
            do="install it in all of them: what the others do is in no snapshot",
        )
    elif group.topics is None:
        yield Advice(
            code="group-unknown",
            weight=Weight.WARNING,
            what=f"what group {group.name} reads cannot be told; no markers are sent, headers alone do it",
        )
    elif read:
        yield Advice(
            code="stranger",
            weight=Weight.NOTE,
            what=f"group {group.name} reads {', '.join(read)} without snapkafka; no markers are sent there",
            do="if it passes over records with a null value: trigger with --knows-markers " + group.name,
        )


def _time(ms: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if ms >= size:
            return f"{ms / size:g} {unit}"
    return f"{ms} ms"
