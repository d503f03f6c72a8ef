"""Errors: a line, a line of advice and an exit status of the command, and statuses over REST and gRPC."""

import asyncio
import json
from typing import Final
from unittest.mock import AsyncMock, Mock

import grpc
import pytest

from snapkafka import ops
from snapkafka.drivers import Bounds
from snapkafka.errors import InternalError, SnapkafkaError, all_errors
from snapkafka.service import Settings
from snapkafka.service.grpc_api import messages as pb
from snapkafka.service.grpc_server import serving
from snapkafka.service.problems import REFUSALS, RefusedError
from tests.golden.calls import call
from tests.worlds.fakes import FakeCluster
from tests.worlds.grpc_stub import Stub
from tests.worlds.service_world import served

ERRORS: Final = [cls("there it lies", hint="do this") for cls in all_errors()]


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("error", [*ERRORS, OSError("oops")])
def test_an_error_is_a_line_an_advice_and_a_status(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """As JSON it is data, too; a bug of ours is none of the statuses that mean something."""
    monkeypatch.setattr(ops, "list_snapshots", AsyncMock(side_effect=error))
    printed = call(["list", "--json"])
    found = error if isinstance(error, SnapkafkaError) else InternalError("a bug in snapkafka: OSError: oops")
    details = {"code": found.code, "message": found.message, "hint": found.hint}
    assert json.loads(printed.stdout)["error"] == details | {"exit_status": found.exit_status}
    assert printed.status == found.exit_status not in (0, 1)
    *trace, line, advice = printed.stderr.splitlines()
    assert (line, advice.strip()) == (f"error: {found.message}", found.hint)
    assert bool(trace) is (found is not error)


def test_errors_have_a_status_over_rest_and_grpc_each() -> None:
    assert {cls.code for cls in all_errors()} & REFUSALS.keys() == {"bad-input"}
    unforeseen = {"internal", "install", "output", "restore-failed", "fork-failed", "fork-isolation"}
    assert {cls.code for cls in all_errors() if cls.http == 500} == unforeseen
    errors = [*ERRORS, *(RefusedError(code, "there it lies", "do this") for code in REFUSALS)]
    with served(FakeCluster(), list_forks=AsyncMock(side_effect=errors)) as client:
        for error in errors:
            answer = client.get("/v1/forks")
            assert (answer.status_code, answer.json()["code"]) == (error.http, error.code)
            assert (answer.json()["detail"], answer.json()["hint"]) == ("there it lies", "do this")
            assert ("retry-after" in answer.headers) == (error.http == 503)

    async def over_grpc() -> None:
        async with (
            serving(Mock(side_effect=errors), Settings(grpc_port=0), Bounds()) as address,
            grpc.aio.insecure_channel(address) as channel,
        ):
            for error in errors:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await Stub(channel).Join(pb.JoinRequest(node_id="till")).read()
                metadata = dict(refused.value.trailing_metadata() or ())
                assert (refused.value.code().name, metadata["snapkafka-code"]) == (error.grpc, error.code)

    asyncio.run(over_grpc())
