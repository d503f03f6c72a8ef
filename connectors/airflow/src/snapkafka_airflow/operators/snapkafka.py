"""The verbs of snapkafka as tasks: trigger, assemble, verify, prune, and a check that the newest good one is young."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from msgspec import ValidationError, convert, structs

from snapkafka import ops
from snapkafka.errors import BadInputError, SnapshotFailedError
from snapkafka.verbs import Trigger
from snapkafka_airflow.operators.running import SnapkafkaBaseOperator, run_id_of
from snapkafka_airflow.version_compat import (
    AirflowException,
    AirflowFailException,
    BaseOperatorLink,
    XCom,
)

__all__ = [
    "ManifestLink",
    "SnapkafkaAssembleOperator",
    "SnapkafkaFreshnessOperator",
    "SnapkafkaPruneOperator",
    "SnapkafkaTriggerOperator",
    "SnapkafkaVerifyOperator",
]

#: XCom key of the manifest's URI.
MANIFEST: Final = "checkpoint_manifest_uri"
#: What the log holds of a check's witnesses; the manifest holds twenty.
WITNESSES_MAX: Final = 20


class ManifestLink(BaseOperatorLink):
    """The manifest of the snapshot, on the page of the task."""

    name = "Manifest"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the manifest's URI; a path as a file: URI; empty before the task is done."""
        place = XCom.get_value(ti_key=ti_key, key=MANIFEST) or ""
        return f"file://{place}" if place.startswith("/") else str(place)


