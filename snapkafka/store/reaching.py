"""Access to a remote storage: the settings of its own tools, and the meaning of its errors."""

from __future__ import annotations

import os
from typing import Any, Final

#: What has not answered by then is not there, or not for us: seconds.
CONNECT_TIMEOUT_S: Final = 5
READ_TIMEOUT_S: Final = 60
#: At once: there may be thousands of manifests to read.
CONNECTIONS_MAX: Final = 50
#: Is read ahead of who reads a file: DuckDB jumps from one column to the next.
BLOCK_BYTES: Final = 8 << 20
#: Each waits for a random time, up to twice as long as the one before: half a minute in all.
ATTEMPTS_MAX: Final = 6

_BUCKET: Final = "create it, or check --storage"
_RIGHTS: Final = "check the credentials (AWS_ACCESS_KEY_ID or AWS_PROFILE) and their rights on the bucket"
#: A part of an error's name or message -> its meaning, and what to do. The first that fits counts.
_SIGNS: Final = (
    ("NoSuchBucket", "there is no such bucket", _BUCKET),
    ("bucket does not exist", "there is no such bucket", _BUCKET),
    ("HeadBucket operation", "there is no such bucket", _BUCKET),
    (
        "NoCredentials",
        "there are no credentials",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    ),
    ("ProfileNotFound", "there is no such profile", "check AWS_PROFILE"),
    ("PermissionError", "access is denied", _RIGHTS),
    ("EndpointConnection", "no server answers", "check AWS_ENDPOINT_URL and that it runs"),
    (
        "SlowDown",
        "the server throttles requests (503), for too long",
        "try again when its load is lower",
    ),
    (
        "Service Unavailable",
        "the server throttles requests (503), for too long",
        "try again when its load is lower",
    ),
    ("Timeout", "no server answers in time", "check AWS_ENDPOINT_URL and that it runs"),
    ("ConnectionClosed", "the server hung up", "check AWS_ENDPOINT_URL: is it http or https?"),
)


def options(scheme: str) -> dict[str, Any]:
    """Return the arguments for fsspec. Endpoint, credentials and the rest come from the environment and ~/.aws."""
    if scheme != "s3a":
        return {}
    name = region()
    config: dict[str, Any] = {
        "max_pool_connections": CONNECTIONS_MAX,
        "connect_timeout": CONNECT_TIMEOUT_S,
        "read_timeout": READ_TIMEOUT_S,
        # The newer modes stop to try again when many fail at once, and that is when it helps.
        "retries": {"mode": "legacy", "total_max_attempts": ATTEMPTS_MAX},
    }
    if endpoint():
        # Amazon's newer way to send a checksum is one that few others know; the manifest has one of each file.
        config["request_checksum_calculation"] = "when_required"
    return {
        "default_block_size": BLOCK_BYTES,
        "use_listings_cache": False,
        "skip_instance_cache": True,  # the environment may be another one by now
        "client_kwargs": {"region_name": name} if name else {},
        "config_kwargs": config,
    }


def is_throttled(error: BaseException) -> bool:
    """Return whether the server throttles its clients, so that s3fs should try again. s3fs recognises SlowDown by the
    text of an answer, and the answer to HEAD has none."""
    response = getattr(error, "response", None) or {}
    return bool(response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 503)


def endpoint() -> str:
    """Return the URL of the S3 server, if it is not Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def region() -> str:
    return os.environ.get("AWS_DEFAULT_REGION") or os.environ.get("AWS_REGION") or ""


def reason(error: BaseException) -> tuple[str, str | None]:
    """Explain in a line why a storage cannot be reached, with a remedy."""
    chain: list[str] = []
    one: BaseException | None = error
    while one is not None:
        chain += [type(one).__name__, str(one)]
        one = one.__cause__
    for sign, meaning, hint in _SIGNS:
        if any(sign in text for text in chain):
            return meaning, hint
    return " ".join(str(error).split())[:200] or type(error).__name__, None
