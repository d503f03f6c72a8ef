"""The functions of snapkafka that a record passes on its way through a real Faust worker, on a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from snapkafka.demo import System, wait_until
from snapkafka.testing import Broker, create_topics

#: From fetch to commit, of a record with a header of ours.
OF_AN_EVENT_MAX: Final = 13
#: Besides those of its event: from the write in the agent until it is acknowledged.
OF_A_TABLE_WRITE_MAX: Final = 16


@pytest.mark.timeout(150)
def test_an_event_and_a_table_write_pass_few_of_our_functions(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """Each function on the hot path costs every event of a service, and every reader of the code."""
    app, file = f"hops-{namespace}", tmp_path / "hops.json"
    create_topics(kafka.bootstrap, f"{app}-read", f"{app}-write", partitions=1)
    create_topics(
        kafka.bootstrap, f"{app}-counts-changelog", partitions=1, config={"cleanup.policy": "compact"}
    )
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    try:
        env = {"HOPS_APP": app, "HOPS_FILE": str(file)}
        system.start_worker(app, env, module="tests.driver.hops_app")
        wait_until("the worker to write what it traced", file.exists, timeout_s=100, system=system)
        system.check_alive()
    finally:
        system.stop()
    passed: dict[str, list[str]] = json.loads(file.read_text("utf-8"))
    event = passed["read"]
    write = [function for function in passed["write"] if function not in event]
    assert len(passed["write"]) == len(event) + len(write), "a write comes on top of an event"
    for functions, most in ((event, OF_AN_EVENT_MAX), (write, OF_A_TABLE_WRITE_MAX)):
        print(len(functions), *functions, sep="\n  ")
        assert len(functions) <= most, "\n".join(functions)
    assert any(function.endswith(" Work.event_started") for function in event), "else nothing was traced"
    assert any(function.endswith(" Work.send_acked") for function in write), "or not to its end"
