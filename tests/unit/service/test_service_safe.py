"""What the service refuses: who may reach it, who may do what, and how much of it one client may take."""

import asyncio
import contextlib
import hmac
import itertools
import logging
import resource
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from snapkafka.assembly import JobSpec
from snapkafka.errors import BadInputError, StorageError
from snapkafka.protocol import Verdict
from snapkafka.service import Settings, Tokens
from snapkafka.service.access import Role, foreign, within
from snapkafka.service.app import SECURITY_HEADERS
from snapkafka.service.server import BoundedProtocol
from snapkafka.store import open_store
from snapkafka.until import until as until_holds
from tests.worlds.fakes import FakeCluster
from tests.worlds.service_world import HEAD, STORAGE, asked, assembled, first_line, listening, served, until

READ, TRIGGER, ADMIN = "read-0123456789abcdef", "trigger-0123456789abcdef", "admin-0123456789abcdef"
TOKENS = Tokens.parse(f"# three roles\nread:{READ}\n\ntrigger:{TRIGGER}\nadmin:{ADMIN}\n", "tokens.txt")


def test_beyond_this_machine_it_needs_tls_tokens_and_a_root(tmp_path: Path) -> None:
    pem = str(tmp_path / "x.pem")
    Path(pem).touch()
    Settings().validate()  # on this machine, nothing is needed
    Settings(host="0.0.0.0", certificate=pem, key=pem, tokens=TOKENS, roots=("s3://b/",)).validate()
    for settings, *named in (
        (Settings(host="0.0.0.0"), "--tls-certificate", "--tokens", "--storage-root"),
        (Settings(certificate=pem), "go together"),
        (Settings(certificate=pem, key=str(tmp_path / "none")), "is not a file"),
    ):
        with pytest.raises(BadInputError) as raised:
            settings.validate()
        assert [it for it in named if it not in raised.value.message] == []


def test_each_role_may_do_what_is_its_own(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    """No token is in an answer or a log, and every answer has the headers that guard a page."""
    caplog.set_level(logging.DEBUG)
    requests = {("POST", f"/v1/snapshots/latest/{verb}"): 2 for verb in ("assemble", "verify")}
    requests |= {("POST", "/v1/snapshots/trigger"): 2, ("POST", "/v1/snapshots/latest/abort"): 3}
    read = "/v1/snapshots", "/metrics", "/v1/access", "/v1/forks", "/none"
    requests |= {("GET", path): 1 for path in read}
    requests |= {("GET", path): 0 for path in ("/healthz", "/readyz", "/openapi.json", "/")}
    ranks = {"": 0, "wrong-0123456789abcdef": 0, READ: 1, TRIGGER: 2, ADMIN: 3}
    with served(cluster, tokens=TOKENS) as client:
        for ((method, path), needed), (token, rank) in itertools.product(requests.items(), ranks.items()):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            body = asked() if path.endswith("trigger") else {}
            answer = client.request(method, path, json=body, headers=headers)
            refused = 0 if rank >= needed else 401 if rank == 0 else 403
            assert (answer.status_code in (401, 403) and answer.status_code) == refused, (path, token)
            assert answer.headers.get("www-authenticate") == ("Bearer" if refused == 401 else None)
            assert SECURITY_HEADERS.keys() <= answer.headers.keys()
            assert not any(it in answer.text for it in (READ, TRIGGER, ADMIN))
            if path == "/v1/access" and rank:
                roots = [STORAGE] if rank > 1 else []
                fields = {"namespace": "ns", "role": Role(rank).name.lower(), "storage_roots": roots}
                assert answer.json() == fields
    assert not any(it in caplog.text + repr(Settings(tokens=TOKENS)) for it in (READ, TRIGGER, ADMIN))
    policy = SECURITY_HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def test_tokens_without_sense_are_refused_and_all_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", "# none", "read", "read:short", "boss:0123456789abcdefgh", "read:a b" * 9):
        with pytest.raises(BadInputError) as raised:
            Tokens.parse(text, "tokens.txt")
        assert "0123456789abcdefgh" not in raised.value.message
        assert "tokens.txt" in raised.value.message
    monkeypatch.setattr(hmac, "compare_digest", compared := Mock(wraps=hmac.compare_digest))
    for token, role in ((READ, Role.READ), (ADMIN, Role.ADMIN), ("wrong", None), ("\udcff", None)):
        assert TOKENS.role(token) is role
        assert compared.call_count % 3 == 0 < compared.call_count


ROOTS = ("s3://bucket/prefix/", "/data/snapshots")
BELOW = (
    *("s3://bucket/prefix", "s3a://bucket/prefix/", "s3a://bucket/prefix/deeper/x.json"),
    *("/data/snapshots", "file:///data/snapshots/x"),
)
BESIDE = (
    *("s3://bucket/prefix-of-others", "s3://bucket/prefix/../others", "s3://bucket", "s3://other/prefix"),
    *("s3://me:secret@bucket/prefix", "gs://bucket/prefix", "/data/snapshots/../../etc", "/etc", ""),
    *("snapshots", "file:///data/snapshots/%2e%2e/%2e%2e/etc", "/data/snapshots2"),
)


@pytest.mark.parametrize("uri", [*BELOW, *BESIDE])
def test_storage_lies_below_a_root(uri: str) -> None:
    assert (within(uri, ROOTS) is not None) is (uri in BELOW)
    assert within(uri, ()) is None


@pytest.mark.parametrize(
    "path", ["#/../team-b", "?/../team-b", "/../team-b", "/./x", "//team-b", "/%2e%2e/team-b", "/a%2fb", "\\..\\team-b",
             "/..", "/.", " x", "/a\tb", "/a\x00b"]
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "abfs", "abfss"])
def test_a_uri_with_two_meanings_is_below_no_root_and_is_no_storage(scheme: str, path: str) -> None:
    """A library and a server each read such a URI in their own way: the check must not have a third."""
    uri = f"{scheme}://bucket/team-a{path}"
    assert within(uri, [f"{scheme}://bucket/team-a"]) is None
    with pytest.raises(StorageError, match="is ambiguous there"):
        open_store(uri)
    with pytest.raises(BadInputError, match="--storage-root: the URI of the storage has"):
        Settings(roots=(uri,)).validate()


