"""Options of the tests, their one broker, their order, and how long each folder takes."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from snapkafka.testing import Broker, EmbeddedKafka

if TYPE_CHECKING:
    from tests.observing import Place

#: Folders whose files have a broker, and processes that run beside the test. A file of theirs shares fixtures that take
#: long to make, so one process runs all of it; any other test goes to whoever is free.
LIVE: Final = frozenset({"chaos", "conformance", "driver", "e2e", "features", "kafka", "spark"})
#: All files of this folder are one group: each other process would start a session of Spark of its own.
ONE_SESSION: Final = "spark"
BROKER: Final = pytest.StashKey[EmbeddedKafka]()


@pytest.fixture
def place(kafka: Broker, namespace: str, tmp_path: Path) -> Place:
    from tests.observing import Place

    return Place(kafka.bootstrap, namespace, tmp_path)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="golden files and scenarios: write what comes out into them, to be read before it is committed",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start the one broker that all processes of a run share, unless there is one, or each test wants its own."""
    if config.getoption("dist", "no") != "loadgroup" or hasattr(config, "workerinput"):
        return
    if "SNAPKAFKA_TEST_BOOTSTRAP" in os.environ:
        return
    broker = config.stash[BROKER] = EmbeddedKafka()
    broker.start()
    os.environ["SNAPKAFKA_TEST_BOOTSTRAP"] = broker.bootstrap


def pytest_unconfigure(config: pytest.Config) -> None:
    if (broker := config.stash.get(BROKER, None)) is not None:
        del os.environ["SNAPKAFKA_TEST_BOOTSTRAP"]
        broker.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give files of `LIVE` to a process as a whole, all of `tests/spark` to one, and any other test to whoever is free.

    The marks of xdist would say the same, but xdist 3.8 writes them into ids that pytest 9.2 does not read.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

    class Groups(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            folder = _folder(file)
            return nodeid if folder not in LIVE else ONE_SESSION if folder == ONE_SESSION else file

    return Groups(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that have a broker first: the others fill the rest of the time."""
    items.sort(key=lambda item: _folder(item.nodeid) not in LIVE)


def _folder(name: str) -> str:
    """Return the folder of tests/ that a test or file lies in."""
    return name.removeprefix("tests/").partition("/")[0]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seconds of each folder: the sum over its tests, which run beside those of others."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        if isinstance(report, pytest.TestReport):
            folder = report.nodeid.partition("::")[0].split("/")[1:-1]
            seconds["/".join(folder[:2])] += report.duration
    if sum(seconds.values()) > 60:
        terminalreporter.section("seconds of each folder")
        for name, each in sorted(seconds.items(), key=lambda item: -item[1]):
            terminalreporter.line(f"{each:8.0f} {name}")
