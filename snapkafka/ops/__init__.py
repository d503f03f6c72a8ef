"""One function per verb: arguments in, a result out, nothing printed. The command, REST and gRPC only translate.

Every verb is a coroutine, takes where the cluster is (a `Connection`, or anything that is a `ports.Cluster`) and the
namespace, and raises `SnapkafkaError`s: `BrokerUnavailableError` where nobody answers, `LedgerUnusableError` where
there is no ledger to read, and what else it reports. Verbs of a storage alone (`prune`, `verify_offline`) take that
instead.
"""

from __future__ import annotations

from snapkafka.advice import Advice
from snapkafka.kafka.reading import LedgerReading, find_snapshot, read_ledger

from .aborting import abort
from .assembling import AROUND_RECORDS, Assembled, HowToRead, Launch, assemble, verify
from .capturing import await_captured
from .check_restored import Checked, check_restored
from .checkpointing import Checkpointed, checkpoint
from .diffing import Difference, diff
from .doctoring import Checkup, doctor
from .drawing import MESSAGES_SHOWN, Drawn, draw, draw_details
from .drill import Drill, drill
from .drill import markdown as drill_markdown
from .examining import Examined, verify_offline
from .following import Progress
from .fork import (
    Dropped,
    Fork,
    Forked,
    ForkPlan,
    create_fork,
    diff_fork,
    drop_expired,
    drop_fork,
    list_forks,
    plan_fork,
)
from .freshness import Freshness, exposition, freshness, freshness_in, gauges
from .heartbeats import Heartbeat, Session, heartbeats
from .keep import Outcome, Quiet, Schedule, keep
from .keep import Round as KeptRound
from .kept import Kept, Recent
from .listing import Details, Summary, list_snapshots, show
from .mending import Mended, Mending, mend, plan_mending
from .near_cut import trace_stored
from .picture_png import png
from .planning import Reading, plan_assembly
from .pruning import Policy, Pruning, plan_pruning, prune
from .query_apart import Bounds
from .querying import Queried, query
from .restore import Irrevocable, Restored, abort_restore, plan_restore, restore
from .restore import Plan as RestorePlan
from .restore import Selection as RestoreSelection
from .restore.editing import Mask, Suppression, read_masks, read_suppression
from .restore_into import AbsentInput, IntoPlan, RestoredInto, plan_restore_into, restore_into
from .rights import Right, Rights, rights
from .standing import Standing, Viewed
from .stored import Stored, stored
from .switching import Switched, pause, resume, retire
from .tracing import STEPS_MAX, Step, Trace, trace
from .triggering import trigger
from .verdict_stream import Verified, verdicts
from .wall_clock import Instant, WallCut
from .watching import Answer, Round, watch

__all__ = [
    "AROUND_RECORDS",
    "MESSAGES_SHOWN",
    "STEPS_MAX",
    "AbsentInput",
    "Advice",
    "Answer",
    "Assembled",
    "Bounds",
    "Checked",
    "Checkpointed",
    "Checkup",
    "Details",
    "Difference",
    "Drawn",
    "Drill",
    "Dropped",
    "Examined",
    "Fork",
    "ForkPlan",
    "Forked",
    "Freshness",
    "Heartbeat",
    "HowToRead",
    "Instant",
    "IntoPlan",
    "Irrevocable",
    "Kept",
    "KeptRound",
    "Launch",
    "LedgerReading",
    "Mask",
    "Mended",
    "Mending",
    "Outcome",
    "Policy",
    "Progress",
    "Pruning",
    "Queried",
    "Quiet",
    "Reading",
    "Recent",
    "RestorePlan",
    "RestoreSelection",
    "Restored",
    "RestoredInto",
    "Right",
    "Rights",
    "Round",
    "Schedule",
    "Session",
    "Standing",
    "Step",
    "Stored",
    "Summary",
    "Suppression",
    "Switched",
    "Trace",
    "Verified",
    "Viewed",
    "WallCut",
    "abort",
    "abort_restore",
    "assemble",
    "await_captured",
    "check_restored",
    "checkpoint",
    "create_fork",
    "diff",
    "diff_fork",
    "doctor",
    "draw",
    "draw_details",
    "drill",
    "drill_markdown",
    "drop_expired",
    "drop_fork",
    "exposition",
    "find_snapshot",
    "freshness",
    "freshness_in",
    "gauges",
    "heartbeats",
    "keep",
    "list_forks",
    "list_snapshots",
    "mend",
    "pause",
    "plan_assembly",
    "plan_fork",
    "plan_mending",
    "plan_pruning",
    "plan_restore",
    "plan_restore_into",
    "png",
    "prune",
    "query",
    "read_ledger",
    "read_masks",
    "read_suppression",
    "restore",
    "restore_into",
    "resume",
    "retire",
    "rights",
    "show",
    "stored",
    "trace",
    "trace_stored",
    "trigger",
    "verdicts",
    "verify",
    "verify_offline",
    "watch",
]
