"""The commands: the group of each in help, an example, and the request that it is made from."""

from __future__ import annotations

import inspect
from typing import Any, Final, NamedTuple

from snapkafka import verbs

SNAPKAFKA: Final = "Consistent global snapshots of running Faust services on Kafka."
START: Final = "Example: snapkafka demo"

#: Groups of commands, by what a user wants to do.
PANELS = TAKE, INSPECT, TRUST, RECOVER, OPERATE = "Take", "Inspect", "Trust", "Recover", "Operate"
STORED: Final = "--storage /data/snapshots"


class Help(NamedTuple):
    """A command, or a group of them. `module`: of `commands`, which is imported when the command runs; empty: it is a
    group. `example`: of its arguments. `about`: the request that it is made from, or what it does. `run`: its function
    in `ops`, where that has another name. `offline`: it works without a broker."""

    panel: str
    module: str
    example: str
    about: type[verbs.Request] | str
    run: str = ""
    offline: bool = False


HELPS: Final = {
    "trigger": Help(TAKE, "snapshots", f"--wait {STORED}", verbs.Trigger),
    "list": Help(TAKE, "snapshots", "", verbs.List, "list_snapshots"),
    "show": Help(TAKE, "snapshots", "latest", verbs.Show),
    "keep": Help(TAKE, "operate", f"--every 1h --keep-last 24 {STORED}", verbs.Keep),
    "query": Help(INSPECT, "tables", f"'SELECT * FROM state' {STORED}", verbs.Query),
    "diff": Help(INSPECT, "tables", f"monday latest {STORED}", verbs.Diff, offline=True),
    "draw": Help(INSPECT, "tables", f"latest {STORED} -o cut.svg", verbs.Draw),
    "trace": Help(INSPECT, "tables", "payments 0 1042", verbs.Trace),
    "assemble": Help(
        TRUST, "snapshots", f"latest {STORED}", "Build the tables of captured snapshots, and verify."
    ),
    "verify": Help(
        TRUST,
        "snapshots",
        f"latest {STORED}",
        "Verify an assembled snapshot again.\n\nIt reads manifest and log; with --offline the files alone.",
    ),
    "audit": Help(TRUST, "trust", f"{STORED}", verbs.Audit),
    "verdicts": Help(TRUST, "snapshots", "--follow", verbs.Verdicts),
    "drill": Help(TRUST, "trust", "--app 'python -m faust -A shop worker'", verbs.Drill),
    "restore": Help(RECOVER, "recovery", "latest --dry-run", verbs.Restore),
    "fork": Help(
        RECOVER, "", "create staging --from latest", "Run a snapshot as a second system beside production."
    ),
    "fork create": Help(RECOVER, "recovery", "staging --from friday --expires 2d", verbs.ForkCreate),
    "fork list": Help(RECOVER, "recovery", "", verbs.ForkList, "list_forks"),
    "fork drop": Help(RECOVER, "recovery", "staging", verbs.ForkDrop),
    "invariants": Help(TRUST, "trust", "money", verbs.Invariants),
    "doctor": Help(OPERATE, "trust", "--offline shop:app", verbs.Doctor),
    "pause": Help(OPERATE, "snapshots", "", verbs.Pause),
    "resume": Help(OPERATE, "snapshots", "", verbs.Resume),
    "retire": Help(OPERATE, "snapshots", "--app old-shop", verbs.Retire),
    "checkpoint": Help(OPERATE, "snapshots", "--keep 7d", verbs.Checkpoint),
    "prune": Help(OPERATE, "operate", f"{STORED} --keep-last 24", verbs.Prune),
    "topics": Help(OPERATE, "", "create orders --partitions 4", "Create the topics of services."),
    "topics create": Help(OPERATE, "operate", "orders payments --partitions 4", verbs.TopicsCreate),
    "serve": Help(
        OPERATE,
        "operate",
        "--storage-root /data/snapshots",
        "Serve the REST API, gRPC and a web page.\n\nIt stores nothing, so any number can run.",
    ),
    "broker": Help(OPERATE, "operate", "--port 9092", "Run a Kafka on this machine until Ctrl-C."),
    "demo": Help(OPERATE, "operate", "--keep", "Run a demo on this machine: broker, services, snapshots."),
}


def settings(name: str) -> dict[str, Any]:
    """Return what help says of a command."""
    found = HELPS[name]
    return {
        "help": found.about if isinstance(found.about, str) else inspect.getdoc(found.about),
        "epilog": f"Example: snapkafka {name} {found.example}".rstrip(),
        "rich_help_panel": found.panel,
    }
