"""The findings of `doctor`, as one table: the weight of each, what it says, and what to do."""

from __future__ import annotations

from typing import Final

from snapkafka.advice import Advice, Weight
from snapkafka.errors import SnapkafkaError

PROBLEM, WARNING, NOTE = Weight.PROBLEM, Weight.WARNING, Weight.NOTE
SETTINGS: Final = "change its settings: `snapkafka doctor -v` prints the command"
#: Texts are completed by the fields with which a finding is made.
FINDINGS: Final[dict[str, tuple[Weight, str, str]]] = {
    # Processes and apps.
    "nobody": (PROBLEM, "no process is running", "start the services; each joins when it calls snapkafka.install"),
    "stamp-only": (WARNING, "{apps} refuse snapshots: mode stamp",
                   'start them with mode="on", or SNAPKAFKA=on, once all are upgraded'),
    "restoring": (NOTE, "{what}; it began at {since}", "wait until it is done; if it has died, run it again"),
    "input-unassigned": (PROBLEM, "no process of app {app} has {tp} ({count} inputs): {waits}",
                         "snapshots fail until then; if it takes minutes, see the log of the worker"),
    "still-counted": (PROBLEM, "{what}",
                      "snapshots of its app fail until then: start it again, or try again in a minute"),
    "paused": (PROBLEM, "snapshots are paused", "snapkafka resume"),
    "stood-down": (PROBLEM, "{what}; every snapshot with its app fails",
                   "restart it, and report the error in its log; if it has ended, start the app or retire it"),
    "stopped": (NOTE, "app {app} does not run; snapshots use the positions where it stopped",
                "if it will not return: snapkafka retire --app {app}"),
    "releases": (NOTE, "processes run several releases: {releases}",
                 "those with other ledger schemas skip each other's records; finish the upgrade"),
    "not-captured": (WARNING, "app {app}: {what}",
                     "see docs/reference/features.md; `snapkafka doctor --offline` examines an app"),
    "global-partitions": (WARNING, "global table {table} of app {app} has {count} partitions: V3 is unverifiable",
                          "use app.GlobalTable(..., partitions=1) and recreate its changelog"),
    # The newest snapshots.
    "split-keys": (WARNING, "snapshot {id}: {what}",
                   "place keys by murmur2_random, or group_by before the table; then write these keys again"),
    "agent-stands": (WARNING, "{agent} of {app} stands, while its inputs grew by {grown:,}: {unread:,} are unread",
                     "see its log: while it fails at each record, snapshots are consistent, and nothing happens"),
    "never-read": (WARNING, "{what}",
                   "keep records for as long as readers may lag (retention.ms), and process these from elsewhere"),
    "topic-unread": (PROBLEM, "topic {topic} did not exist when {app} started, so no worker reads it",
                     "once it exists, restart {app}: Faust notices a new topic only after minutes"),
    # The ledger.
    "ledger-long": (WARNING, "{topic}: each worker first reads {count:,} records that a checkpoint would remove",
                    "run `snapkafka checkpoint` regularly"),
    "ledger-cut-short": (WARNING, "{topic}: {what}; until then every snapshot fails",
                         "find out why its broker lost them (docs/reference/ledger.md)"),
    "ledger-garbage": (NOTE, "{count} records in {topic} cannot be read: of another release, or not of snapkafka",
                       "see who may write to it; if processes of a later release run, upgrade the command"),
    # Topics.
    "topic-missing": (PROBLEM, "topic {topic}, an input of app {app}, does not exist",
                      "create it and restart the app: Faust does not see topics created later"),
    "partitions-added": (WARNING, "topic {topic} has {now} partitions, app {app} joined with {then}",
                         "restart the app"),
    "partition-counts": (PROBLEM, "{what}",
                         "make the counts equal and restart the app: Faust fails at the first write to the table"),
    "compaction": (WARNING, "Kafka may compact {role} {when} (min.compaction.lag.ms={lag_ms}): too soon", SETTINGS),
    "sets-compacted": (PROBLEM, "{role} of sets has cleanup.policy={policy}: compaction loses members", SETTINGS),
    "state-deleted": (PROBLEM, "{role} of {table} has cleanup.policy={policy} and keeps {kept}: older keys are lost",
                      SETTINGS),
    "retention": (PROBLEM, "{role} keeps records for {kept}, assembly needs them for {needed}{windows}", SETTINGS),
    "retention-bytes": (WARNING, "{role} keeps {size:,} bytes: under load less than {needed}", SETTINGS),
    "headers-lost": (PROBLEM, "the record at offset {offset} of {tp}, sent by {sender}, lost its header {header}",
                     "let the proxy, mirror or transform on the way to this topic pass the header {header} on"),
    # Groups without snapkafka.
    "members-without": (PROBLEM, "group {group} has {count} members, {joined} of them with snapkafka",
                        "install it in all of them: what the others do is in no snapshot"),
    "app-runs-without": (PROBLEM, "app {group} runs without snapkafka ({count} members): its snapshots fail",
                         "restart it with snapkafka; if it is without for good: snapkafka retire --app {group}"),
    "external-reader": (NOTE, "group {group} reads {topics} without snapkafka; no markers are sent there",
                        "if it skips records with a null value: name {group} in knows_markers (--config)"),
    "external-output-reader": (NOTE, "group {group} reads the outputs {topics} without snapkafka: it is in no snapshot",
                               "if it writes back to inputs, install snapkafka in it"),
}  # fmt: skip


def find(code: str, subject: str = "", command: str = "", undo: str = "", /, **fields: object) -> Advice:
    """Make the finding of a code."""
    weight, what, do = FINDINGS[code]
    what, do = what.format(**fields), do.format(**fields)
    return Advice(code=code, weight=weight, what=what, do=do, subject=subject, command=command, undo=undo)


def unseen(code: str, error: SnapkafkaError, so: str = "") -> Advice:
    """Make the finding that something could not be examined."""
    return Advice(code=f"{code}-unseen", weight=WARNING, what=f"{error}{so}", do=error.hint)
