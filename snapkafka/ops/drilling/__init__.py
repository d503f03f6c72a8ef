"""`drill`: run a backup, and report whether it can be trusted.

The newest good snapshot becomes a throwaway fork; the apps start in it and process the messages that were in flight at
the cut; a snapshot of the fork is assembled and verified, the snapshot itself is verified once more, and the
invariants are checked on both. Production is only read. Everything that the drill creates is removed, also if it fails
or is interrupted.

| module | |
|---|---|
| `steps` | the phases, waiting, and the end |
| `workers` | the apps' processes |
| `result` | the result |

A phase that fails is a reason not to trust the backup, and not an error of the drill: later phases are listed as not
run.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from snapkafka import verbs
from snapkafka.assembly.spec import PLAIN_SPEC, JobSpec
from snapkafka.errors import BadInputError, DependencyMissingError
from snapkafka.kafka.login.connection import Connection
from snapkafka.runtime.child import to_its_end
from snapkafka.runtime.extras import require_engine, require_extra
from snapkafka.runtime.locked import lock_problem

from .result import Drill, Phase, records_of
from .steps import DrillRun
from .workers import Workers, parsed

__all__ = ["Drill", "Phase", "drill", "records_of"]


async def drill(
    where: Connection,
    namespace: str,
    request: verbs.Drill,
    *,
    who: str = "",
    spec: JobSpec = PLAIN_SPEC,
    notify: Callable[[str], None] = lambda text: None,
    kind: type[DrillRun] = DrillRun,
) -> Drill:
    """Run a snapshot as a throwaway fork, and find out whether it can be trusted.

    Args:
        spec: the settings by which assembly reads the log, and the invariants that are checked on both snapshots, where
            `${prefix:}` is the prefix of the fork's names.

    Raises:
        SnapkafkaError: only before anything was created.
    """
    commands = parsed(request.apps)
    await asyncio.to_thread(_require_lock, where, request.allow, not request.unlocked)
    require_extra("restore", "a drill")
    require_engine(spec.engine)
    began = datetime.now(UTC)
    folder = Path(tempfile.mkdtemp(prefix="snapkafka-drill-"))
    run = kind(
        where=where,
        namespace=namespace,
        fork=new_id(began),
        request=request,
        commands=commands,
        folder=str(folder / "snapshots"),
        spec=spec,
        workers=Workers(folder, lock=not request.unlocked, allow=request.allow),
        who=who,
        notify=notify,
    )
    try:
        await run.run()
    finally:
        await to_its_end(run.put_away())
        shutil.rmtree(folder, ignore_errors=True)
    return run.result(namespace, began.isoformat(timespec="seconds"))


def new_id(now: datetime) -> str:
    """Generate the id of a drill, which is also the name of its fork: the second of its start and 32 random bits.

    Args:
        now: in UTC.
    """
    return f"drill-{now:%Y%m%d-%H%M%S}-{random.getrandbits(32):08x}"


def _require_lock(where: Connection, allow: Sequence[int], lock: bool) -> None:
    brokers = {server.rpartition(":")[2] for server in where.hosts}
    if own := [port for port in allow if str(port) in brokers]:
        raise BadInputError(
            f"--allow {own[0]} is a port of the brokers: commands would reach production there",
            hint="leave it out: an installed fork needs no port",
        )
    if wrong := [port for port in allow if not 0 < port < 65_536]:
        raise BadInputError(f"--allow {wrong[0]} is not a port", hint="a number from 1 to 65535")
    if lock and (problem := lock_problem(allow)):
        raise DependencyMissingError(
            f"commands cannot be isolated from the broker here: {problem}",
            hint="run the drill on Linux 6.7 or later; --unlocked trusts the commands (docs/guide/drill.md)",
        )
