"""Files in object storage: S3 and compatible servers, Google's and Azure's, by obstore.

Endpoint and credentials come from the environment, as for the libraries of each cloud, or from the role of the machine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar, Final

from snapkafka.runtime.extras import extra_missing

from .local_files import Info

#: The schemes of URIs. Amazon's S3 and S3Proxy were tried, the others were not.
SCHEMES: Final = ("s3", "s3a", "gs", "abfs", "abfss")
#: What has not answered by then is not there, or not for us.
CONNECT_TIMEOUT: Final = timedelta(seconds=5)
READ_TIMEOUT: Final = timedelta(seconds=60)
#: A server that fails, or that throttles its clients (503), is asked again so often, and for so long, after random
#: times of which each may be three times as long as the one before.
RETRIES_MAX: Final = 20
RETRY_FOR: Final = timedelta(seconds=30)
BACKOFF: Final = {"init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=5), "base": 3}
#: Is read ahead of who reads a file.
PIECE_BYTES: Final = 8 << 20

_RIGHTS: Final = "check the credentials (AWS_ACCESS_KEY_ID and so on) and their rights on the bucket"
_KEYS: Final = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; profiles are not read"
_LATER: Final = "try again when its load is lower"
_SERVER: Final = "check AWS_ENDPOINT_URL (is it http or https?) and that it runs"
#: A part of an error's message -> its meaning, and what to do. The first that fits counts.
_SIGNS: Final[tuple[tuple[str, str, str], ...]] = (
    ("NoSuchBucket", "there is no such bucket", "create it, or check --storage"),
    ("instance metadata", "there are no credentials", _KEYS),
    ("169.254.", "there are no credentials", _KEYS),
    ("403 Forbidden", "access is denied", _RIGHTS),
    ("401 Unauthorized", "access is denied", _RIGHTS),
    ("503 Service Unavailable", "the server throttles requests (503), for too long", _LATER),
    ("SlowDown", "the server throttles requests (503), for too long", _LATER),
    ("timed out", "no server answers in time", _SERVER),
    ("error sending request", "no server answers", _SERVER),
)


def meaning_of(error: BaseException) -> tuple[str, str | None]:
    """Explain in a line why a storage cannot be used, with a remedy."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror, None
    text = str(error)
    for sign, meaning, hint in _SIGNS:
        if sign in text:
            return meaning, hint
    return " ".join(text.split())[:200] or type(error).__name__, None


def _options(uri: str) -> dict[str, Any]:
    """Return the arguments for obstore besides what it reads from the environment."""
    endpoint = ""
    if uri.startswith("s3"):
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return {
        "config": {"endpoint": endpoint} if endpoint else {},
        "client_options": {
            "connect_timeout": CONNECT_TIMEOUT,
            "timeout": READ_TIMEOUT,
            "allow_http": endpoint.startswith("http:"),
        },
        "retry_config": {"max_retries": RETRIES_MAX, "retry_timeout": RETRY_FOR, "backoff": BACKOFF},
    }


class RemoteFiles:
    """The files below a prefix of a bucket.

    Args:
        uri: `s3://bucket/prefix`.

    Raises:
        DependencyMissingError: the library is not installed.
    """

    shared: ClassVar = True

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        self._scheme = uri.partition("://")[0]
        try:
            from obstore.exceptions import BaseError
            from obstore.fsspec import FsspecStore
        except ImportError as error:
            raise extra_missing("s3", f"storage {uri}", "obstore") from error
        self._options = _options(self._uri)
        self.errors = (OSError, NotImplementedError, BaseError)
        self._opener: Any = FsspecStore

    def __reduce__(self) -> tuple[type[RemoteFiles], tuple[str], Mapping[str, Any]]:
        """Return what another process opens it by: no secret is among that."""
        return RemoteFiles, (self._uri,), {"_options": self._options}

    @cached_property
    def _store(self) -> Any:
        from obstore.store import from_url

        return from_url(self._uri, **self._options)

    @property
    def uri(self) -> str:
        return self._uri

    def __str__(self) -> str:
        return self._uri

    def place(self, path: str) -> str:
        return f"{self._uri}/{path}"

    def filesystem(self) -> Any:
        return self._opener(self._scheme, **self._options, skip_instance_cache=True)

    def read(self, path: str) -> tuple[bytes, Any] | None:
        try:
            found = self._store.get(path)
        except FileNotFoundError:
            return None
        version = {key: found.meta[key] for key in ("e_tag", "version") if found.meta[key]}
        return bytes(found.bytes()), version

    def pieces(self, path: str) -> Iterator[bytes]:
        import obstore

        with contextlib.closing(obstore.open_reader(self._store, path, buffer_size=PIECE_BYTES)) as file:
            while piece := bytes(file.read(PIECE_BYTES)):
                yield piece

    def size(self, path: str) -> int | None:
        try:
            return int(self._store.head(path)["size"])
        except FileNotFoundError:
            return None

    def list(self, folder: str, *, deep: bool = True) -> Sequence[Info]:
        if deep:
            found = [item for page in self._store.list(folder) for item in page]
        else:
            found = self._store.list_with_delimiter(folder)["objects"]
        return sorted(Info(item["path"], item["size"], item["last_modified"].timestamp()) for item in found)

    def write(self, path: str, content: bytes) -> None:
        self._store.put(path, content)

    def swap(self, path: str, content: bytes, version: Any | None) -> bool:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            self._store.put(path, content, mode=version or "create")
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def delete(self, paths: Sequence[str]) -> None:
        with contextlib.suppress(FileNotFoundError):
            if paths:
                self._store.delete(paths)
