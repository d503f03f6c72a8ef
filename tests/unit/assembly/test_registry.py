"""The client of a schema registry: what it asks, whom it tells credentials, what it says."""

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
from snapkafka.assembly.values.registry import Registry
from snapkafka.errors import BadInputError, StorageError

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


def asked(port: Port, *numbers: int, rights: str = "") -> list[Schema | str]:
    asking = Registry(port.url(rights), {})
    return [asking.schema(number) for number in numbers]


def test_a_schema_is_asked_for_once(port: Port) -> None:
    """What is said of one, also of a number that bytes have by chance, is true of no other."""
    port.answers = {"/schemas/ids/7": [(200, {"schema": ORDER})], "/schemas/ids/9": [(403, {})]}
    rejected, unknown, *rest = asked(port, 9, 8, 7, 9, 8, 7)
    assert "403" in str(rejected) and "404" in str(unknown)
    assert rest == [Schema(ORDER), rejected, unknown, Schema(ORDER)]
    assert port.asked == ["/schemas/ids/9", "/schemas/ids/8", "/schemas/ids/7"]


@pytest.mark.parametrize("status", [401, 408, 429, 500, 503])
def test_a_registry_that_fails_fails_the_assembly(port: Port, status: int) -> None:
    port.answers["/schemas/ids/7"] = [(status, {}), (200, {"schema": ORDER, "schemaType": "json"})]
    asking = Registry(port.url("me:secret@"), {})
    with pytest.raises(StorageError, match=f"fails: status {status}") as raised:
        asking.schema(7)
    assert "secret" not in raised.value.message + raised.value.hint
    assert asking.schema(7) == Schema(ORDER, "JSON"), "asked again, it is there"


@pytest.mark.parametrize("listens", [False, True])
def test_one_that_is_gone_or_silent(listens: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(client, "ANSWER_S", 0.1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if listens:
            taken.listen()
        with pytest.raises(StorageError, match="does not answer"):
            Registry(f"http://127.0.0.1:{taken.getsockname()[1]}", {}).schema(0)


@pytest.mark.parametrize(
    "body", [b"<html>", b"[" * 9999, b'"\xff"', [], {}, {"schema": 7}, {"schema": ORDER, "references": [{}]}]
)
def test_an_answer_that_is_none_fails_the_assembly(port: Port, body: Any) -> None:
    port.answers["/schemas/ids/7"] = [(200, body)]
    with pytest.raises(StorageError):
        asked(port, 7)


def of(subject: str) -> dict[str, Any]:
    return {"name": subject, "subject": subject, "version": 1}


def test_what_a_schema_refers_to_comes_before_it_and_once(port: Port) -> None:
    port.answers = {
        "/schemas/ids/7": [(200, {"schema": "top", "references": [of("a/b"), of("c")]})],
        "/schemas/ids/8": [(200, {"schema": "top", "references": [of("a")]})],
        "/schemas/ids/9": [(200, {"schema": "top", "references": [of("gone")]})],
        "/subjects/a%2Fb/versions/1": [(200, {"schema": "ab", "references": [of("c")]})],
        "/subjects/a/versions/1": [(200, {"schema": "a", "references": [of("a")]})],
        "/subjects/c/versions/1": [(200, {"schema": "c"})],
    }
    found = asked(port, 7, 8, 9)
    assert found[:2] == [Schema("top", needs=("c", "ab")), Schema("top", needs=("a",))], "a circle ends"
    assert "404" in str(found[2])
    assert port.asked.count("/subjects/c/versions/1") == 1


def test_credentials_are_for_the_registry_alone(port: Port) -> None:
    """Those of the URL, else those of the environment; no redirect to another place passes them on."""
    elsewhere = port.url().replace("127.0.0.1", "localhost")
    port.answers = {
        "/schemas/ids/7": [(302, f"{elsewhere}/schemas/ids/8")],
        "/schemas/ids/8": [(200, {"schema": ORDER})],
    }
    prefix = "SNAPKAFKA_SCHEMA_REGISTRY_"
    environ = {f"{prefix}USERNAME": "them", f"{prefix}PASSWORD": "pä:ss"}
    for url, env in ((port.url(), environ), (port.url("me:a%40b@"), environ), (port.url(), {})):
        assert Registry(url, env).schema(7) == Schema(ORDER)
    them, me = (f"Basic {base64.b64encode(it.encode()).decode()}" for it in ("them:pä:ss", "me:a@b"))
    assert port.rights == [them, None, me, None, None, None]


@pytest.mark.parametrize(
    "url",
    ["host:8081", "ftp://me:secret@host", "http://", "http://me:secret@host:port", "http://h/?a=secret"],
)
def test_a_url_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(BadInputError) as raised:
        Registry(url, {})
    assert "secret" not in raised.value.message + raised.value.hint
