"""What a snapshot of an app would hold, and what not, before it starts: `doctor --offline`, the mode "observe"."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from snapkafka.advice import Advice, Weight, worst_first
from snapkafka.errors import BadInputError
from snapkafka.logs import about
from snapkafka.protocol.records import Agent, Table

from .describe import agents_of, expires_ms, in_transactions, of_sets, table_of, uncaptured
from .factories import at_start
from .support import not_as_expected, refusal

logger = logging.getLogger("snapkafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedApp:
    """An app as it is defined. `found`: the findings, the worst first."""

    app: str
    agents: tuple[Agent, ...]
    tables: tuple[Table, ...]
    found: tuple[Advice, ...]

    @property
    def topics(self) -> dict[str, list[str]]:
        """The topics that the app reads, and the agents that read them."""
        topics = sorted({topic for agent in self.agents for topic in agent.topics})
        return {topic: [agent.name for agent in self.agents if topic in agent.topics] for topic in topics}

    @property
    def well(self) -> bool:
        """Whether snapshots of this app work and hold all of it."""
        return not any(advice.weight is Weight.PROBLEM for advice in self.found)


def describe_app_at(path: str) -> DescribedApp:
    """Import an app and describe it.

    Args:
        path: as Faust's `-A` takes it, `module:app`; modules in the current folder are found.

    Raises:
        BadInputError: there is no such app, or it cannot be imported.
    """
    return describe_app(_imported(path))


def describe_app(app: Any) -> DescribedApp:
    """Describe an app that is defined; this finalises it."""
    agents = tuple(agents_of(app))
    found = [*_about_joining(app, reads=any(agent.topics for agent in agents)), *_about_tables(app)]
    found += [
        Advice(
            code="not-captured",
            weight=Weight.PROBLEM,
            what=what,
            do="give it a topic, or send nothing through it that a restore needs (docs/reference/features.md)",
        )
        for what in uncaptured(app)
    ]
    tables = tuple(map(table_of, app.tables.values()))
    return DescribedApp(app=app.conf.id, agents=agents, tables=tables, found=worst_first(found))


def describe_when_started(app: Any) -> None:
    """Log what a snapshot would hold, and what none would, when the app starts (the mode "observe"); leave the app as
    it is."""

    async def started() -> None:
        try:
            _log(describe_app(app))
        except Exception as error:  # R15: what goes wrong here is ours
            logger.error("snapkafka: could not examine this app: %r", error, extra=about(), exc_info=True)

    at_start(app, after=started)


def _log(seen: DescribedApp) -> None:
    """Log the findings as warnings: anyone who chooses this mode wants to read them, whatever the log's level."""
    logger.warning(
        "snapkafka observes: a snapshot of %s would hold the positions of %s and the tables %s",
        seen.app,
        ", ".join(seen.topics) or "no topic",
        ", ".join(table.name for table in seen.tables) or "(none)",
        extra=about(),
    )
    for advice in seen.found:
        if advice.code != "not-installed":
            logger.warning("snapkafka observes: %s; %s", advice.what, advice.do, extra=about())


def _imported(path: str) -> Any:
    from faust.cli.base import find_app

    hint = "write module:app, as for `faust -A`, and run it where the module is found"
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what an app prints is no part of the result
            return find_app(path)
    except (Exception, SystemExit) as error:
        raise BadInputError(f"app {path} cannot be imported: {error!r}", hint=hint) from error


def _about_joining(app: Any, *, reads: bool) -> Iterator[Advice]:
    if getattr(app, "snapkafka", None) is None and os.environ.get("SNAPKAFKA") != "off":
        yield Advice(
            code="not-installed",
            weight=Weight.PROBLEM,
            what="snapkafka is not installed on this app: no snapshot holds it",
            do='call snapkafka.install(app, namespace="...") once, or leave enabled=False out',
        )
    if found := not_as_expected():
        yield Advice(
            code="faust-not-as-expected",
            weight=Weight.PROBLEM,
            what=f"this release of Faust is not supported: {', '.join(found)}",
            do="its workers run without snapshots; use a release of Faust that README names",
        )
    if why := refusal(app):
        yield Advice(
            code="setting-refused",
            weight=Weight.PROBLEM,
            what=why,
            do="take that setting out, kafka:// is Faust's default; its workers run without snapshots until then",
        )
    if not reads:
        yield Advice(
            code="nothing-to-cut",
            weight=Weight.PROBLEM,
            what="no agent reads a topic: there is nothing to snapshot",
            do="a process that only sends needs no snapkafka; what it sends is replayable input",
        )
    if in_transactions(app):
        yield Advice(
            code="transactions",
            weight=Weight.NOTE,
            what="processing_guarantee is exactly_once: a snapshot waits until earlier messages are committed",
            do=f"use a --ttl above broker_commit_interval ({app.conf.broker_commit_interval:g} s)",
        )


def _about_tables(app: Any) -> Iterator[Advice]:
    for table in app.tables.values():
        if expires := expires_ms(table):
            yield Advice(
                code="windows",
                weight=Weight.NOTE,
                what=f"table {table.name} has windows of {expires / 1_000:g} s and the same retention: too short"
                " for assembly",
                do="after the first start `snapkafka doctor -v` prints the command that raises it",
            )
        elif of_sets(table):
            yield Advice(
                code="sets",
                weight=Weight.NOTE,
                what=f"table {table.name} holds sets: those that do not change within the cluster's retention are lost",
                do="after the first start `snapkafka doctor -v` prints the command that removes the limit",
            )
