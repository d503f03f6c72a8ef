"""The verbs as values: a struct for each, whose fields are arguments and options of its command and, by the names of
the contract, fields of its REST request. The docstring of a struct is the help of its command."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from .options import option, switch

#: No text holds the character that C takes for the end of one.
TEXT: Final = r"\A[^\x00]*\Z"
Text = Annotated[str, Meta(max_length=2_000, pattern=TEXT)]
Texts = Annotated[tuple[Text, ...], Meta(max_length=200)]


#: Field -> its name in the contract.
CONTRACT: Final = {
    "id": "snapshot_id",
    "manifest": "checkpoint_manifest_uri",
    "parent": "parent_snapshot_id",
    "snapshot": "snapshot_id",
    "storage": "target_storage_uri",
    "triggered_ms": "initiated_at_ms",
    "type": "snapshot_type",
    "who": "initiated_by_node_id",
}


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request. Unknown fields are refused."""


class Result(msgspec.Struct, frozen=True, kw_only=True, rename=CONTRACT):
    """A result about a snapshot. Every interface encodes it by the names of the contract."""


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster and the namespace that a verb is about."""

    bootstrap: Annotated[
        str,
        option("--bootstrap HOST:PORT", "Broker addresses, separated by commas.", env="SNAPKAFKA_BOOTSTRAP"),
    ] = ""
    namespace: Annotated[
        str,
        option(
            "--namespace NAME", "Namespace: the `namespace=` of snapkafka.install.", env="SNAPKAFKA_NAMESPACE"
        ),
    ] = ""


class Change(Request, frozen=True):
    """How a plan is confirmed."""

    dry_run: Annotated[bool, switch("Print the plan, or why it is refused; change nothing.")] = False
    yes: Annotated[bool, switch("Do not ask for confirmation.")] = False


# -- options of several verbs ---------------------------------------------------------------------------------

STORED: Final = option("--storage URI", "Directory or URI of the tables. Default: from the ledger.")
TTL: Final = option("--ttl TIME", "Fail if not captured within TIME: 5s, 1min, 500 (ms).", bare="ms")
APPS: Final = option("--apps APP", "Only these apps, comma-separated. Repeatable.", commas=True)
KEEP_LAST: Final = option("--keep-last N", "Keep the newest N snapshots.", ge=0)
SUPPRESS: Final = option("--suppress FILE", "TOML file with keys that stay erased.")
UNMATCHED: Final = switch("Accept rules of --suppress or --mask that match nothing.")


# -- take -----------------------------------------------------------------------------------------------------


class Trigger(Request, frozen=True, rename=CONTRACT | {"knowing": "knows_markers"}):
    """Take a snapshot. Services keep running."""

    snapshot_id: Annotated[
        Text, option("--id ID", "Name of the snapshot. Asking again with it returns the same.")
    ] = ""
    type: Annotated[Text, option("--type TYPE", "`full` or `incremental`.")] = "full"
    parent: Annotated[
        Text, option("--parent ID", "Parent of an incremental snapshot. Default: latest verified.")
    ] = ""
    storage: Annotated[Text, option("--storage URI", "Place of the tables. Default: that of before.")] = ""
    who: Annotated[Text, option("", "Who asks, for people.")] = ""
    apps: Annotated[Texts, APPS] = ()
    ttl_ms: Annotated[int, TTL] = 5_000
    knowing: Annotated[Texts, option("", "Consumer groups that accept markers.")] = ()
    align: Annotated[bool, switch("Hold inputs back until no message is in flight.")] = False
    align_timeout_ms: Annotated[
        int,
        option(
            "--align-timeout TIME", "Align for TIME (2s) at most; then try without. Needs --wait.", bare="ms"
        ),
    ] = 0
    retries: Annotated[int | None, option("--retries N", "Retries after a failure; 3 with --wait.")] = None


class Show(Request, frozen=True):
    """Show one snapshot.

    While it runs: what it waits for. Once captured: each process and each input.
    """

    name: Annotated[str, option("ID", "Id, epoch or `latest` (newest).")] = ""
    at_ms: Annotated[
        int | None, option("--at TIME", "Last snapshot captured by TIME (ISO 8601, local time zone).")
    ] = None


class Keep(Request, frozen=True):
    """Take, assemble, verify and prune snapshots on a schedule.

    `--once` is for timers and CronJobs. `--invariants` evaluates SQL on each snapshot: a standing watch.
    `--until` ends once a condition holds that can never turn false again, such as: a computation has ended.
    """

    every_ms: Annotated[int, option("--every TIME", "Interval between snapshots: 10min, 1h.")]
    storage: Annotated[
        str, option("--storage URI", "Directory or URI of the tables.", env="SNAPKAFKA_STORAGE")
    ] = ""
    incremental: Annotated[bool, switch("Take incremental snapshots, each on the latest verified one.")] = (
        False
    )
    keep_last: Annotated[int | None, KEEP_LAST] = None
    until: Annotated[
        str, option("--until FILE.sql", "End once this holds: SQL that returns no rows then.")
    ] = ""
    timeout_ms: Annotated[
        int | None, option("--timeout TIME", "With --until: give up after TIME. Default: never.")
    ] = None
    once: Annotated[bool, switch("Run the current round, or finish it, then exit.")] = False
    ttl_ms: Annotated[int, TTL] = 5_000


# -- inspect --------------------------------------------------------------------------------------------------


class Query(Request, frozen=True):
    """Query an assembled snapshot with SQL (DuckDB).

    It changes nothing. Without SQL it prompts. `--csv` and `--json` also print columns of bytes.
    """

    sql: Annotated[str, option("SQL", 'SELECT on state, messages, ...; other snapshots: "ID".state')] = ""
    name: Annotated[str, option("--snapshot ID", "Id, epoch or `latest` (newest good).")] = "latest"
    storage: Annotated[str, STORED] = ""
    csv: Annotated[bool, switch("Print the result as CSV.")] = False


class Draw(Request, frozen=True):
    """Draw the cut of a snapshot as a space-time diagram."""

    name: Annotated[str, option("ID", "Id, epoch or `latest` (newest assembled).")] = "latest"
    output: Annotated[str, option("-o/--output FILE", "File to write: *.svg or *.png.")] = "cut.svg"
    storage: Annotated[str, STORED] = ""


class Diff(Request, frozen=True):
    """Compare two assembled snapshots.

    It compares keys, messages in flight, and how far each input was read.
    """

    before: Annotated[str, option("A", "Snapshot before: id, epoch or `latest` (newest good).")] = ""
    after: Annotated[str, option("B", "Snapshot after: id, epoch or `latest`.")] = "latest"
    fork: Annotated[
        str, option("--fork NAME", "Show what this fork has changed, by A, a snapshot of the fork.")
    ] = ""
    storage: Annotated[str, STORED] = ""
    keys: Annotated[int, option("--keys N", "List up to N keys per table and kind of change.", ge=0)] = 0
    values: Annotated[bool, switch("Show the values of the listed keys.")] = False


class Trace(Request, frozen=True):
    """Follow the causes of a message.

    Which event sent it, which message that event was for, and so on.
    """

    topic: Annotated[str, option("TOPIC", "Topic of the message.")]
    partition: Annotated[int, option("PARTITION", "Its partition.")]
    offset: Annotated[int, option("OFFSET", "Its offset.")]


# -- trust ----------------------------------------------------------------------------------------------------


class Verdicts(Request, frozen=True):
    """Print verdicts as lines of JSON.

    They come from the ledger; --follow continues with new ones.
    """

    start: Annotated[int, option("--from OFFSET", "First offset of the ledger to read.", ge=0)] = 0
    live: Annotated[bool, option("--follow", "Continue with new verdicts, until Ctrl-C.")] = False


class Invariants(Request, frozen=True):
    """List invariants, and whether they hold in the newest snapshots.

    With a name: which snapshot first violates it, with the rows.
    """

    name: Annotated[str, option("NAME", "Name of the invariant: its file's, without .sql.")] = ""


class Drill(Request, frozen=True):
    """Test a backup by running it as a temporary fork.

    Both the snapshot and the fork are verified, then the fork is removed. Production is only read.
    """

    apps: Annotated[tuple[str, ...], option("--app COMMAND", "Command that starts a worker. Repeatable.")]
    snapshot: Annotated[str, option("--snapshot ID", "Id, epoch or `latest` (newest good).")] = "latest"
    storage: Annotated[str, STORED] = ""
    until: Annotated[
        str, option("--until FILE.sql", "Wait until this SQL is true of the fork, then judge it.")
    ] = ""
    keep: Annotated[bool, switch("Keep the fork; its workers are stopped.")] = False
    allow: Annotated[
        tuple[int, ...], option("--allow PORT", "Allow the commands TCP connections to PORT. Repeatable.")
    ] = ()
    unlocked: Annotated[bool, switch("Run the commands without the network lock.")] = False


# -- recover --------------------------------------------------------------------------------------------------


class Restore(Request, frozen=True):
    """Restore apps to a snapshot, in place or in an empty cluster.

    Shows the plan and asks. All state is replaced with that of the snapshot; nothing is merged.
    """

    name: Annotated[str, option("ID", "Id, epoch or `latest` (newest good).")] = "latest"
    storage: Annotated[str, STORED] = ""
    into: Annotated[
        str, option("--into HOST:PORT", "Restore into this empty cluster, from --storage alone.")
    ] = ""
    force: Annotated[bool, switch("Accept an unverified snapshot, or code that has changed.")] = False
    wait_s: Annotated[
        float, option("--wait SECONDS", "First wait for the workers to leave their groups.", ge=0)
    ] = 0.0
    suppress: Annotated[str, SUPPRESS] = ""
    allow_unmatched: Annotated[bool, UNMATCHED] = False
    abort: Annotated[bool, switch("Abort the open restore, if it has appended nothing yet.")] = False
    check: Annotated[bool, switch("Compare a stopped system with the snapshot; change nothing.")] = False


class ForkCreate(Request, frozen=True):
    """Create a fork of a snapshot.

    Creates topics under a prefix, with the state and the messages in flight.
    """

    fork: Annotated[str, option("NAME", "Name of the fork: letters, digits and dashes.")]
    name: Annotated[str, option("--from ID", "Id, epoch or `latest` (newest good).")] = "latest"
    storage: Annotated[str, STORED] = ""
    expires_ms: Annotated[
        int | None, option("--expires TIME", "Let `fork drop --expired` remove it after TIME: 90min, 2d.")
    ] = None
    with_inputs: Annotated[bool, switch("Also copy external records, from the snapshot until now.")] = False
    mask: Annotated[str, option("--mask FILE", "TOML file with SQL that replaces values.")] = ""
    suppress: Annotated[str, SUPPRESS] = ""
    allow_unmatched: Annotated[bool, UNMATCHED] = False
    force: Annotated[bool, switch("Accept an unverified snapshot; its values may be wrong.")] = False


class ForkDrop(Request, frozen=True):
    """Remove a fork.

    Shows the plan and asks. Removes its topics, consumer groups and ledger.
    """

    name: Annotated[str, option("NAME", "Name of the fork.")] = ""
    expired: Annotated[bool, switch("Remove expired forks.")] = False


# -- operate --------------------------------------------------------------------------------------------------


class Doctor(Request, frozen=True):
    """Check whether anything would spoil a snapshot."""

    offline: Annotated[str, option("--offline MODULE:APP", "Check an app without a broker.")] = ""
    verbose: Annotated[bool, option("-v/--verbose", "List each finding, with the commands that fix it.")] = (
        False
    )


class Retire(Request, frozen=True):
    """Remove an app for good.

    No snapshot waits for its inputs any longer.
    """

    app: Annotated[str, option("--app APP", "App to retire.")]


class Checkpoint(Request, frozen=True):
    """Trim the ledger.

    Old records that still matter are rewritten at its end; then all of them are deleted.
    """

    keep_ms: Annotated[
        int, option("--keep TIME", "Leave records younger than TIME: 1h, 2d, 90 (minutes).", bare="min", ge=0)
    ] = 3_600_000


class Prune(Request, frozen=True):
    """Remove old snapshots from storage.

    Shows the plan and asks. Keeps the newest good snapshot, and any that another snapshot, a restore or a fork needs.
    """

    storage: Annotated[str, option("--storage URI", "Directory or URI of the tables.")] = ""
    keep_last: Annotated[int | None, KEEP_LAST] = None


class TopicsCreate(Request, frozen=True):
    """Create topics; those that exist stay as they are.

    Faust does not consume a topic that is missing when a worker starts.
    """

    names: Annotated[tuple[str, ...], option("NAME", "Names of the topics.")]
    partitions: Annotated[int, option("--partitions N", "Number of partitions of each.", ge=1)] = 1
    compact: Annotated[bool, switch("Keep the last record of each key: cleanup.policy=compact.")] = False
    settings: Annotated[
        tuple[str, ...], option("--set NAME=VALUE", "A setting, by Kafka's name. Repeatable.")
    ] = ()
