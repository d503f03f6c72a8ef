"""The demo, without Kafka: what it takes, where it prints, and how its accounts are opened."""

import asyncio
import importlib
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from snapkafka.demo import PARTITIONS, open_accounts
from snapkafka.demo import system as opening
from snapkafka.demo.practice import invite
from snapkafka.demo.settings import ACCOUNTS, forget_other_systems, new_app
from snapkafka.errors import TimedOutError
from snapkafka.protocol import TopicPartition
from snapkafka.testing import RunningSystem


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPKAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("SNAPKAFKA_NAMESPACE", "demo")


def test_standard_output_is_the_result_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--keep --json` invites first, and prints the JSON when it ends."""
    system = RunningSystem(bootstrap="localhost:1", namespace="demo", folder=tmp_path)
    invite(system, tmp_path, "Page: none")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err


def test_the_demo_leaves_other_systems_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faust takes BROKER_URL and the like from the environment before it looks at the app."""
    monkeypatch.setenv("BROKER_URL", "kafka://production:9092")
    monkeypatch.setenv("PROCESSING_GUARANTEE", "exactly_once")
    conf = new_app("accounts").conf
    assert [str(url) for url in conf.broker] == ["kafka://127.0.0.1:1"]
    assert conf.processing_guarantee.value == "at_least_once"
    kept = {"PATH": "/bin", "SNAPKAFKA_CACHE": "/c", "SNAPKAFKA_DEMO_SESSION_S": "9"}
    other = {"SNAPKAFKA": "off", "SNAPKAFKA_NAMESPACE": "shop", "F_DATADIR": "/var/faust"}
    environ = {**kept, **other}
    forget_other_systems(environ)
    assert environ == kept


def test_an_account_is_opened_once_however_often_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for until it is there, and what came late must not put back what was spent meanwhile."""
    accounts = importlib.import_module("snapkafka.demo.accounts")
    monkeypatch.setattr(accounts, "balances", {})

    async def items() -> AsyncIterator[tuple[str, dict[str, int]]]:
        yield "acct-0000", {"open": 100}

    for balance in (100, 70):
        asyncio.run(accounts.take_requests.fun(SimpleNamespace(items=items)))
        assert accounts.balances == {"acct-0000": balance}
        accounts.balances["acct-0000"] = 70


@pytest.mark.parametrize("passed_over", [1, 99])
async def test_what_was_passed_over_is_asked_again(passed_over: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "START_TIMEOUT_S", 0.2)
    monkeypatch.setattr(opening, "ASK_AGAIN_S", 0.1)
    asks = AsyncMock()

    async def log_ends(tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        opened = ACCOUNTS if asks.await_count > passed_over else 0
        return dict.fromkeys(tps, -(-opened // PARTITIONS))

    #: Stands for the workers, their changelog and the load.
    service: Any = SimpleNamespace(open_accounts=asks, log_ends=log_ends, check_alive=lambda: None)
    with pytest.raises(TimedOutError, match="accounts") if passed_over > 1 else nullcontext():
        await open_accounts(service, service, service)
    assert passed_over > 1 or asks.await_count == 2
