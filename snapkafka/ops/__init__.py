"""One function per verb: arguments in, a result out, nothing printed. The command, REST and gRPC only translate.

Every verb is a coroutine, takes the cluster (a `Connection`, or any `ports.Cluster`) and the namespace, and raises
`SnapkafkaError`s: `BrokerUnavailableError` if no broker answers, `LedgerUnusableError` if there is no ledger to read,
and those that it lists. Verbs of a storage alone (`prune`, `verify_offline`) take that instead.
"""

from __future__ import annotations

from snapkafka.assembly.spec import JobResult, JobSpec, changed
from snapkafka.drawing.png import png
from snapkafka.drawing.wall_clock import WallCut
from snapkafka.kafka.ledger.reading import read_ledger
from snapkafka.query.engine import Bounds
from snapkafka.recovery.editing import RuleCount
from snapkafka.recovery.forks import Dropped, Dropping, Fork, drop_forks, list_forks, plan_drop
from snapkafka.recovery.masks import Mask, read_masks
from snapkafka.recovery.plan import AbsentInput, Irrevocable, Recovered
from snapkafka.recovery.plan import Plan as RecoveryPlan
from snapkafka.recovery.plan import Request as RecoveryRequest
from snapkafka.recovery.recovery import plan_recovery, recover
from snapkafka.recovery.suppression import Suppression, read_suppression

from .assembling import Launch, assemble, verify
from .audit_comparison import AuditedPartition
from .auditing import AuditReport, audit
from .checkpointing import Checkpointed, checkpoint
from .creating_topics import CreatedTopic, create_topics
from .diffing import Difference, diff
from .doctoring import Checkup, doctor
from .drawing import MESSAGES_SHOWN, Drawn, draw, draw_details
from .drill import Drill, drill
from .following import CaptureProgress, await_captured
from .freshness import Freshness, WatchedInvariant, freshness, freshness_in, gauges
from .invariants import (
    Evaluation,
    Holding,
    InvariantHistory,
    history_in,
    invariants,
    invariants_in,
    with_rows,
)
from .keep import Answer, KeptRound, Outcome, keep
from .listing import Details, Summary, list_snapshots, show
from .pruning import Policy, Pruning, plan_pruning, prune
from .querying import Queried, query
from .restoring import CheckedRestore, CheckedTable, abort_restore, await_workers, check_restored
from .switching import Switched, abort, pause, resume, retire
from .tracing import STEPS_MAX, Trace, TraceStep, trace
from .triggering import trigger
from .verdict_stream import Verified, verdicts
from .verifying_offline import ExaminedFiles, verify_offline