class SnapkafkaTriggerOperator(SnapkafkaBaseOperator):
    """Ask for a snapshot; returns its id.

    The id comes from DAG, run and task, so a retry finds the same snapshot. Where that has failed, a retry starts its
    next attempt.

    Args:
        fields: of the request, by their names over REST, such as `{"snapshot_type": "incremental"}`; templated.
        wait: until it is captured, in this task.
    """

    template_fields: Sequence[str] = ("fields", "namespace", "storage")

    def __init__(self, *, fields: Mapping[str, Any] | None = None, wait: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fields, self.wait = dict(fields or {}), wait

    def execute(self, context: Any) -> str:
        """Append the trigger, unless the ledger has one of this id."""
        ti, hook = context["ti"], self.hook
        ours = {
            "snapshot_id": run_id_of(ti.dag_id, ti.run_id, ti.task_id, ti.map_index),
            "target_storage_uri": hook.storage,
            "initiated_by_node_id": f"airflow:{ti.dag_id}",
            "retries": 0,
        }

        async def ask() -> ops.SnapshotInfo:
            try:
                asked = structs.asdict(convert(ours | self.fields, Trigger))
            except ValidationError as error:
                raise BadInputError(f"fields are invalid: {error}") from error
            retries = asked.pop("retries")

            async def once(retries: int) -> ops.SnapshotInfo:
                where = hook.get_conn()
                return await ops.trigger(where, hook.namespace, **asked, retries=retries, wait=self.wait)

            try:
                return await once(retries)
            except SnapshotFailedError:
                if ti.try_number <= 1 or retries:
                    raise
                return await once(1)  # a retry: the next attempt of the id

        found = self.run_verb(ask)
        self.log.info(
            "snapshot %s: epoch %s, attempt %s, %s", found.id, found.epoch, found.attempt, found.status
        )
        return found.id


class _JobOperator(SnapkafkaBaseOperator):
    """A task that runs the Spark job on one snapshot.

    Args:
        snapshot_id: an id, an epoch, or `latest`.
        invariants, parameters: SQL to check (V6), and `name=value` for it.
        spec: how the log is read (`snapkafka.ops.JobSpec`); the arguments above and the connection override it.
    """

    template_fields: Sequence[str] = ("snapshot_id", "namespace", "storage", "invariants", "parameters")
    operator_extra_links = (ManifestLink(),)

    def __init__(
        self,
        *,
        snapshot_id: str,
        invariants: Sequence[str] = (),
        parameters: Sequence[str] = (),
        spec: ops.JobSpec | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.snapshot_id, self.invariants, self.parameters = snapshot_id, invariants, parameters
        self.spec = spec or ops.JobSpec(engine="spark")

    def _wanted(self, **more: Any) -> ops.JobSpec:
        """Return the options of the job for the snapshot of this task."""
        hook = self.hook
        return structs.replace(
            self.spec,
            namespace=hook.namespace,
            snapshots=(self.snapshot_id,),
            storage=hook.storage,
            invariants=tuple(self.invariants),
            parameters=tuple(self.parameters),
            **more,
        )

    def _report(self, context: Any, found: ops.JobResult) -> dict[str, Any]:
        """Write the verdict and its offending records to the log, the manifest's URI to XCom."""
        self.log.info("snapshot %s is %s; manifest: %s", found.id, found.verdict, found.manifest)
        for check in found.checks:
            if check.found:
                self.log.error("%s %s: %d found", check.name, check.status, check.found)
            for witness in check.witnesses[:WITNESSES_MAX]:
                self.log.error(
                    "%s: %s[%s] offset %s: %s",
                    check.name, witness.topic, witness.partition, witness.offset, witness.what,
                )  # fmt: skip
        context["ti"].xcom_push(key=MANIFEST, value=found.manifest)
        return {
            "snapshot_id": found.id,
            "epoch": found.epoch,
            "verdict": found.verdict,
            "good": found.good,
            MANIFEST: found.manifest,
        }


class SnapkafkaAssembleOperator(_JobOperator):
    """Make tables of a captured snapshot with Spark, and verify it; the job ends with the task.

    A snapshot that is not good does not fail this task: its tables are evidence, and `SnapkafkaVerifyOperator` fails.
    Run again after it was killed, it writes the same rows.
    """

    def execute(self, context: Any) -> dict[str, Any]:
        """Run the Spark job until it ends."""
        hook = self.hook

        async def work() -> tuple[ops.JobResult, ...]:
            return await ops.assemble(
                hook.get_conn(), self._wanted(), launch=hook.launch(), notify=self.log.info
            )

        (found,) = self.run_verb(work)
        return self._report(context, found)


class SnapkafkaVerifyOperator(_JobOperator):
    """Verify an assembled snapshot from its manifest and the log alone, with its offending records in the task's log.

    Args:
        tables: compare the stored tables with the log as well.
        record: write the verdict to the ledger, where assembly has written its own; watchers hear of both.
        fail_on_unverifiable: an UNVERIFIABLE snapshot fails the task; False: a warning in its log.
    """

    def __init__(
        self,
        *,
        tables: bool = False,
        record: bool = False,
        fail_on_unverifiable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tables, self.record, self.fail_on_unverifiable = tables, record, fail_on_unverifiable

    def execute(self, context: Any) -> dict[str, Any]:
        """Run the Spark job until it ends; a snapshot that is not good fails the task for good."""
        hook = self.hook

        async def work() -> tuple[ops.JobResult, ...]:
            return await ops.verify(
                hook.get_conn(),
                self._wanted(tables=self.tables, record=self.record),
                launch=hook.launch(),
                notify=self.log.info,
            )

        (found,) = self.run_verb(work)
        reported = self._report(context, found)
        if found.good:
            return reported
        if found.verdict == "UNVERIFIABLE" and not self.fail_on_unverifiable:
            self.log.warning("snapshot %s is UNVERIFIABLE: the log can no longer prove it", found.id)
            return reported
        raise AirflowFailException(
            f"snapshot {found.id} is {found.verdict}: the log above and {found.manifest} list the offending records"
        )


class SnapkafkaPruneOperator(SnapkafkaBaseOperator):
    """Remove old snapshots of the namespace; the newest good one stays, and what others build on, an open restore or a
    fork names.

    Args:
        keep_last: how many of the newest stay.
    """

    template_fields: Sequence[str] = ("namespace", "storage")

    def __init__(self, *, keep_last: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep_last = keep_last

    def execute(self, context: Any) -> list[str]:
        """Remove them; returns their ids."""
        hook = self.hook
        policy = ops.Policy(last=self.keep_last, namespace=hook.namespace)

        async def work() -> ops.Pruning:
            where = hook.get_conn()
            planned = await ops.plan_pruning(hook.storage, policy, where=where)
            return await ops.prune(hook.storage, policy, planned, where=where)

        found = self.run_verb(work)
        self.log.info(
            "removed %d snapshots and %d leftovers; %d stay",
            len(found.removed), len(found.leftovers), len(found.kept),
        )  # fmt: skip
        return [item.id for item in found.removed]


class SnapkafkaFreshnessOperator(SnapkafkaBaseOperator):
    """Fail where the newest good snapshot is too old, or there is none.

    Args:
        max_age: since the instant that it shows.
    """

    template_fields: Sequence[str] = ("namespace",)

    def __init__(self, *, max_age: timedelta = timedelta(hours=3), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_age = max_age

    def execute(self, context: Any) -> dict[str, Any]:
        """Read the ledger; returns the id and the age of the newest good snapshot."""
        hook = self.hook
        found = self.run_verb(lambda: ops.freshness(hook.get_conn(), hook.namespace))
        age_s, most_s = found.verified_age_s, self.max_age.total_seconds()
        if age_s is None:
            raise AirflowException(f"namespace {hook.namespace} has no good snapshot")
        if age_s > most_s:
            raise AirflowException(
                f"the newest good snapshot of {hook.namespace}, {found.verified_id}, is {age_s:.0f} s old;"
                f" at most {most_s:.0f} s are allowed"
            )
        return {"snapshot_id": found.verified_id, "age_s": age_s}
