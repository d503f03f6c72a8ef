"""A system that is killed and restored again and again, also when the restore is killed, ends as if undisturbed.

Each round: a snapshot at a random moment, with messages in flight; `kill -9` of all workers a random time later; and a
restore by the command, which is killed (`kill -9`) in a random phase and run again, with workers that were started
meanwhile and must wait; or the broker is killed under it and started again; or it is given up by `--abort`, and the
workers go on until they are killed again, unless it has appended something. Some rounds restore the same snapshot
twice. The input is known, so the end result is, too: tables of every kind, and each output once, but for those between
a cut and its restore.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from snapkafka import ops
from snapkafka.errors import RestoreRefusedError, SnapkafkaError
from snapkafka.kafka import Connection
from snapkafka.testing import EmbeddedKafka, create_topics, wait_until
from tests.e2e.cycles import END_S, Cycle, assembled
from tests.e2e.cycling_names import PARTITIONS, TABLES
from tests.e2e.recovering import Operator
from tests.observing import Observer, observing

pytestmark = pytest.mark.nightly

#: Rounds of each seed; `RESTORES_ROUNDS=30` for a campaign.
ROUNDS: Final = int(os.environ.get("RESTORES_ROUNDS", "2"))
SEED: Final = int(os.environ.get("RESTORES_SEED", "1985"))
#: What each system is; the seeds go round.
KINDS: Final[dict[str, dict[str, str]]] = {
    "memory": {},
    "rocksdb": {"CYCLE_ON_DISK": "1"},
    "exactly-once": {"CYCLE_GUARANTEE": "exactly_once"},
}
SEEDS: Final = 6
#: Items that are fed beyond those that are waited for; messages that are in flight at a cut at least; items that a
#: round uses up at most; those left for the end.
AHEAD: Final = 30
IN_FLIGHT: Final = 10
PER_ROUND: Final = 40 + 40 + 30 + 20 + 4 * AHEAD + IN_FLIGHT
LAST: Final = 50
#: What the command prints before each step, but for the last one: a kill while it commits may come when it has.
EARLY: Final = ("creating topics", "joining", "waiting until nobody writes")
LATE: Final = ("appending", "writing tables", "reading back", "comparing", "setting positions")


class Campaign:
    """One system, its rounds, and what was done to it."""

    def __init__(
        self, broker: EmbeddedKafka, folder: Path, observer: Observer, seed: int, env: Mapping[str, str]
    ) -> None:
        self.broker, bootstrap = broker, broker.bootstrap
        self.cycle = Cycle(bootstrap, folder, observer, seed, items=ROUNDS * PER_ROUND + LAST)
        self.observer = observer
        self.connection = Connection(bootstrap=bootstrap)
        self.storage = folder / "storage"
        self.storage.mkdir()
        self.data = folder / "data" if "CYCLE_ON_DISK" in env else None
        if self.data is not None:
            self.data.mkdir()
        self.hold = folder / "hold"
        self.env = {**env, "CYCLE_HOLD": str(self.hold)}
        # Ends of transactions are offsets that no reader sees: what compaction leaves alone is provable all the same.
        lag = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}
        changelogs = [f"{self.cycle.prefix}{app}-{table}-changelog" for app, table in TABLES]
        create_topics(bootstrap, *changelogs, partitions=PARTITIONS, config=lag)
        self.rng = random.Random(seed)
        self.fed = 0
        self.done: Counter[str] = Counter()
        self.taken_back: list[ops.Irrevocable] = []

    def start(self) -> None:
        self.cycle.start(self.env, data=self.data)

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        wait_until(what, holds, timeout_s=END_S, system=self.cycle.system)

    def run_on(self, least: int, most: int) -> None:
        """Feed some more of the input, and wait until a part of it has come out: the rest is in flight."""
        outputs = self.rng.randint(least, most)
        until, end = self.cycle.sent() + outputs, self.fed + outputs + AHEAD
        self.cycle.feed(self.fed, end)
        self.fed = end
        self.until(f"{until} outputs", lambda: self.cycle.sent() >= until)

    def cut(self, name: str) -> None:
        """Take a snapshot while messages pile up before the second service, which goes on once it has cut."""
        self.cycle.system.await_workers()
        before = self.cycle.end_of("ping")
        self.hold.touch()
        try:
            self.cycle.feed(self.fed, self.fed + IN_FLIGHT)
            self.fed += IN_FLIGHT
            self.until("messages to pile up", lambda: self.cycle.end_of("ping") >= before + IN_FLIGHT)
            options: Any = {"snapshot_id": name, "storage": str(self.storage), "ttl_ms": 30_000}
            epoch = asyncio.run(ops.trigger(self.connection, self.observer.namespace, **options)).epoch
            # Both hear of it at once. The second one reports its cut when the event that is held has ended.
            self.until("the first to have cut", lambda: self.has_cut(epoch))
        finally:
            self.hold.unlink()
        snapshot = self.observer.state.snapshots[epoch]
        self.until("the snapshot", lambda: not snapshot.open)
        assert snapshot.failure is None, snapshot.failure

    def has_cut(self, epoch: int) -> bool:
        snapshot = self.observer.state.snapshots.get(epoch)
        return snapshot is not None and (not snapshot.open or bool(snapshot.reports))

    def round(self, number: int) -> None:
        name = f"cut-{number}"
        self.run_on(10, 40)
        self.cut(name)
        self.run_on(5, 40)
        self.cycle.kill()
        in_flight = assembled(self.connection, self.observer.namespace, name).tables["messages"]
        assert in_flight >= IN_FLIGHT - 1, "one was held, those behind it were in flight"
        self.done["in flight"] += in_flight
        self.give_up(name)
        self.restore(name)
        if self.rng.random() < 0.5:
            self.run_on(5, 30)
            self.cycle.kill()
            self.done["restored twice"] += 1
            self.restore(name)

    def restore(self, name: str) -> None:
        """Restore by the command, which is killed up to twice; the workers run afterwards."""
        waiting = False
        for _ in range(self.rng.randrange(3)):
            phase = self.rng.choice(EARLY + LATE)
            if not waiting and self.rng.random() < 0.3:
                self.without_broker(name, phase)
                continue
            if not self.killed(name, phase):
                continue
            self.done[f"killed at {phase}"] += 1
            self.catch_up()
            if self.observer.state.restores.open is not None and not waiting and self.rng.random() < 0.5:
                self.start_waiting()
                waiting = True
        done = json.loads(self.command(name, "--json").finish())["done"]
        self.done["messages"] += done["messages"]
        self.done["resumed"] += bool(done["plan"]["resumes"])
        self.done["restores"] += 1
        outputs = [ops.Irrevocable(**it) for it in done["plan"]["irrevocable"]]
        self.taken_back += [it for it in outputs if it.topic == f"{self.cycle.prefix}out"]
        if not waiting:
            self.start()

    def give_up(self, name: str) -> None:
        """Kill a restore in a random phase, and abort it: refused once it has appended; else workers go on."""
        phase = self.rng.choice(self.rng.choice((EARLY, LATE)))
        if not self.killed(name, phase):
            return
        self.catch_up()
        view = self.observer.state.restores.open
        if view is None:
            return
        appended = bool(view.leaves)
        where = ("--bootstrap", self.connection.bootstrap, "--namespace", self.observer.namespace)
        done = subprocess.run(
            [sys.executable, "-m", "snapkafka", "restore", "--abort", "--json", *where],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if appended:
            assert done.returncode == RestoreRefusedError.exit_status, done.stderr
            self.done["abort refused"] += 1
            return
        assert json.loads(done.stdout) == {"aborted": view.plan}, done.stderr
        self.done["aborted"] += 1
        groups = {self.cycle.prefix + app for app, _ in TABLES}
        members = lambda: [self.observer.call(self.observer.admin.group_members(it)) for it in groups]  # noqa: E731
        self.until("the hold of the killed run to end", lambda: not any(members()))
        self.start()
        self.run_on(5, 20)
        self.cycle.kill()

    def command(self, name: str, *options: str) -> Operator:
        return Operator(self.connection.bootstrap, self.observer.namespace, name, *options)

    def killed(self, name: str, phase: str) -> bool:
        """Run the command and kill it when it prints this phase, or a moment later; False: it ended before."""
        command = self.command(name)
        if command.comes_to(phase):
            with suppress(subprocess.TimeoutExpired):
                command.process.wait(self.rng.choice((0.001, 0.01, 0.05)))
        return command.end() < 0

    def without_broker(self, name: str, phase: str) -> None:
        """Run the command and kill the broker when it prints this phase; it fails by name, or gets through."""
        command = self.command(name)
        if command.comes_to(phase):
            self.broker.kill()
            self.broker.start()
            self.done["broker killed"] += 1
        status, _, err = command.ends()
        assert "Traceback" not in err, err
        assert status == 0 or "error:" in err, f"status {status}: {err}"
        self.done["got through"] += status == 0
        self.until("the broker to lead every partition", self.answers)

    def answers(self) -> bool:
        try:
            self.cycle.sent()
        except SnapkafkaError:
            return False
        return True

    def start_waiting(self) -> None:
        """Start the workers while the restore is open: they hold their inputs."""
        at = self.cycle.sent()
        self.start()
        for worker in self.cycle.system.workers:
            waits = lambda log=worker.log: "waits: plan" in log.read_text()  # noqa: E731
            self.until(f"{worker.name} to wait", waits)
        assert self.cycle.sent() == at, "a worker ran while a restore was open"
        self.done["waited"] += 1

    def catch_up(self) -> None:
        """Have the observer read the ledger to its end."""
        end = self.observer.call(self.observer.ledger.end())
        self.until("the observer to have read the ledger", lambda: self.observer.state.end >= end)


@contextmanager
def campaign(folder: Path, seed: int, env: Mapping[str, str]) -> Iterator[Campaign]:
    with EmbeddedKafka() as broker, observing(broker.bootstrap, f"r{uuid.uuid4().hex[:8]}") as observer:
        found = Campaign(broker, folder, observer, seed, env)
        try:
            found.start()
            yield found
        except BaseException:
            for worker in found.cycle.system.workers:
                print(f"--- {worker.name}\n{worker.last_lines(30)}")
            raise
        finally:
            print(dict(found.done))
            found.cycle.system.stop()


@pytest.mark.timeout(300 + 600 * ROUNDS)
@pytest.mark.parametrize(
    ("seed", "kind"), [(SEED + number, [*KINDS][number % len(KINDS)]) for number in range(SEEDS)]
)
def test_a_system_restored_again_and_again(tmp_path: Path, seed: int, kind: str) -> None:
    with campaign(tmp_path, seed, KINDS[kind]) as found:
        for number in range(ROUNDS):
            found.round(number)
        found.cycle.feed(found.fed)
        found.cycle.finish(found.taken_back)
        assert found.done["restores"] >= ROUNDS
        assert found.done["aborted"] + found.done["abort refused"] > 0, "no restore was given up"
        assert sum(count for what, count in found.done.items() if what.startswith("killed")) > 0, (
            "no restore was killed"
        )
        assert found.done["resumed"] > 0, "no restore was resumed"
        assert found.taken_back, "nothing came out between a cut and its restore"
