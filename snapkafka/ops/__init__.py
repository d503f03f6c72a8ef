"""One function per verb: arguments in, a result out, nothing printed. The command, REST and gRPC only translate.

Every verb is a coroutine, and takes the cluster (a `Connection`, or any `ports.Cluster`; None where `storage` or
`manifest`, the place of one, is enough) and the namespace. `name` is an id, an epoch, or `latest`: the last good one,
unless its verb says otherwise. `who`: the caller, for people. `progress`, `notify`: called from time to time.

Every verb raises `BrokerUnavailableError` if no broker answers, `LedgerUnusableError` if there is no ledger to read,
`BadInputError` for arguments that make no sense, `UnknownSnapshotError`, `StorageError` for files that are missing or
altered, `DependencyMissingError` for an extra that is not installed, and the `SnapkafkaError`s that it lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from snapkafka.assembly.spec import JobResult, JobSpec, changed
    from snapkafka.drawing.png import png
    from snapkafka.kafka.ledger.reading import read_ledger
    from snapkafka.query.engine import Bounds
    from snapkafka.restore.editing import RuleCount
    from snapkafka.restore.forks import Dropping, Fork, drop_forks, list_forks, plan_drop
    from snapkafka.restore.plan import AbsentInput, Irrevocable, Recovered
    from snapkafka.restore.plan import Plan as RecoveryPlan
    from snapkafka.restore.plan import Request as RecoveryRequest
    from snapkafka.restore.planning import plan_recovery, recover
    from snapkafka.restore.rules import Mask, Suppression, read_masks, read_suppression

    from .assembling import ExaminedFiles, Launch, assemble, verify, verify_offline
    from .diffing import Difference, diff
    from .doctoring import Checkup, doctor
    from .drawing import MESSAGES_SHOWN, Drawn, draw, draw_details
    from .drilling import Drill, drill
    from .info import Details, SnapshotInfo, details, instant, summary, with_files
    from .keeping import Answer, KeptRound, Outcome, keep
    from .listing import Freshness, Verified, freshness, freshness_in, gauges, list_snapshots, show, verdicts
    from .pruning import Checkpointed, Policy, Pruning, checkpoint, plan_pruning, prune
    from .reading import Queried, Trace, TraceStep, query, trace
    from .restoring import CheckedRestore, CheckedTable, abort_restore, await_workers, check_restored
    from .snapshots import CaptureProgress, Switched, abort, await_captured, pause, resume, retire, trigger
    from .topics import CreatedTopic, create_topics
    from .watching import Evaluation, Holding, Invariant, history_in, invariants, invariants_in, with_rows
else:
    __getattr__ = lazily(__name__)
