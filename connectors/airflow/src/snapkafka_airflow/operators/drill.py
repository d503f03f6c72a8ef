"""A drill as a task: the command `snapkafka drill` in a process of its own, its result in XCom and log."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from snapkafka import ops
from snapkafka.assembly.spec import OPTIONS, SYSTEM
from snapkafka.errors import EXIT_NOT_GOOD, EXIT_OK, all_errors
from snapkafka.options import options_of
from snapkafka.runtime.child import run_child
from snapkafka.runtime.signals import CODES, exit_status
from snapkafka.verbs import Drill
from snapkafka_airflow.operators.running import HOPELESS, SnapkafkaBaseOperator
from snapkafka_airflow.version_compat import AirflowException, AirflowFailException

__all__ = ["SnapkafkaDrillOperator"]

#: More than the command needs to put things away: it ends itself after 180 s.
GRACE_S: Final = 190.0
#: Exit status of the command -> its code and what it means.
MEANINGS: Final = {
    EXIT_NOT_GOOD: ("not-good", ""),
    **{exit_status(number): (code, "") for number, code in CODES.items()},
    **{cls.exit_status: (cls.code, cls.meaning) for cls in all_errors()},
}


class SnapkafkaDrillOperator(SnapkafkaBaseOperator):
    """Run a snapshot as a throwaway fork, and fail unless the backup can be trusted.

    The command runs in the Python of the connection, which needs `snapkafka[spark,restore]`. When the task is killed it
    ends its workers and removes its fork; killed with its worker, it does so by itself.

    Args:
        apps: commands that start the workers of the fork, one for each app at least; no shell runs them.
        snapshot_id: an id, an epoch, or `latest`, the newest good one.
        invariants, parameters: SQL to check on both snapshots (V6), and `name=value` for it.
        until: SQL that has to hold of the fork before it is judged, as for `keep --until`.
        allow: ports to which the apps may open TCP connections of their own.
        unlocked: trust the apps: `snapkafka.install` alone keeps them from production.
        env: variables for the command and the apps, on top of those of Airflow's worker.
        spec: how the log is read (`snapkafka.ops.JobSpec`).
    """

    template_fields: Sequence[str] = (
        "apps", "snapshot_id", "invariants", "parameters", "until", "env", "namespace", "storage",
    )  # fmt: skip

    def __init__(
        self,
        *,
        apps: Sequence[str] | str,
        snapshot_id: str = "latest",
        invariants: Sequence[str] = (),
        parameters: Sequence[str] = (),
        until: str = "",
        allow: Sequence[int] = (),
        unlocked: bool = False,
        env: Mapping[str, str] | None = None,
        spec: ops.JobSpec | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.apps, self.snapshot_id, self.until = apps, snapshot_id, until
        self.invariants, self.parameters = invariants, parameters
        self.env, self.spec = env or {}, spec or ops.JobSpec(engine="spark")
        self.allow, self.unlocked = allow, unlocked

    def execute(self, context: Any) -> dict[str, Any]:
        """Run the command until it ends; returns what was found, without the workers' logs."""
        hook = self.hook
        launch = hook.launch()
        environ = {**os.environ, **launch.environ, **self.env}
        with tempfile.TemporaryDirectory(prefix="snapkafka-drill-") as folder:
            result, config = Path(folder, "drill.json"), Path(folder, "snapkafka.toml")
            config.write_text(_config_of(self.spec), encoding="utf-8")
            python = launch.python or sys.executable
            request = Drill(
                apps=(self.apps,) if isinstance(self.apps, str) else tuple(self.apps),
                snapshot=self.snapshot_id,
                storage=hook.storage,
                until=self.until,
                allow=tuple(self.allow),
                unlocked=self.unlocked,
            )
            words = [
                python, "-m", "snapkafka", "drill",
                f"--bootstrap={hook.bootstrap}", f"--namespace={hook.namespace}",
                f"--json={result}", f"--config={config}",
                *_flags_of(request), *_flags_of(self._spec()),
            ]  # fmt: skip
            status, last = self._run(words, environ)
            if status in (EXIT_OK, EXIT_NOT_GOOD) and result.exists():
                return self._found(json.loads(result.read_text()))
        raise _failure(status, last)

    def _spec(self) -> ops.JobSpec:
        """Return how the log is read, with the invariants, which are templates until the task runs."""
        return ops.changed(self.spec, invariants=tuple(self.invariants), parameters=tuple(self.parameters))

    def _run(self, command: Sequence[str], environ: Mapping[str, str]) -> tuple[int, str]:
        """Run it; its exit status, and its last line, which names the error where it has failed."""
        lines: list[str] = []

        def heard(line: str) -> None:
            if line:
                lines.append(line)
                self.log.info("%s", line)

        status = self.run_verb(lambda: run_child(command, heard, env=environ, grace_s=GRACE_S))
        errors = [line for line in lines if line.startswith("error: ")]
        return status, (errors or lines or ["it printed nothing"])[-1].removeprefix("error: ")

    def _found(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return what was found; a backup that cannot be trusted fails the task for good."""
        if not found["trusted"]:
            for command, lines in found["logs"].items():
                self.log.error("last lines of `%s`:\n%s", command, lines)
            raise AirflowFailException(
                f"the backup cannot be trusted (exit status {EXIT_NOT_GOOD}, {MEANINGS[EXIT_NOT_GOOD][0]}):"
                f" {'; '.join(found['reasons'])}"
            )
        return {key: found[key] for key in ("fork", "trusted", "snapshot_id", "epoch", "rpo_s", "rto_s")}


def _config_of(spec: ops.JobSpec) -> str:
    """Return a file for `--config` with what is no option of the command; JSON's values are those of TOML."""
    given = {name: getattr(spec, name) for name in SYSTEM if not OPTIONS[name].flag}
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in given.items())


def _flags_of(request: Any) -> Iterator[str]:
    """Yield the options of a command that differ from their defaults; with `=`, as a value may begin with a dash."""
    for found in options_of(type(request)).values():
        value = getattr(request, found.field)
        if value == found.default or not found.flag:
            continue
        if found.type is bool:
            yield found.flag
        else:
            yield from (f"{found.flag}={item}" for item in (value if found.many else (value,)))


def _failure(status: int, last: str) -> AirflowException:
    """Return the error of a command without a result; another try is made unless it would meet the same."""
    if status < 0:
        return AirflowException(f"the drill was killed by {signal.Signals(-status).name}: {last}")
    code, meaning = MEANINGS.get(status, ("unknown", ""))
    kind = AirflowFailException if code in HOPELESS else AirflowException
    return kind(
        f"the drill ended with status {status}, {code}: {last} {f'({meaning})' if meaning else ''}".rstrip()
    )
