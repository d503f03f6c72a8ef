"""The help texts of the commands, kept as strings because Python drops docstrings under PYTHONOPTIMIZE=2."""

from __future__ import annotations

from typing import Final

__all__ = ["COMMANDS", "SNAPKAFKA"]

SNAPKAFKA: Final = "Consistent global snapshots of running Faust services on Kafka, without stopping them."
COMMANDS: Final = {
    "trigger": "Take a snapshot: ask every process to cut. Nothing stops, nothing waits.",
    "list": "List the snapshots and their states.",
    "show": (
        "Print all about one snapshot: what it waits for while it runs, and where everybody stood once it is captured."
    ),
    "assemble": "Make tables of captured snapshots with Spark, and verify them.",
    "verify": "Verify an assembled snapshot again, from its manifest and the log alone.",
    "watch": (
        "Take snapshots until a stable predicate holds: the computation has ended, some wait in a circle."
    ),
    "keep": (
        "Keep snapshots by a schedule: trigger, assemble, verify, prune; one at a time. --once is for timers and pods."
    ),
    "metrics": "Print the age of the newest good snapshot and more, as Prometheus reads it.",
    "verdicts": "Print the verdicts of the ledger, a line of JSON each; --follow prints later ones as they come.",
    "query": "Ask an assembled snapshot with SQL (DuckDB). Reads its files, and can change nothing.",
    "diff": (
        "Print what changed from one assembled snapshot to another: keys, what was in flight, how far everybody read."
    ),
    "draw": "Draw the cut of an assembled snapshot as a space-time diagram (SVG).",
    "trace": "Follow the causes of a message: which event sent it, what that came from, and so on.",
    "doctor": "Report what in this cluster would spoil a snapshot. Changes nothing, unless --fix is given.",
    "pause": "No snapshots until `resume`: every service obeys, none restarts.",
    "resume": "Snapshots again, after `pause`.",
    "retire": "Retire an app for good: no snapshot waits for its inputs any more.",
    "checkpoint": (
        "Trim the ledger: what still matters of its old records is written once more, and they are deleted."
    ),
    "prune": (
        "Remove old snapshots from storage: shows which, and asks. The newest good one stays, what others build on, and"
        " what an open restore or a fork needs."
    ),
    "serve": "Serve REST and a page: snapshots, live progress, tables. It keeps nothing; any number may run.",
    "restore": (
        "Restore the apps of a snapshot in place, or --into an empty cluster: shows the plan, and asks. Overwrites,"
        " does not merge."
    ),
    "fork": "Create, list, compare and drop forks: snapshots that run as second systems beside production.",
    "drill": (
        "Find out whether the backup can be trusted: run the newest good snapshot as a throwaway fork, verify both,"
        " remove the fork. Production is only read."
    ),
    "demo": (
        "See it: a broker, services, load, three snapshots, assembled and verified, all on this machine."
    ),
}
