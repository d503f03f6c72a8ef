"""Workers with different ledger keys in one namespace, on a real broker: the one that the others refuse takes no part,
and log, metrics, `doctor` and the next snapshot name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.demo import System, observing, wait_until
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker
from snapkafka.wire.signature import KEY
from tests.driver.test_failing_open import answers
from tests.driver.test_install import make_topics, produce, take
from tests.driver.test_operators import free_port, get, metric

pytestmark = pytest.mark.timeout(200)

OLD, NEW = "the old key of this ledger", "the new key of this ledger"
EVENTS = 50


@pytest.mark.parametrize("keys", [NEW, f"{NEW},{OLD}"], ids=["accepts-its-own", "accepts-both"])
def test_a_worker_with_another_key_takes_no_part_and_is_named(
    kafka: Broker, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setenv(KEY, OLD)
    here, other, port = f"small-{namespace}", f"other-{namespace}", free_port()
    for app in (here, other):
        make_topics(kafka, app)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            system.start_worker(here, {"SMALL_APP_ID": here, KEY: OLD}, module="tests.driver.small_app")
            wait_until(
                "the worker to join",
                lambda: any(view.inputs for view in observer.state.living()),
                timeout_s=60,
                system=system,
            )
            env = {
                "SMALL_APP_ID": other,
                "SMALL_APP_INSTALL": "early",
                "SMALL_APP_WEB_PORT": str(port),
                KEY: keys,
            }
            worker = system.start_worker(other, env, module="tests.driver.small_app", options=())
            wait_until(
                "the other one to be refused",
                lambda: len(observer.state.refusals.hellos) == 1,
                timeout_s=60,
                system=system,
            )
            ((process, hello),) = observer.state.refusals.hellos.items()
            assert hello.app == other
            epoch = take(observer, "s")
            found = observer.state.captured(epoch)
            assert [(it.process, it.app, it.refused) for it in found.outsiders] == [(process, other, True)]
            assert {cut.app for cut in found.processes} == {here}
            wait_until(
                "it to say so",
                lambda: "has a ledger key that the others do not share" in worker.log.read_text(),
                timeout_s=30,
                system=system,
            )
            assert worker.log.read_text().count("runs without snapshots") == 1, worker.last_lines(40)
            observer.call(produce(kafka.bootstrap, f"{other}-in", EVENTS))
            tps = [TopicPartition(f"{other}-out", partition) for partition in range(2)]
            wait_until(
                "all its events to pass",
                lambda: sum(observer.call(observer.admin.log_ends(tps)).values()) >= EVENTS,
                timeout_s=90,
                system=system,
            )
            page = f"http://127.0.0.1:{port}/snapkafka"
            wait_until("its web server", lambda: answers(page), timeout_s=60, system=system)
            assert "has a ledger key that the others do not share" in get(f"{page}/")["absent"]
            assert metric(page, "snapkafka_participating") == 0
            assert (metric(page, "snapkafka_ignored_total", "ledger-refused") > 0) == (keys == NEW)
            checkup = observer.call(ops.doctor(observer.connection, namespace))
            (advice,) = (it for it in checkup.found if it.code == "ledger-key")
            assert f"process {process} ({other} on" in advice.what
            assert not checkup.well
            system.check_alive()
    finally:
        system.stop()
