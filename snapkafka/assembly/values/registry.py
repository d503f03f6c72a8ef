"""A client of schema registries with Confluent's interface (`GET /schemas/ids/{id}`), Apicurio among them.

No answer and no missing answer ends a job: for an unavailable schema there is a reason, in the same words each time.
Credentials go only to the registry itself: no redirect passes them on, and no text from here contains them.
"""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from time import monotonic, sleep
from typing import Any, Final

from snapkafka.errors import BadInputError

from .avro import AVRO, Schema

#: Pauses before a question is asked again.
PAUSES_S: Final = (0.2, 0.4, 0.8, 1.6)
#: No answer takes longer; so long a process waits for a registry that fails, in all.
ANSWER_S: Final = 10.0
LOST_MAX_S: Final = 30.0
#: No schema is larger.
ANSWER_BYTES_MAX: Final = 8_000_000
#: Bytes that begin with a zero byte by chance may have any number: a process asks for no more.
NUMBERS_MAX: Final = 500
ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"

AWAY: Final = "the registry does not answer"
REFUSES: Final = "the registry refuses to answer"
FAILS: Final = "the registry fails"
GARBAGE: Final = "the registry's answer cannot be read"
UNKNOWN: Final = "the registry does not have it"
MANY: Final = f"more numbers occur than the {NUMBERS_MAX} that a registry is asked for"


class _MissingError(Exception):
    """There is no answer; the text is the reason."""


class Registry:
    """The registry at a URL. Its answers, also missing ones, are kept.

    Args:
        url: `http://host:port/path` or `https://...`, also with `user:password@` in it.
        user, password: Basic authentication, if the URL has none.

    Raises:
        BadInputError: that is not a valid URL of a registry.
    """

    def __init__(self, url: str, *, user: str = "", password: str = "") -> None:
        parts = _parts(url)
        self._place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        if parts.username:
            user, password = map(urllib.parse.unquote, (parts.username, parts.password or ""))
        pair = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
        self._login = f"Basic {pair}" if user else ""
        self._answers: dict[str, Any] = {}
        self._schemas: dict[int, Schema | str] = {}
        self._lost_s = 0.0
        self._given_up = ""

    @classmethod
    def from_environment(cls, url: str, environ: Mapping[str, str]) -> Registry:
        """Create it with the credentials of the environment: `SNAPKAFKA_SCHEMA_REGISTRY_USERNAME` and
        `SNAPKAFKA_SCHEMA_REGISTRY_PASSWORD`."""
        user, password = (
            environ.get(f"SNAPKAFKA_SCHEMA_REGISTRY_{name}", "") for name in ("USERNAME", "PASSWORD")
        )
        return cls(url, user=user, password=password)

    def schema(self, number: int) -> Schema | str:
        """Return the schema of a number, with those to which it refers; or why there is none."""
        if number not in self._schemas:
            if len(self._schemas) >= NUMBERS_MAX:
                return MANY
            self._schemas[number] = self._schema(number)
        return self._schemas[number]

    def _schema(self, number: int) -> Schema | str:
        needs: dict[tuple[str, int], str] = {}
        try:
            found = self._answer(f"/schemas/ids/{number}")
            self._gather(found, needs, ())
        except _MissingError as error:
            return str(error)
        return Schema(found["schema"], str(found.get("schemaType") or AVRO).upper(), tuple(needs.values()))

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
            if (subject, version) not in needs:
                path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}"
                try:
                    other = self._answer(path)
                except _MissingError as error:
                    what = f"of what it refers to (subject {subject}, version {version})"
                    raise _MissingError(f"{what}: {error}") from None
                self._gather(other, needs, (*above, (subject, version)))
                needs[subject, version] = other["schema"]

    def _answer(self, path: str) -> Any:
        """Return the registry's answer about one schema; the same each time."""
        if path not in self._answers:
            self._answers[path] = self._given_up or self._asked(path)
        if isinstance(found := self._answers[path], str):
            raise _MissingError(found)
        return found

    def _asked(self, path: str) -> Any:
        """Ask, after transient failures (no connection, 408, 429, 5xx) again; return the answer, or why there is
        none."""
        for pause_s in (*PAUSES_S, None):
            began = monotonic()
            found, may_pass = self._once(path)
            self._lost_s += monotonic() - began + (pause_s or 0) if may_pass else 0
            if not may_pass or pause_s is None or self._lost_s >= LOST_MAX_S:
                break
            sleep(pause_s)
        # A failure at one schema shows nothing about others; a failed connection does.
        if found in (AWAY, REFUSES) or self._lost_s >= LOST_MAX_S:
            self._given_up = found
        return found

    def _once(self, path: str) -> tuple[Any, bool]:
        try:
            found = json.loads(self._read(path))
        except urllib.error.HTTPError as error:
            with error:
                status = error.code
            if status == 404:
                return UNKNOWN, False
            if status in (401, 403, 407):
                return REFUSES, False
            return FAILS, status in (408, 429) or status >= 500
        except (OSError, http.client.HTTPException):
            return AWAY, True
        except (ValueError, RecursionError):
            return GARBAGE, False
        is_one = isinstance(found, dict) and isinstance(found.get("schema"), str)
        return found if is_one else GARBAGE, False

    def _read(self, path: str) -> bytes:
        until, content = monotonic() + ANSWER_S, b""
        request = urllib.request.Request(self._place + path, headers={"Accept": ACCEPT})
        if self._login:
            request.add_unredirected_header("Authorization", self._login)
        with urllib.request.urlopen(request, timeout=ANSWER_S / 2) as response:
            while part := response.read1(65_536):
                content += part
                if monotonic() > until:
                    raise TimeoutError("it takes too long")
                if len(content) > ANSWER_BYTES_MAX:
                    break  # what is cut off is no JSON
        return content


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
