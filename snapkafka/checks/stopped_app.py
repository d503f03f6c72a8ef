"""The position of an app that does not run (R10): it will continue at the committed offsets of its group.

The broker shows that it does not run: its consumer group has no member, neither before nor after the rest is asked
for. A topic that was deleted counts as empty: no other app has to wait until this one is retired.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from snapkafka.errors import SnapkafkaError, TriggerRefusedError
from snapkafka.ports import TopicAdmin
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.ledger_view import LedgerView
from snapkafka.protocol.offsets import NOBODY
from snapkafka.protocol.records import APP_RUNS_WITHOUT, ChangelogEnd, Position, StoppedApp, TopicPartition
from snapkafka.protocol.snapshots import ProcessView
from snapkafka.wire.headers import HEADER

#: Faust commits one position per input, whichever agents read it.
ANY_AGENT: Final = "*"


async def stopped_app(
    admin: TopicAdmin, state: LedgerView, view: ProcessView, ends: Mapping[TopicPartition, int]
) -> StoppedApp:
    """Ask the broker where the app of a process that has left stands.

    An app that reads from the latest record starts at the end of an input without a committed offset, and where the
    trigger has that: records after it may be red, and have to lie above the position.

    Args:
        ends: of the inputs, as the trigger will have them.

    Raises:
        TriggerRefusedError: the app runs, or nobody may see whether it does.
    """
    app = view.hello.app
    await _require_empty(admin, app)
    inputs = sorted(tp for _, tp in state.inputs_of([view]))
    positions = dict(await admin.log_starts(inputs))
    positions |= ends if view.hello.reset == "latest" else {}
    positions |= {tp: offset for tp, (offset, _) in (await admin.committed(app)).items()}
    changelogs = state.changelogs_of(view)
    written = await admin.log_ends([tp for _, tp in changelogs])
    await _require_empty(admin, app)
    return StoppedApp(
        app=app,
        positions=tuple(
            Position(agent=ANY_AGENT, topic=tp.topic, partition=tp.partition, offset=positions.get(tp, 0))
            for tp in inputs
        ),
        changelogs=tuple(
            ChangelogEnd(table=name, topic=tp.topic, partition=tp.partition, end=written.get(tp, 0))
            for name, tp in changelogs
        ),
    )


async def _require_empty(admin: TopicAdmin, app: str) -> None:
    try:
        members = len(await admin.group_members(app))
    except SnapkafkaError as error:
        raise TriggerRefusedError(
            f"app {app} is not known to be stopped: {error}", hint=error.hint, reason=APP_RUNS_WITHOUT
        ) from error
    if members:
        raise TriggerRefusedError(
            f"app {app} runs without snapkafka: its consumer group has {members} members, and no process of it takes"
            " part",
            hint="start its workers with snapkafka, or stop them; one that was killed counts until its session is over",
            reason=APP_RUNS_WITHOUT,
        )


async def ran_since(admin: TopicAdmin, state: LedgerView, captured: Captured) -> str:
    """Return why an app of a captured snapshot that was stopped may have run without snapkafka while the snapshot was
    taken; empty: it stood still, or was started with it since."""
    stopped = {source.app for source in captured.inputs if source.receiver == NOBODY}
    for app in sorted(stopped):
        try:
            why = await _ran(admin, state, captured, app)
        except SnapkafkaError as error:
            why = f"it is unknown whether it has run since ({error})"
        if why:
            return f"app {app} was stopped when the snapshot was requested, and {why}"
    return ""


async def _ran(admin: TopicAdmin, state: LedgerView, captured: Captured, app: str) -> str:
    """Compare the group of an app and the ends of its changelogs with what the trigger has."""
    if not any(
        view.hello.app == app and process >= captured.epoch for process, view in state.processes.items()
    ):
        if await admin.group_members(app):
            return "it runs without snapkafka: its group has members, and it has not joined"
        committed = await admin.committed(app)
        for source in captured.inputs:
            tp = TopicPartition(source.topic, source.partition)
            if source.app == app and committed.get(tp, (source.position, ""))[0] != source.position:
                return f"it ran without snapkafka: its position in {tp} has moved"
    ends = {TopicPartition(c.topic, c.partition): c.end for c in captured.changelogs if c.app == app}
    for tp, headers in (await admin.record_headers(ends)).items():
        if HEADER not in {name for name, _ in headers}:
            return f"it ran without snapkafka: a record without our header follows its table in {tp}"
    return ""
