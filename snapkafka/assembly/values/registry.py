"""A client of schema registries with Confluent's interface (`GET /schemas/ids/{id}`), Apicurio among them.

No answer and no missing answer ends a job: for an unavailable schema there is a reason, in the same words each time.
After transient failures (no connection, 429, 5xx) it asks again, after pauses and within a bound for the whole job.
Credentials go only to the registry itself: no redirect passes them on, and no text from here contains them.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final

from snapkafka.errors import BadInputError

from .avro import AVRO, Schema

#: Pauses before a question is asked again.
PAUSES_S: Final = (0.2, 0.4, 0.8, 1.6)
#: No answer takes longer.
ANSWER_S: Final = 10.0
#: So long a job waits for a registry that fails, in all.
LOST_MAX_S: Final = 30.0
#: No schema is larger.
ANSWER_BYTES_MAX: Final = 8_000_000
#: Registries have no number above it.
NUMBER_MAX: Final = (1 << 31) - 1
ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"

AWAY: Final = "the registry does not answer"
REFUSES: Final = "the registry refuses to answer"
FAILS: Final = "the registry fails"
GARBAGE: Final = "the registry's answer cannot be read"
UNKNOWN: Final = "the registry does not have it"


class _MissingError(Exception):
    """There is no answer; the text is the reason."""


class Registry:
    """The registry at a URL. Its answers, also missing ones, are kept for the length of a job.

    Args:
        url: `http://host:port/path` or `https://...`, also with `user:password@` in it.
        user, password: Basic authentication, if the URL has none.
        notify: called with what is wrong with it.
        sleep: for tests.

    Raises:
        BadInputError: that is not a valid URL of a registry.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str = "",
        password: str = "",
        notify: Callable[[str], None] = lambda text: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = _parts(url)
        self.place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        if parts.username:
            user, password = map(urllib.parse.unquote, (parts.username, parts.password or ""))
        self._headers = {"Accept": ACCEPT}
        if user:
            pair = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
            self._headers["Authorization"] = f"Basic {pair}"
        self._notify, self._sleep = notify, sleep
        self._open = urllib.request.build_opener(_StayThere).open
        self._answers: dict[str, Any] = {}
        self._lost_s = 0.0
        self._given_up = ""
        self._one_at_a_time = threading.Lock()

    @classmethod
    def from_environment(
        cls, url: str, environ: Mapping[str, str], notify: Callable[[str], None] = lambda text: None
    ) -> Registry:
        """Create it with the credentials of the environment: `SNAPKAFKA_SCHEMA_REGISTRY_USERNAME` and
        `SNAPKAFKA_SCHEMA_REGISTRY_PASSWORD`."""
        user, password = (
            environ.get(f"SNAPKAFKA_SCHEMA_REGISTRY_{name}", "") for name in ("USERNAME", "PASSWORD")
        )
        return cls(url, user=user, password=password, notify=notify)

    def schema(self, number: int) -> Schema | str:
        """Return the schema of a number, with those to which it refers; or why there is none."""
        if number > NUMBER_MAX:
            return UNKNOWN
        needs: dict[tuple[str, int], str] = {}
        try:
            with self._one_at_a_time:
                found = self._answer(f"/schemas/ids/{number}")
                self._gather(found, needs, ())
        except _MissingError as error:
            return str(error)
        kind = str(found.get("schemaType") or AVRO).upper()
        return Schema(found["schema"], kind, tuple(needs.values()))

    def _gather(
        self, found: Any, needs: dict[tuple[str, int], str], above: tuple[tuple[str, int], ...]
    ) -> None:
        """Add the schemas to which a schema refers to `needs`, deepest first."""
        try:
            named = [(str(item["subject"]), int(item["version"])) for item in found.get("references") or ()]
        except (TypeError, KeyError, ValueError):
            raise _MissingError(GARBAGE) from None
        for subject, version in named:
            if (subject, version) in above:
                raise _MissingError("its references form a circle")
            if (subject, version) in needs:
                continue
            try:
                other = self._answer(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}")
            except _MissingError as error:
                raise _MissingError(
                    f"of what it refers to (subject {subject}, version {version}): {error}"
                ) from None
            self._gather(other, needs, (*above, (subject, version)))
            needs[subject, version] = other["schema"]

    def _answer(self, path: str) -> Any:
        """Return the registry's answer about one schema; the same each time."""
        if path not in self._answers:
            self._answers[path] = _MissingError(self._given_up) if self._given_up else self._asked(path)
        if isinstance(found := self._answers[path], _MissingError):
            raise found
        return found

    def _asked(self, path: str) -> Any:
        for pause_s in (*PAUSES_S, None):
            began = time.monotonic()
            try:
                return self._once(path)
            except _AskAgainError as error:
                why = error
            self._lost_s += time.monotonic() - began + (pause_s or 0)
            if pause_s is None or not why.may_pass or self._lost_s >= LOST_MAX_S:
                break
            self._sleep(pause_s)
        if why.reason == UNKNOWN:
            return _MissingError(UNKNOWN)
        # A failure at one schema shows nothing about others; a failed connection does.
        if why.reason in (AWAY, REFUSES) or self._lost_s >= LOST_MAX_S:
            self._given_up = why.reason
        self._notify(f"schema registry {self.place}: {why.reason} ({why.detail})")
        return _MissingError(why.reason)

    def _once(self, path: str) -> Any:
        try:
            found = json.loads(self._read(path))
        except urllib.error.HTTPError as error:
            with error:
                status = error.code
            detail = f"HTTP status {status}"
            if status == 404:
                raise _AskAgainError(UNKNOWN, detail) from None
            if status in (401, 403, 407) or 300 <= status < 400:
                raise _AskAgainError(REFUSES, detail) from None
            raise _AskAgainError(FAILS, detail, may_pass=status in (408, 429) or status >= 500) from None
        except (OSError, http.client.HTTPException) as error:
            detail = type(getattr(error, "reason", error)).__name__
            raise _AskAgainError(AWAY, detail, may_pass=True) from None
        except (ValueError, RecursionError):
            raise _AskAgainError(GARBAGE, "it is no JSON") from None
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise _AskAgainError(GARBAGE, "it has no schema")
        return found

    def _read(self, path: str) -> bytes:
        until, content = time.monotonic() + ANSWER_S, b""
        request = urllib.request.Request(self.place + path, headers=self._headers)
        with self._open(request, timeout=ANSWER_S / 2) as response:
            while part := response.read1(65_536):
                content += part
                if time.monotonic() > until:
                    raise TimeoutError("it takes too long")
                if len(content) > ANSWER_BYTES_MAX:
                    break  # what is cut off is no JSON
        return content


class _AskAgainError(Exception):
    """A question has no answer: the reason, what shows it, and whether that is transient."""

    def __init__(self, reason: str, detail: str, *, may_pass: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.may_pass = reason, detail, may_pass


class _StayThere(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect to another place: credentials would go with it."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        there = (urllib.parse.urlsplit(url)[:2] for url in (req.full_url, newurl))
        if len(set(there)) > 1:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _parts(url: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and not parts.query
        if usable and not parts.fragment and parts.port != 0:
            return parts
    except ValueError:
        pass
    # The URL may hold a password: it is not repeated.
    raise BadInputError(
        "invalid URL of the schema registry", hint="write http://host:port or https://host/path"
    )
