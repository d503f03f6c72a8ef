"""Tokens for SASL/OAUTHBEARER: from an identity provider by client credentials, or from a file."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

from aiokafka.abc import AbstractTokenProvider

from snapkafka.errors import AuthenticationError

#: The identity provider answers by then.
ANSWER_S: Final = 10.0
#: A token is fetched again when a fifth of its time is left.
RENEW_AFTER: Final = 0.8
#: Where nothing shows how long a token holds.
ASSUMED_S: Final = 300.0
TOKEN_BYTES_MAX: Final = 1_000_000


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka is not looked into
    """A source of valid tokens from `sasl.oauthbearer.token.endpoint.url`; each is renewed before it expires.

    Args:
        client: id, secret and scope.

    Raises (by its methods):
        AuthenticationError: the identity provider refuses the client, or does not answer.
    """

    def __init__(self, url: str, client: tuple[str, str, str] = ("", "", "")) -> None:
        super().__init__()
        self._url = url
        self._id, self._secret, self._scope = client
        self._lock = threading.Lock()
        self._token, self._renew_at, self._expires = "", 0.0, 0.0

    async def token(self) -> str:
        """Return the token, for aiokafka."""
        token, _ = await asyncio.to_thread(self.token_and_expiry)
        return token

    def token_and_expiry(self) -> tuple[str, float]:
        """Return the token and its expiry, in seconds since 1970; blocks while the token is fetched."""
        with self._lock:
            if time.time() >= self._renew_at:
                fetched = time.time()
                self._token, holds_s = self._fetch()
                self._expires = _expiry(self._token) or fetched + (holds_s or ASSUMED_S)
                self._renew_at = fetched + RENEW_AFTER * max(0.0, self._expires - fetched)
            return self._token, self._expires

    def _fetch(self) -> tuple[str, float]:
        """Fetch a token; return it and its validity in seconds (0: unknown)."""
        url = self._url
        if url.startswith("file:"):
            path = urllib.request.url2pathname(urllib.parse.urlsplit(url).path)
            try:
                return Path(path).read_text("utf-8").strip(), 0.0
            except OSError as error:
                raise AuthenticationError(
                    f"the token file {path} cannot be read: {error.strerror}",
                    hint="sasl.oauthbearer.token.endpoint.url names it",
                ) from error
        try:
            with urllib.request.urlopen(self._request(url), timeout=ANSWER_S) as response:
                answer: Any = json.loads(response.read(TOKEN_BYTES_MAX))
            return str(answer["access_token"]), float(answer.get("expires_in") or 0)
        except urllib.error.HTTPError as error:
            raise AuthenticationError(
                f"the identity provider at {url} refuses client {self._id}: HTTP {error.code}",
                hint="check sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret and sasl.oauthbearer.scope",
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AuthenticationError(
                f"the identity provider at {url} gave no token: {getattr(error, 'reason', None) or error}",
                hint="check sasl.oauthbearer.token.endpoint.url",
            ) from error

    def _request(self, url: str) -> urllib.request.Request:
        form = {"grant_type": "client_credentials"}
        if self._scope:
            form["scope"] = self._scope
        basic = base64.b64encode(f"{self._id}:{self._secret}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Accept": "application/json"}
        return urllib.request.Request(url, urllib.parse.urlencode(form).encode(), headers, method="POST")


def _expiry(token: str) -> float | None:
    """Return the expiry of a JWT (`exp`); None if the token does not show it."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError, binascii.Error):
        return None
