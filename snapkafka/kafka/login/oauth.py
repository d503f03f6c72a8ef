"""Tokens for SASL/OAUTHBEARER: from an identity provider by client credentials, or from a file."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import urllib.parse
import urllib.request
from typing import Final

from aiokafka.abc import AbstractTokenProvider

from snapkafka.errors import AuthenticationError

#: The identity provider answers by then.
ANSWER_S: Final = 10.0
#: Where nothing shows how long a token holds.
ASSUMED_S: Final = 300.0
TOKEN_BYTES_MAX: Final = 1_000_000


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka is not looked into
    """A source of tokens: `sasl.oauthbearer.token.endpoint.url`, asked for each connection."""

    def __init__(self, url: str, client: str, secret: str, scope: str) -> None:
        super().__init__()
        self._url, self._client, self._secret, self._scope = url, client, secret, scope

    async def token(self) -> str:
        """Return a token, for aiokafka."""
        token, _ = await asyncio.to_thread(self.fetch)
        return token

    def fetch(self) -> tuple[str, float]:
        """Fetch a token; return it and its expiry, in seconds since 1970.

        Raises:
            AuthenticationError: the identity provider refuses the client or does not answer, or there is no such file.
        """
        from_file = self._url.startswith("file:")
        try:
            with urllib.request.urlopen(
                self._url if from_file else self._request(), timeout=ANSWER_S
            ) as response:
                text = response.read(TOKEN_BYTES_MAX).decode()
            if from_file:
                return text.strip(), _expiry(text, 0.0)
            answer = json.loads(text)
            return str(answer["access_token"]), _expiry(answer["access_token"], answer.get("expires_in") or 0)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AuthenticationError(
                f"{self._url} gave no token to client {self._client}: {error}",
                hint="check the settings sasl.oauthbearer.*",
            ) from error

    def _request(self) -> urllib.request.Request:
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        basic = base64.b64encode(f"{self._client}:{self._secret}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Accept": "application/json"}
        return urllib.request.Request(
            self._url, urllib.parse.urlencode(form).encode(), headers, method="POST"
        )


def _expiry(token: str, holds_s: float) -> float:
    """Return the expiry of a JWT (`exp`); else what the identity provider says of it."""
    try:
        payload = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return time.time() + float(holds_s or ASSUMED_S)
