"""The commands: the group of each in help, an example, and the request that it is made from."""

from __future__ import annotations

import inspect
from enum import StrEnum
from typing import Any, Final, NamedTuple

from snapkafka import verbs

SNAPKAFKA: Final = "Consistent global snapshots of running Faust services on Kafka."
START: Final = "Example: snapkafka demo"


class Panel(StrEnum):
    """A group of commands, by what a user wants to do."""

    TAKE = "Take"
    INSPECT = "Inspect"
    TRUST = "Trust"
    RECOVER = "Recover"
    OPERATE = "Operate"


class Help(NamedTuple):
    """A command, or a group of them. `module`: of `commands`, which is imported when the command runs; empty: it is a
    group. `request`: its arguments and options; `text`: what it does, where it has none. `run`: its function in `ops`,
    where that has another name. `offline`: it works without a broker."""

    panel: Panel
    module: str
    example: str
    request: type[verbs.Request] | None = None
    run: str = ""
    offline: bool = False
    text: str = ""

    def settings(self) -> dict[str, Any]:
        """Return what help says of it."""
        return {
            "help": inspect.getdoc(self.request) if self.request else self.text,
            "epilog": f"Example: snapkafka {self.example}",
            "rich_help_panel": self.panel,
        }


HELPS: Final = {
    "trigger": Help(Panel.TAKE, "snapshots", "trigger --wait --storage /data/snapshots", verbs.Trigger),
    "list": Help(Panel.TAKE, "snapshots", "list", verbs.List, "list_snapshots"),
    "show": Help(Panel.TAKE, "snapshots", "show latest", verbs.Show),
    "keep": Help(
        Panel.TAKE, "operate", "keep --every 1h --keep-last 24 --storage /data/snapshots", verbs.Keep
    ),
    "query": Help(
        Panel.INSPECT, "tables", "query 'SELECT * FROM state' --storage /data/snapshots", verbs.Query
    ),
    "diff": Help(
        Panel.INSPECT, "tables", "diff monday latest --storage /data/snapshots", verbs.Diff, offline=True
    ),
    "draw": Help(Panel.INSPECT, "tables", "draw latest --storage /data/snapshots -o cut.svg", verbs.Draw),
    "trace": Help(Panel.INSPECT, "tables", "trace payments 0 1042", verbs.Trace),
    "assemble": Help(
        Panel.TRUST,
        "snapshots",
        "assemble latest --storage /data/snapshots",
        text="Build the tables of captured snapshots, and verify.",
    ),
    "verify": Help(
        Panel.TRUST,
        "snapshots",
        "verify latest --storage /data/snapshots",
        text="Verify an assembled snapshot again.\n\nIt reads manifest and log; with --offline the files alone.",
    ),
    "audit": Help(Panel.TRUST, "trust", "audit --storage /data/snapshots", verbs.Audit),
    "verdicts": Help(Panel.TRUST, "snapshots", "verdicts --follow", verbs.Verdicts),
    "drill": Help(Panel.TRUST, "trust", "drill --app 'python -m faust -A shop worker'", verbs.Drill),
    "restore": Help(Panel.RECOVER, "recovery", "restore latest --dry-run", verbs.Restore),
    "fork": Help(
        Panel.RECOVER,
        "",
        "fork create staging --from latest",
        text="Run a snapshot as a second system beside production.",
    ),
    "fork create": Help(
        Panel.RECOVER, "recovery", "fork create staging --from friday --expires 2d", verbs.ForkCreate
    ),
    "fork list": Help(Panel.RECOVER, "recovery", "fork list", verbs.ForkList, "list_forks"),
    "fork drop": Help(Panel.RECOVER, "recovery", "fork drop staging", verbs.ForkDrop),
    "invariants": Help(Panel.TRUST, "trust", "invariants money", verbs.Invariants),
    "doctor": Help(Panel.OPERATE, "trust", "doctor --offline shop:app", verbs.Doctor),
    "pause": Help(Panel.OPERATE, "snapshots", "pause", verbs.Pause),
    "resume": Help(Panel.OPERATE, "snapshots", "resume", verbs.Resume),
    "retire": Help(Panel.OPERATE, "snapshots", "retire --app old-shop", verbs.Retire),
    "checkpoint": Help(Panel.OPERATE, "snapshots", "checkpoint --keep 7d", verbs.Checkpoint),
    "prune": Help(Panel.OPERATE, "operate", "prune --storage /data/snapshots --keep-last 24", verbs.Prune),
    "topics": Help(
        Panel.OPERATE, "", "topics create orders --partitions 4", text="Create topics of services."
    ),
    "topics create": Help(
        Panel.OPERATE, "operate", "topics create orders payments --partitions 4", verbs.TopicsCreate
    ),
    "serve": Help(
        Panel.OPERATE,
        "operate",
        "serve --storage-root /data/snapshots",
        text="Serve the REST API, gRPC and a web page.\n\nThe service stores nothing, so any number can run.",
    ),
    "broker": Help(
        Panel.OPERATE, "operate", "broker --port 9092", text="Run a Kafka on this machine until Ctrl-C."
    ),
    "demo": Help(
        Panel.OPERATE,
        "operate",
        "demo --drill",
        text="Run a demo on this machine: broker, services, snapshots.",
    ),
}
