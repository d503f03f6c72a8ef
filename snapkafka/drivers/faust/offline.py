"""What a snapshot of an app would hold, and what not, before it starts: `doctor --offline`, the mode "observe"."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from snapkafka.advice import Advice, Weight, worst_first
from snapkafka.errors import BadInputError
from snapkafka.logs import about
from snapkafka.protocol.records import Agent, Table

from .describe import agents_of, in_transactions, table_of, uncaptured
from .support import at_start, not_as_expected, refusal

logger = logging.getLogger("snapkafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedApp:
    """An app as it is defined. `found`: the findings, the worst first."""

    app: str
    agents: tuple[Agent, ...]
    tables: tuple[Table, ...]
    found: tuple[Advice, ...]

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
    from faust.cli.base import find_app

    try:
        with contextlib.redirect_stdout(sys.stderr):  # what an app prints is no part of the result
            app = find_app(path)
    except (Exception, SystemExit) as error:
        module, _, name = path.partition(":")
        lacks = f"module {module} has no {name}" if name and module in sys.modules else ""
        raise BadInputError(
            lacks or f"app {path} cannot be imported: {error!r}",
            hint="write module:app, as for `faust -A`, and run it where the module is found",
        ) from error
    return describe_app(app)


def describe_app(app: Any) -> DescribedApp:
    """Describe an app that is defined; this finalises it."""
    agents, tables = tuple(agents_of(app)), tuple(map(table_of, app.tables.values()))
    found = worst_first([*_findings(app, agents)])
    return DescribedApp(app=app.conf.id, agents=agents, tables=tables, found=found)


def describe_when_started(app: Any) -> None:
    """Log what a snapshot would hold, and what none would, when the app starts (the mode "observe"); leave the app as
    it is. Logged as warnings: anyone who chooses this mode wants to read them, whatever the log's level."""

    async def started() -> None:
        try:
            seen = describe_app(app)
            logger.warning(
                "snapkafka observes: a snapshot of %s would hold the positions of %s and the tables %s",
                seen.app,
                ", ".join(sorted({topic for agent in seen.agents for topic in agent.topics})) or "no topic",
                ", ".join(table.name for table in seen.tables) or "(none)",
                extra=about(),
            )
            for advice in seen.found:
                if advice.code != "not-installed":
                    logger.warning("snapkafka observes: %s; %s", advice.what, advice.do, extra=about())
        except Exception as error:  # R15: what goes wrong here is ours
            logger.error("snapkafka: could not examine this app: %r", error, extra=about(), exc_info=True)

    at_start(app, after=started)


def _findings(app: Any, agents: Sequence[Agent]) -> Iterator[Advice]:
    problem, note = (partial(Advice, weight=weight) for weight in (Weight.PROBLEM, Weight.NOTE))
    if getattr(app, "snapkafka", None) is None and os.environ.get("SNAPKAFKA") != "off":
        do = 'call snapkafka.install(app, namespace="...") once, or leave the mode "off" out'
        what = "snapkafka is not installed on this app: no snapshot holds it"
        yield problem(code="not-installed", what=what, do=do)
    if releases := not_as_expected():
        what = f"this release of Faust is not supported: {', '.join(releases)}"
        do = "its workers run without snapshots; use a release of Faust that README names"
        yield problem(code="faust-not-as-expected", what=what, do=do)
    if why := refusal(app):
        do = "take it out (kafka:// is Faust's default); its workers run without snapshots until then"
        yield problem(code="setting-refused", what=why, do=do)
    if not any(agent.topics for agent in agents):
        do = "a process that only sends needs no snapkafka; what it sends is replayable input"
        what = "no agent reads a topic: there is nothing to snapshot"
        yield problem(code="nothing-to-cut", what=what, do=do)
    if in_transactions(app):
        what = "processing_guarantee is exactly_once: a snapshot waits until earlier messages are committed"
        do = f"use a --ttl above broker_commit_interval ({app.conf.broker_commit_interval:g} s)"
        yield note(code="transactions", what=what, do=do)
    for what in uncaptured(app):
        do = "give it a topic, or send nothing through it that a restore needs (docs/reference/features.md)"
        yield problem(code="not-captured", what=what, do=do)