def test_the_place_that_is_checked_is_the_one_that_is_used(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link may be led elsewhere after the check: that of a client, or of whoever can write to the ledger."""
    root, link = tmp_path / "in", tmp_path / "link"
    root.mkdir()
    link.symlink_to(root)
    (root / "out").symlink_to(tmp_path)
    assert within(str(root / "x"), [str(root)]) and not within(str(root / "out" / "else"), [str(root)])
    used: list[object] = []

    async def works(where: object, spec: JobSpec, notify: object) -> Any:
        used.append(spec.manifests or spec.storage)
        raise StorageError("no")

    def judged(epoch: int, place: Path) -> None:
        manifest = str(place / "s.json")
        cluster.the_ledger.put(Verdict(n=epoch, epoch=epoch, verdict="VERIFIED", manifest=manifest))
        until(lambda: client.get("/v1/snapshots/latest").json()["verdict"] == "VERIFIED", "the verdict")

    monkeypatch.chdir(tmp_path)
    with served(cluster, (str(root),), assemble=works, verify=works) as client:
        for name in (str(link / "x"), "in/y/../x", f"file://{tmp_path}/in/%78", str(root / "x")):
            triggered = client.post("/v1/snapshots/trigger", json=asked(target_storage_uri=name))
            found = client.get(triggered.headers["location"]).json()
            assert found["target_storage_uri"] == str(root / "x")
        body = {"target_storage_uri": str(link / "x")}
        assert client.post("/v1/snapshots/latest/assemble", json=body).status_code == 202
        until(lambda: used == [str(root / "x")], "the assembly to begin")
        judged(found["epoch"], link)
        assert client.post("/v1/snapshots/latest/verify", json={}).status_code == 202
        until(lambda: used[1:] == [(str(root / "s.json"),)], "the verification to begin")
        triggered = client.post("/v1/snapshots/trigger", json=asked(target_storage_uri=str(root)))
        judged(triggered.json()["epoch"], tmp_path)
        for path, body in (("query", {"sql": "SELECT 1"}), ("verify", {})):
            answer = client.post(f"/v1/snapshots/latest/{path}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), path


def test_a_query_has_its_time_and_its_memory(cluster: FakeCluster, tmp_path: Path) -> None:
    """Values that the engine does not count are bounded, too: one of two gigabytes would end the service."""
    bounds: dict[str, Any] = {"query_s": 1.0, "query_memory_mb": 64}
    with served(cluster, (str(tmp_path),), **bounds) as client:
        assembled(cluster, client, tmp_path, "s")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for sql, code in (
            ("SELECT count(*) FROM range(100000000000) a", "timed-out"),
            ("SELECT repeat('x', 9000000)", "bad-input"),
            ("SELECT repeat('x', 2000000000)", "bad-input"),
        ):
            answer = client.post("/v1/snapshots/s/query", json={"sql": sql})
            assert answer.json()["code"] == code
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes


@contextlib.asynccontextmanager
async def at_port(**settings: Any) -> AsyncIterator[int]:
    """The service on a real socket; its port."""
    async with listening(FakeCluster(), roots=(STORAGE,), **settings) as url, asyncio.timeout(30):
        yield int(url.rstrip("/").rpartition(":")[2])


BODY = HEAD % b"POST /v1/snapshots/trigger" + b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
SECOND = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + HEAD % b"GET /healthz"
OK = b'{"status":"ok"}'


async def is_served(port: int, path: bytes = b"/healthz") -> bool:
    return b" 200 " in await first_line(port, HEAD % (b"GET " + path) + b"\r\n")


@pytest.mark.parametrize("begins", [HEAD % b"GET /healthz", BODY, SECOND], ids=["head", "body", "second"])
async def test_a_request_that_comes_slowly_is_cut_off_and_others_are_served(begins: bytes) -> None:
    async with at_port(header_s=0.3) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begins)
        ended = asyncio.ensure_future(reader.read())
        while not (await asyncio.wait([ended], timeout=0.05))[0]:  # a byte now and then, and never the last
            with contextlib.suppress(OSError):
                writer.write(b"X")
        assert isinstance(ended.exception(), ConnectionResetError) or ended.result().partition(OK)[2] == b""
        writer.close()
        assert await is_served(port)


async def test_what_is_not_http_and_too_large_a_head_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No part of an answer waits for the client to acknowledge another: Nagle's algorithm and delayed acknowledgements
    cost 40 ms an answer, on a connection that is kept open."""
    delays: list[int] = []
    accepted = BoundedProtocol.connection_made

    def seen(self: BoundedProtocol, transport: Any) -> None:
        opened = transport.get_extra_info("socket")
        delays.append(not opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        accepted(self, transport)

    monkeypatch.setattr(BoundedProtocol, "connection_made", seen)
    async with at_port() as port:
        assert b" 400 " in await first_line(port, b"\x16\x03\x01 hello\r\n\r\n")
        for size, status in ((15_000, b" 200 "), (200_000, b" 400 ")):
            large = HEAD % b"GET /healthz" + b"X-Large: " + b"x" * size + b"\r\n\r\n"
            assert status in await first_line(port, large)
        body = b"Content-Length: 60000\r\n\r\n" + b"x" * 59_999
        assert b" 200 " in await first_line(port, HEAD % b"GET /healthz" + body)
    assert delays == [False] * 4


async def test_live_streams_are_bounded_and_end_with_their_clients() -> None:
    async with at_port(streams_max=1, header_s=0.3) as port:
        await until_holds(lambda: is_served(port, b"/readyz"), 30, "the ledger to be read")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD % b"GET /v1/events" + b"\r\n")
        assert b" 200 " in await reader.readline()
        await reader.readuntil(b"event: changed")
        await asyncio.sleep(0.5)  # no time runs while it is answered
        assert b" 503 " in await first_line(port, HEAD % b"GET /v1/events" + b"\r\n")
        writer.close()
        await until_holds(lambda: is_served(port, b"/v1/events"), 30, "its place")


def test_names_of_this_server_are_not_foreign(cluster: FakeCluster) -> None:
    for host in ("[::1]:80", "127.9.9.9", "LOCALHOST", "Shop.Internal:80"):
        assert foreign(host, "", names={"shop.internal"}) == ""
        assert foreign(host, f"https://{host}", names={"shop.internal"}) == ""
    with served(cluster, host_names=("snapshots.example.com",)) as client:
        assert client.get("/v1/snapshots", headers={"host": "Snapshots.example.com:443"}).status_code == 200
