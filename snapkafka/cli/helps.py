"""The commands: the group of each in help, an example, and the request that it is made from."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

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
    """A command. `request`: its arguments and options. `run`: its function in `ops`, where that has another name.
    `offline`: it works without a broker."""

    panel: Panel
    example: str
    request: type[verbs.Request] | None = None
    run: str = ""
    offline: bool = False


HELPS: Final = {
    "trigger": Help(Panel.TAKE, "trigger --wait --storage /data/snapshots", verbs.Trigger),
    "list": Help(Panel.TAKE, "list", verbs.List, "list_snapshots"),
    "show": Help(Panel.TAKE, "show latest", verbs.Show),
    "keep": Help(Panel.TAKE, "keep --every 1h --keep-last 24 --storage /data/snapshots", verbs.Keep),
    "query": Help(Panel.INSPECT, "query 'SELECT * FROM state' --storage /data/snapshots", verbs.Query),
    "diff": Help(Panel.INSPECT, "diff monday latest --storage /data/snapshots", verbs.Diff, offline=True),
    "draw": Help(Panel.INSPECT, "draw latest --storage /data/snapshots -o cut.svg", verbs.Draw),
    "trace": Help(Panel.INSPECT, "trace payments 0 1042", verbs.Trace),
    "assemble": Help(Panel.TRUST, "assemble latest --storage /data/snapshots"),
    "verify": Help(Panel.TRUST, "verify latest --storage /data/snapshots"),
    "audit": Help(Panel.TRUST, "audit --storage /data/snapshots", verbs.Audit),
    "verdicts": Help(Panel.TRUST, "verdicts --follow", verbs.Verdicts),
    "drill": Help(Panel.TRUST, "drill --app 'python -m faust -A shop worker'", verbs.Drill),
    "restore": Help(Panel.RECOVER, "restore latest --dry-run", verbs.Restore),
    "fork": Help(Panel.RECOVER, "fork create staging --from latest"),
    "fork create": Help(Panel.RECOVER, "fork create staging --from friday --expires 2d", verbs.ForkCreate),
    "fork list": Help(Panel.RECOVER, "fork list", verbs.ForkList, "list_forks"),
    "fork drop": Help(Panel.RECOVER, "fork drop staging", verbs.ForkDrop),
    "invariants": Help(Panel.TRUST, "invariants money", verbs.Invariants),
    "doctor": Help(Panel.OPERATE, "doctor --offline shop:app", verbs.Doctor),
    "pause": Help(Panel.OPERATE, "pause", verbs.Pause),
    "resume": Help(Panel.OPERATE, "resume", verbs.Resume),
    "retire": Help(Panel.OPERATE, "retire --app old-shop", verbs.Retire),
    "checkpoint": Help(Panel.OPERATE, "checkpoint --keep 7d", verbs.Checkpoint),
    "prune": Help(Panel.OPERATE, "prune --storage /data/snapshots --keep-last 24", verbs.Prune),
    "topics": Help(Panel.OPERATE, "topics create orders --partitions 4"),
    "topics create": Help(Panel.OPERATE, "topics create orders payments --partitions 4", verbs.TopicsCreate),
    "serve": Help(Panel.OPERATE, "serve --storage-root /data/snapshots"),
    "broker": Help(Panel.OPERATE, "broker --port 9092"),
    "demo": Help(Panel.OPERATE, "demo --drill"),
}
