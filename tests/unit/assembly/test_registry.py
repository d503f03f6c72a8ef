"""The client of a schema registry: what it asks again and what not, whom it tells credentials, what it says."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from snapkafka.assembly.values import registry as client
from snapkafka.assembly.values.avro import Schema
from snapkafka.assembly.values.registry import AWAY, FAILS, GARBAGE, REFUSES, UNKNOWN, Registry
from snapkafka.errors import BadInputError

ORDER = '{"type":"record","name":"Order","fields":[]}'


@dataclass
class Port:
    """Answers (status, body) by path: one after the other, the last one for good. What was asked, with what right."""

    answers: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    rights: list[str | None] = field(default_factory=list)
    port: int = 0

    def url(self, rights: str = "") -> str:
        return f"http://{rights}127.0.0.1:{self.port}/api"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[Port]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Port()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path.removeprefix("/api"))
            made.rights.append(self.headers["Authorization"])
            left = made.answers.get(made.asked[-1], [(404, {"error_code": 40403})])
            status, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", body)
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        made.port = server.server_port
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        server.shutdown()


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses, of no time."""
    found = list[float]()
    monkeypatch.setattr(client, "sleep", found.append)
    return found


def test_a_schema_is_asked_for_once(port: Port) -> None:
    port.answers["/schemas/ids/7"] = [(200, {"schema": ORDER})]
    asking = Registry(port.url())
    assert [asking.schema(7) for _ in range(3)] == [Schema(ORDER)] * 3
    assert [asking.schema(8) for _ in range(2)] == [UNKNOWN] * 2
    assert port.asked == ["/schemas/ids/7", "/schemas/ids/8"]


def test_what_may_pass_is_asked_again(port: Port, slept: list[float]) -> None:
    port.answers["/schemas/ids/7"] = [(503, ""), (429, ""), (200, {"schema": ORDER, "schemaType": "json"})]
    asking = Registry(port.url())
    assert asking.schema(7) == Schema(ORDER, "JSON")
    assert slept == [0.2, 0.4]


def test_one_schema_at_which_it_fails_says_nothing_of_others(port: Port, slept: list[float]) -> None:
    port.answers = {"/schemas/ids/7": [(500, {})], "/schemas/ids/8": [(200, {"schema": ORDER})]}
    asking = Registry(port.url())
    assert (asking.schema(7), asking.schema(8)) == (FAILS, Schema(ORDER))
    assert len(slept) == len(client.PAUSES_S)


def test_a_registry_that_fails_is_given_up_in_time(port: Port, slept: list[float]) -> None:
    """However many schemas are asked for: 30 s in all, and then no more questions."""
    port.answers = {f"/schemas/ids/{n}": [(500, {})] for n in range(100)}
    asking = Registry(port.url())
    assert [asking.schema(n) for n in range(100)] == [FAILS] * 100
    assert sum(slept) <= client.LOST_MAX_S
    assert len(port.asked) < 100


def test_no_connection_is_enough_to_give_up(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        asking = Registry(f"http://127.0.0.1:{taken.getsockname()[1]}")
        assert [asking.schema(n) for n in range(5)] == [AWAY] * 5
    assert len(slept) == len(client.PAUSES_S)


def test_one_that_takes_a_connection_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(client, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asking = Registry(f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert asking.schema(1) == AWAY


@pytest.mark.parametrize("body", [b"<html>", [], {}, {"schema": 7}, {"schema": ORDER, "references": [{}]}])
def test_an_answer_that_is_none(port: Port, body: Any) -> None:
    port.answers["/schemas/ids/7"] = [(200, body)]
    assert Registry(port.url()).schema(7) == GARBAGE


# -- references ----------------------------------------------------------------------------------------------


def of(subject: str) -> dict[str, Any]:
    return {"name": subject, "subject": subject, "version": 1}


def test_what_a_schema_refers_to_comes_before_it_and_once(port: Port) -> None:
    port.answers = {
        "/schemas/ids/7": [(200, {"schema": "top", "references": [of("a/b"), of("c")]})],
        "/subjects/a%2Fb/versions/1": [(200, {"schema": "ab", "references": [of("c")]})],
        "/subjects/c/versions/1": [(200, {"schema": "c"})],
    }
    assert Registry(port.url()).schema(7) == Schema("top", needs=("c", "ab"))
    assert port.asked.count("/subjects/c/versions/1") == 1


def test_references_in_a_circle_and_into_nothing(port: Port) -> None:
    port.answers = {
        "/schemas/ids/7": [(200, {"schema": "top", "references": [of("a")]})],
        "/subjects/a/versions/1": [(200, {"schema": "a", "references": [of("a")]})],
        "/schemas/ids/8": [(200, {"schema": "top", "references": [of("gone")]})],
    }
    asking = Registry(port.url())
    assert asking.schema(7) == "its references form a circle"
    assert asking.schema(8) == f"of what it refers to (subject gone, version 1): {UNKNOWN}"


# -- credentials ---------------------------------------------------------------------------------------------


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def test_credentials_of_the_url_and_of_the_environment(port: Port) -> None:
    port.answers["/schemas/ids/7"] = [(200, {"schema": ORDER})]
    environ = {
        "SNAPKAFKA_SCHEMA_REGISTRY_USERNAME": "them",
        "SNAPKAFKA_SCHEMA_REGISTRY_PASSWORD": "pä:ss",
    }
    Registry.from_environment(port.url(), environ).schema(7)
    Registry.from_environment(port.url("me:a%40b@"), environ).schema(7)
    Registry.from_environment(port.url(), {}).schema(7)
    assert port.rights == [basic("them:pä:ss"), basic("me:a@b"), None]


def test_who_is_refused_does_not_ask_again(port: Port) -> None:
    port.answers = {"/schemas/ids/7": [(401, {})], "/schemas/ids/8": [(401, {})]}
    asking = Registry(port.url("me:secret@"))
    assert [asking.schema(7), asking.schema(8)] == [REFUSES] * 2
    assert port.asked == ["/schemas/ids/7"]
    assert "secret" not in repr(asking)


def test_credentials_do_not_follow_a_redirect_to_another_place(port: Port) -> None:
    elsewhere = port.url().replace("127.0.0.1", "localhost")
    port.answers = {
        "/schemas/ids/7": [(302, f"{elsewhere}/schemas/ids/8")],
        "/schemas/ids/8": [(200, {"schema": ORDER})],
        "/schemas/ids/9": [(302, "/api/schemas/ids/8")],
    }
    assert Registry(port.url("me:secret@")).schema(9) == Schema(ORDER)
    assert Registry(port.url("me:secret@")).schema(7) == Schema(ORDER)
    assert port.rights == [basic("me:secret"), None] * 2


@pytest.mark.parametrize(
    "url",
    ["host:8081", "ftp://me:secret@host", "http://", "http://me:secret@host:port", "http://h/?a=secret"],
)
def test_a_url_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(BadInputError) as raised:
        Registry(url)
    assert "secret" not in raised.value.message + raised.value.hint
