"""What the service refuses: who may reach it, who may do what, and how much of it one client may take."""

import asyncio
import contextlib
import hmac
import logging
import resource
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from snapkafka.assembly import JobSpec
from snapkafka.errors import BadInputError, StorageError
from snapkafka.protocol import Verdict
from snapkafka.service import Settings, Tokens
from snapkafka.service.access import Role, foreign, within
from snapkafka.service.app import SECURITY_HEADERS
from snapkafka.service.server import BoundedProtocol
from snapkafka.store import open_store
from snapkafka.until import Tries
from tests.worlds.fakes import FakeCluster
from tests.worlds.service_world import STORAGE, asked, assembled, listening, served, until

READ, TRIGGER, ADMIN = "read-0123456789abcdef", "trigger-0123456789abcdef", "admin-0123456789abcdef"
TOKENS = Tokens.parse(f"# three roles\nread:{READ}\n\ntrigger:{TRIGGER}\nadmin:{ADMIN}\n", "tokens.txt")


# -- who may reach it ----------------------------------------------------------------------------------------


def test_beyond_this_machine_it_needs_tls_tokens_and_a_root(tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as raised:
        Settings(host="0.0.0.0").validate()
    for option in ("--tls-certificate", "--tokens", "--storage-root"):
        assert option in raised.value.message
    pem = tmp_path / "x.pem"
    pem.touch()
    Settings(host="0.0.0.0", certificate=str(pem), key=str(pem), tokens=TOKENS, roots=("s3://b/",)).validate()
    Settings().validate()  # on this machine, nothing is needed
    with pytest.raises(BadInputError, match="go together"):
        Settings(certificate=str(pem)).validate()
    with pytest.raises(BadInputError, match="is not a file"):
        Settings(certificate=str(pem), key=str(tmp_path / "none")).validate()


# -- who may do what -----------------------------------------------------------------------------------------


def test_each_role_may_do_what_is_its_own(cluster: FakeCluster) -> None:
    requests: list[tuple[str, str, str]] = [
        ("GET", "/v1/snapshots", "read"),
        ("GET", "/metrics", "read"),
        ("GET", "/v1/access", "read"),
        ("POST", "/v1/snapshots/trigger", "trigger"),
        ("POST", "/v1/snapshots/latest/assemble", "trigger"),
        ("POST", "/v1/snapshots/latest/verify", "trigger"),
        ("POST", "/v1/snapshots/latest/abort", "admin"),
    ]
    ranks = {READ: 1, TRIGGER: 2, ADMIN: 3}
    with served(cluster, tokens=TOKENS) as client:
        for method, path, role in requests:
            for token in (None, "wrong-0123456789abcdef", *ranks):
                headers = {"authorization": f"Bearer {token}"} if token else {}
                body = asked() if path.endswith("trigger") else {}
                answer = client.request(method, path, json=body, headers=headers)
                if token not in ranks:
                    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
                elif ranks[token] < Role[role.upper()]:
                    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (path, token)
                else:
                    assert answer.status_code not in (401, 403), (path, token)
        for token, rank in ranks.items():
            found = client.get("/v1/access", headers={"authorization": f"Bearer {token}"}).json()
            roots = [STORAGE] if rank > 1 else []
            assert found == {"namespace": "ns", "role": Role(rank).name.lower(), "storage_roots": roots}
        for path in ("/healthz", "/readyz", "/openapi.json", "/"):
            assert client.get(path).status_code == 200, path  # no data in them


@pytest.mark.parametrize(
    "text", ["", "# none", "read", "read:short", "boss:0123456789abcdefgh", "read:a b" * 9]
)
def test_tokens_that_make_no_sense_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(BadInputError) as raised:
        Tokens.parse(text, "tokens.txt")
    assert "0123456789abcdefgh" not in raised.value.message
    assert "tokens.txt" in raised.value.message


def test_no_token_is_in_an_answer_or_a_log(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with served(cluster, tokens=TOKENS) as client:
        bearer = {"authorization": f"Bearer {ADMIN}"}
        answers = [client.get(path, headers=bearer) for path in ("/metrics", "/v1/forks", "/v1/snapshots/x")]
    assert not any(ADMIN in answer.text for answer in answers)
    assert ADMIN not in caplog.text
    assert ADMIN not in repr(Settings(tokens=TOKENS))


# -- where tables may lie ------------------------------------------------------------------------------------


ROOTS = ("s3://bucket/prefix/", "/data/snapshots")
BELOW = (
    *("s3://bucket/prefix", "s3a://bucket/prefix/", "s3a://bucket/prefix/deeper/x.json"),
    *("/data/snapshots", "file:///data/snapshots/x"),
)
BESIDE = (
    *("s3://bucket/prefix-of-others", "s3://bucket/prefix/../others", "s3://bucket", "s3://other/prefix"),
    *(
        "s3://me:secret@bucket/prefix",
        "gs://bucket/prefix",
        "/data/snapshots/../../etc",
        "/etc",
        "",
        "snapshots",
    ),
    *("file:///data/snapshots/%2e%2e/%2e%2e/etc", "/data/snapshots2"),
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

    monkeypatch.chdir(tmp_path)
    with served(cluster, (str(root),), assemble=works, verify=works) as client:
        for name in (str(link / "x"), "in/y/../x", f"file://{tmp_path}/in/%78", str(root / "x")):
            triggered = client.post("/v1/snapshots/trigger", json=asked(target_storage_uri=name))
            found = client.get(triggered.headers["location"]).json()
            assert found["target_storage_uri"] == str(root / "x")
        body = {"target_storage_uri": str(link / "x")}
        assert client.post("/v1/snapshots/latest/assemble", json=body).status_code == 202
        until(lambda: used == [str(root / "x")], "the assembly to begin")
        cluster.the_ledger.put(
            Verdict(n=9, epoch=found["epoch"], verdict="VERIFIED", manifest=str(link / "s.json"))
        )
        until(lambda: client.get("/v1/snapshots/latest").json()["verdict"] == "VERIFIED", "the verdict")
        assert client.post("/v1/snapshots/latest/verify", json={}).status_code == 202
        until(lambda: used[1:] == [(str(root / "s.json"),)], "the verification to begin")
        epoch = client.post("/v1/snapshots/trigger", json=asked(target_storage_uri=str(root))).json()["epoch"]
        cluster.the_ledger.put(
            Verdict(n=10, epoch=epoch, verdict="VERIFIED", manifest=str(tmp_path / "s.json"))
        )
        until(lambda: client.get("/v1/snapshots/latest").json()["verdict"] == "VERIFIED", "the verdict")
        for path, body in (("query", {"sql": "SELECT 1"}), ("verify", {})):
            answer = client.post(f"/v1/snapshots/latest/{path}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), path


@pytest.mark.parametrize(
    "path", ["/", "/v1/snapshots", "/v1/nothing", "/healthz", "/metrics", "/openapi.json"]
)
def test_every_answer_has_the_headers_that_guard_a_page(client: TestClient, path: str) -> None:
    answer = client.get(path)
    for name in SECURITY_HEADERS:
        assert name in answer.headers, name
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


# -- SQL -----------------------------------------------------------------------------------------------------


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


# -- the socket ----------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def at_port(**settings: Any) -> AsyncIterator[int]:
    """The service on a real socket; its port."""
    async with listening(FakeCluster(), roots=(STORAGE,), **settings) as url:
        yield int(url.rstrip("/").rpartition(":")[2])


HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
BODY = b"Content-Type: application/json\r\nContent-Length: 6000\r\n\r\n{"


@pytest.mark.parametrize(
    "begins",
    [HEAD, b"POST /v1/snapshots/trigger HTTP/1.1\r\nHost: localhost\r\n" + BODY],
    ids=["head", "body"],
)
async def test_a_request_that_comes_slowly_is_cut_off_and_others_are_served(begins: bytes) -> None:
    async with at_port(header_s=0.3) as port, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        ended = asyncio.ensure_future(end_of(reader))
        writer.write(begins)
        while not ended.done():  # a byte now and then, and never the last
            with contextlib.suppress(OSError):
                writer.write(b"X")
            await asyncio.wait([ended], timeout=0.05)
        assert ended.result() == b""
        writer.close()
        assert b" 200 " in await get(port, "/healthz")


async def end_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the end; a reset is one, too, and takes nothing back."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := await reader.read(4_096):
            found += piece
    return found


async def test_no_part_of_an_answer_waits_for_the_client_to_acknowledge_another() -> None:
    """Nagle's algorithm and delayed acknowledgements cost 40 ms an answer, on a connection that is kept open."""
    made: list[int] = []
    accepted = BoundedProtocol.connection_made

    def seen(self: BoundedProtocol, transport: Any) -> None:
        made.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        accepted(self, transport)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BoundedProtocol, "connection_made", seen)
        async with at_port() as port, asyncio.timeout(30):
            assert b" 200 " in await get(port, "/healthz")
    assert made and all(made)


async def test_what_is_not_http_and_a_head_that_is_too_large_are_refused() -> None:
    async with at_port() as port, asyncio.timeout(30):
        assert (await whole(port, b"\x16\x03\x01 hello\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        for size, status in ((15_000, 200), (200_000, 400)):
            head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Large: "
            answer = await whole(port, head + b"x" * size + b"\r\n\r\n")
            assert answer.startswith(f"HTTP/1.1 {status} ".encode()), (size, answer[:80])


async def whole(port: int, request: bytes) -> bytes:
    """All that comes for a request, until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await end_of(reader)
    writer.close()
    return answer


async def get(port: int, path: str, headers: str = "") -> bytes:
    """The first line of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return line


async def served_at(port: int, path: str) -> None:
    """Ask until the answer is 200; the caller has a deadline."""
    async for _ in Tries(30):
        if b" 200 " in await get(port, path):
            return


async def test_live_streams_are_bounded_and_end_with_their_clients() -> None:
    async with at_port(streams_max=1) as port, asyncio.timeout(30):
        await served_at(port, "/readyz")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in await reader.readline()
        await reader.readuntil(b"event: changed")
        assert b" 503 " in await get(port, "/v1/events")
        writer.close()
        await served_at(port, "/v1/events")


def test_every_token_is_compared_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, compare = [], hmac.compare_digest

    def counting(one: bytes, two: bytes) -> bool:
        compared.append(one)
        return compare(one, two)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    for token, role in ((READ, Role.READ), (ADMIN, Role.ADMIN), ("wrong", None), ("\udcff", None)):
        compared.clear()
        assert TOKENS.role(token) is role
        assert len(compared) == 3


def test_names_of_this_server_are_not_foreign(cluster: FakeCluster) -> None:
    for host in ("[::1]:80", "127.9.9.9", "LOCALHOST", "Shop.Internal:80"):
        assert foreign(host, "", names={"shop.internal"}) == ""
        assert foreign(host, f"https://{host}", names={"shop.internal"}) == ""
    with served(cluster, host_names=("snapshots.example.com",)) as client:
        assert client.get("/v1/snapshots", headers={"host": "Snapshots.example.com:443"}).status_code == 200
