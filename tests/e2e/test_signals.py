"""Ctrl-C, `kill` and `kill -9` on each command that starts something or waits: nothing of it is left.

Phases are told by what the command prints, never by time; a signal that came too late for its phase is no hit, and is
sent again to a new process. What was started carries a mark in its environment, which its own children inherit.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pyspark
import pytest
from anyio.from_thread import start_blocking_portal

import snapkafka.assembly
from snapkafka.errors import TimedOutError
from snapkafka.kafka import Connection
from snapkafka.runtime import locked_jars, spark_java_home
from snapkafka.testing import Broker, create_topics
from snapkafka.until import blocking_until
from tests.kafka.processes import process
from tests.marked import marked, with_ctrl_c
from tests.spark.scene import Stage, play
from tests.worlds.stores import LocalStore

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


def spark_submit() -> list[str]:
    """As a scheduler runs it: the JVM is the parent."""
    return [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local[2]", "--jars", ",".join(map(str, locked_jars("spark")))),
        *("--driver-java-options", "-XX:TieredStopAtLevel=1", "--conf", "spark.ui.enabled=false"),
        str(Path(snapkafka.assembly.__file__).with_name("__main__.py")),
    ]


SLEEPS: Final = (sys.executable, "-c", "import time; time.sleep(600)")
COMMAND: Final = with_ctrl_c("snapkafka")
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
#: What a command may take to end, and what whoever lost it may take to notice and to end as well.
ENDS_WITHIN_S: Final = 5.0
DEMO_ENDS_WITHIN_S: Final = 10.0  # with a broker and four workers
LOST_WITHIN_S: Final = 8.0
PHASE_TIMEOUT_S: Final = 150.0
#: A last phase may be over before the signal arrives.
ATTEMPTS: Final = 4


@dataclass
class Running:
    """A command that runs, with its mark and what it has printed so far."""

    process: subprocess.Popen[bytes]
    mark: str
    printed: Path

    @property
    def text(self) -> str:
        return self.printed.read_text(errors="replace")

    def runs(self, what: str) -> bool:
        """Has one of them this in its command line?"""
        for each in marked(self.mark):
            with contextlib.suppress(psutil.Error):
                if what in " ".join(each.cmdline()):
                    return True
        return False


Check = Callable[[Running], bool]
#: When the signal may be sent, and when it came too late.
Phase = tuple[Check, Check]


def printed(*texts: str) -> Check:
    return lambda running: any(text in running.text for text in texts)


READING: Final = printed(": reading ", ": verifying ")
CHECKED: Final = printed("; checked ")
JOB_PHASES: Final[dict[str, Phase]] = {
    "start": (lambda running: running.runs("org.apache.spark.deploy.SparkSubmit"), READING),
    "middle": (READING, CHECKED),
    "end": (CHECKED, printed("VERIFIED", "manifest:")),
}
WAITING: Final = printed("waiting for")
LOADED, ASSEMBLING = printed("transfers asked for"), printed("Assembly and verification by")
PHASES: Final[dict[str, dict[str, Phase]]] = {
    "assemble": JOB_PHASES,
    "submit": {**JOB_PHASES, "start": (printed("starting Spark"), READING)},
    "keep": {**JOB_PHASES, "end": (CHECKED, printed("holds"))},
    "trigger": {
        "start": (lambda running: connected(running.process.pid), WAITING),
        "middle": (WAITING, printed("captured")),
    },
    "demo": {
        "start": (lambda running: running.runs("kafka.Kafka"), LOADED),
        "middle": (LOADED, ASSEMBLING),
        "end": (lambda running: running.runs("snapkafka.assembly"), printed("Nothing is left running")),
    },
}


def connected(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(each.status == "ESTABLISHED" for each in psutil.Process(pid).net_connections())
    return False


@dataclass
class World:
    """A broker with a snapshot that was captured, and a process that takes part in more of them."""

    bootstrap: str
    stage: Stage
    alive: str
    stuck: str
    folder: Path

    def arguments(self, command: str, storage: Path) -> list[str]:
        namespace = {"keep": self.alive, "trigger": self.stuck}.get(command, self.stage.namespace)
        at = ["--bootstrap", self.bootstrap, "--namespace", namespace]
        snapshot, stored = f"{self.stage.namespace}-snap", ["--storage", str(storage), *at]
        spark = ["--engine", "spark", *stored]
        return {
            "submit": [*spark_submit(), "--snapshot", snapshot, *stored],
            "assemble": [*COMMAND, "assemble", snapshot, *spark],
            "keep": [*COMMAND, "keep", "--until", "termination", "--every", "1s", *spark],
            "trigger": [*COMMAND, "trigger", "--wait", "--ttl", "15000", *at],
            "demo": [*COMMAND, "demo", "--storage", str(storage)],
        }[command]

    def start(self, command: str, storage: Path) -> Running:
        mark, out = uuid.uuid4().hex, self.folder / f"{uuid.uuid4().hex}.txt"
        own = {"MARK": mark, "COLUMNS": "85", "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        with out.open("wb") as into:
            started = subprocess.Popen(
                self.arguments(command, storage), env={**os.environ, **own, "JAVA_HOME": str(spark_java_home())},
                stdin=subprocess.DEVNULL, stdout=into, stderr=into, process_group=0,
            )  # fmt: skip
        return Running(started, mark, out)


@pytest.fixture(scope="module")
def world(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    names = [f"{kind}{uuid.uuid4().hex[:8]}" for kind in ("s", "a", "w")]
    stage = play(kafka.bootstrap, names[0])
    with contextlib.ExitStack() as stack:
        for name, reports in ((names[1], True), (names[2], False)):  # of the latter none is ever captured
            create_topics(kafka.bootstrap, topic := f"{name}-orders")
            alive = process(Connection(bootstrap=kafka.bootstrap), name, topic, reports=reports)
            portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(portal.wrap_async_context_manager(alive))
        yield World(kafka.bootstrap, stage, names[1], names[2], tmp_path_factory.mktemp("signals"))


def hit(world: World, command: str, number: signal.Signals, phase: Phase, storage: Path) -> Running:
    """Send the signal in its phase; the command, ended. One that came too late is sent again."""
    begun, over = phase
    for _ in range(ATTEMPTS):
        running = world.start(command, storage)
        # In its group and not its child, as in a shell's pipeline or under a scheduler.
        neighbour = subprocess.Popen(SLEEPS, process_group=running.process.pid, stderr=subprocess.DEVNULL)
        try:
            blocking_until(
                lambda running=running: begun(running) or running.process.poll() is not None,  # type: ignore[misc]
                PHASE_TIMEOUT_S, f"{command} to be in its phase", every_s=0.02,
            )  # fmt: skip
            in_time = not over(running) and running.process.poll() is None
            with contextlib.suppress(ProcessLookupError):
                if number is signal.SIGINT:
                    os.killpg(running.process.pid, number)  # as a terminal does
                else:
                    running.process.send_signal(number)
            within_s = DEMO_ENDS_WITHIN_S if command == "demo" else ENDS_WITHIN_S
            try:
                running.process.wait(within_s)
            except subprocess.TimeoutExpired:
                pytest.fail(f"{command} still runs {within_s:g} s after {number.name}:\n{running.text}")
            # Under `spark-submit` it is the JVM that was asked, and the job ends with it.
            rest_within_s = ENDS_WITHIN_S if command == "submit" else 0.5
            if number is signal.SIGKILL:
                rest_within_s = LOST_WITHIN_S
            with contextlib.suppress(TimedOutError):
                blocking_until(lambda mark=running.mark: not marked(mark), rest_within_s, "the others to end")  # type: ignore[misc]
            left = [f"{each.pid} {' '.join(each.cmdline())[:150]}" for each in marked(running.mark)]
            assert left == [], f"{len(left)} processes are left\n{running.text}"
            if number is not signal.SIGINT:
                assert neighbour.poll() is None, "a process of another program was ended"
        finally:
            for started in (neighbour, running.process):
                started.kill()
                started.wait()
            for each in marked(running.mark):
                each.kill()
        if in_time and not (over(running) and number is not signal.SIGKILL):
            return running
    pytest.fail(f"{number.name} came too late {ATTEMPTS} times:\n{running.text}")


CASES: Final = [
    pytest.param(command, number, phase, id=f"{command}-{number.name}-{phase}")
    for command, phases in PHASES.items()
    for number in SIGNALS
    for phase in phases
]


@pytest.mark.parametrize(("command", "number", "phase"), CASES)
def test_nothing_is_left(
    world: World, tmp_path: Path, command: str, number: signal.Signals, phase: str
) -> None:
    """No process, no folder that is half-written, no lock; and the exit status says how it ended."""
    storage = tmp_path / "storage"
    ended = hit(world, command, number, PHASES[command][phase], storage)
    killed = number is signal.SIGKILL
    assert ended.process.returncode == (-number if killed else 128 + number), ended.text
    assert killed or "Traceback" not in ended.text
    if number is signal.SIGINT and command not in ("submit", "demo"):
        *before, last = ended.text.splitlines()
        assert not any("interrupted" in line.lower() for line in before), ended.text
        stopped = rf"`snapkafka {command}` stopped\."
        if command == "trigger" and ("waiting for" in ended.text or "continues" in last):
            stopped = r"Snapshot (\S+) continues: `snapkafka show \1`\."
        assert re.fullmatch(rf"Interrupted\. {stopped}", last), ended.text
    require_clean(storage, killed=killed)


def require_clean(storage: Path, *, killed: bool) -> None:
    """What lies there is whole. After `kill -9` something unfinished may: nobody holds it, so that `prune` and the
    next run of the same snapshot take it away."""
    if not storage.is_dir():
        return
    unfinished = {item.name for item in LocalStore(storage).leftovers(older_than_s=-60.0)}
    # The demo makes a storage of its own by the time of day; so are the snapshots named that `keep` triggers.
    storages = {
        folder.name
        for folder in storage.glob("20*/")
        if folder.name not in unfinished and not (storage / f"{folder.name}.json").exists()
    }
    for folder in (storage, *(storage / name for name in storages)):
        leftovers = {item.name for item in LocalStore(folder).leftovers(older_than_s=-60.0)}
        whole = {name for path in folder.glob("*.json") for name in (path.name, path.stem)}
        assert {path.name for path in folder.iterdir()} <= whole | leftovers | storages | {"assembly.txt"}
        assert killed or leftovers == set()
