"""A client of schema registries with Confluent's interface (`GET /schemas/ids/{id}`), Apicurio among them.

No answer and no missing answer ends a job: for an unavailable schema there is a reason, in the same words each time.
After transient failures (no connection, 429, 5xx) it asks again, after pauses and within a bound for the whole job.
Credentials go only to the registry itself: no redirect passes them on, and no text from here contains them. It uses
the standard library only: it runs on the driver, a few times per job.
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
from dataclasses import dataclass
from typing import Any, Final

from snapkafka.errors import BadInputError

#: Types of schemas, as registries call them; an answer without one is Avro.
AVRO: Final = "AVRO"
JSON: Final = "JSON"
#: Pauses before a question is asked again.
PAUSES_S: Final = (0.2, 0.4, 0.8, 1.6)
#: No answer takes longer.
ANSWER_S: Final = 10.0
#: So long a job waits for a registry that fails, in all.
LOST_MAX_S: Final = 30.0
#: No schema is larger.
ANSWER_BYTES_MAX: Final = 8_000_000
#: A schema refers to no more others.
REFERENCES_MAX: Final = 200
ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"

AWAY: Final = "the registry does not answer"
REFUSES: Final = "the registry refuses to answer"
FAILS: Final = "the registry fails"
GARBAGE: Final = "the registry's answer cannot be read"
UNKNOWN: Final = "the registry does not have it"
#: There is no such question in an older registry.
NO_SUCH: Final = (404, 405, 501)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema as its registry has it.

    Args:
        kind: `AVRO`, `JSON`, or whatever else the registry calls it.
        text: as it was registered.
        needs: the schemas to which it refers, each after those that it needs itself.
    """

    kind: str
    text: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """An unavailable item, and why. `absent`: the registry answers that there is none."""

    why: str
    absent: bool = False


class Registry:
    """The registry at a URL. Its answers, also missing ones, are kept for the length of a job.

    Args:
        url: `http://host:port/path` or `https://...`, also with `user:password@` in it.
        user, password: Basic authentication, if the URL has none.
        notify: called once, with what is wrong with it.
        clock, sleep: for tests.

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
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts, place = _parts(url)
        self.place = f"{parts.scheme}://{place}{parts.path.rstrip('/')}"
        user, password = (
            (urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or ""))
            if parts.username
            else (user, password)
        )
        self._headers = {"Accept": ACCEPT}
        if user:
            pair = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
            self._headers["Authorization"] = f"Basic {pair}"
        self._notify, self._clock, self._sleep = notify, clock, sleep
        self._open = urllib.request.build_opener(_StayThere).open
        self._answers: dict[str, Any] = {}
        self._lost_s = 0.0
        self._given_up = ""
        self._one_at_a_time = threading.RLock()

    @classmethod
    def from_environment(
        cls, url: str, environ: Mapping[str, str], notify: Callable[[str], None] = lambda text: None
    ) -> Registry:
        """Create it with the credentials of the environment (`SNAPKAFKA_SCHEMA_REGISTRY_USERNAME`, `..._PASSWORD`)."""
        user, password = (
            environ.get(name, "")
            for name in ("SNAPKAFKA_SCHEMA_REGISTRY_USERNAME", "SNAPKAFKA_SCHEMA_REGISTRY_PASSWORD")
        )
        return cls(url, user=user, password=password, notify=notify)

    def schema(self, number: int) -> Schema | Missing:
        """Return the schema of a number, with those to which it refers."""
        with self._one_at_a_time:
            parsed = self._answer(f"/schemas/ids/{number}")
            if isinstance(parsed, Missing):
                return parsed
            needs: dict[tuple[str, str], str] = {}
            found = _schema(parsed)
            if isinstance(found, Missing):
                return found
            why = self._gather(parsed, needs, ())
            return (
                Missing(why) if why else Schema(kind=found.kind, text=found.text, needs=tuple(needs.values()))
            )

    def versions(self, number: int) -> Mapping[str, int] | Missing:
        """Return the version of a schema by subject; empty if the registry does not support the question."""
        with self._one_at_a_time:
            parsed = self._answer(f"/schemas/ids/{number}/versions")
        if isinstance(parsed, Missing):
            return {} if parsed.absent else parsed
        try:
            return {str(item["subject"]): int(item["version"]) for item in parsed}
        except (TypeError, KeyError, ValueError):
            return Missing(GARBAGE)

    def _gather(
        self, parsed: Any, needs: dict[tuple[str, str], str], above: tuple[tuple[str, str], ...]
    ) -> str:
        """Add the schemas to which a schema refers to `needs`, deepest first; return why that is impossible, if it
        is."""
        references = parsed.get("references") or ()
        try:
            named = [(str(item["subject"]), str(int(item["version"]))) for item in references]
        except (TypeError, KeyError, ValueError):
            return GARBAGE
        for name in named:
            if name in needs:
                continue
            if name in above or len(above) + len(needs) > REFERENCES_MAX:
                return "its references form a circle"
            subject, version = name
            other = self._answer(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}")
            found = other if isinstance(other, Missing) else _schema(other)
            if isinstance(found, Missing):
                return f"of what it refers to (subject {subject}, version {version}): {found.why}"
            if why := self._gather(other, needs, (*above, name)):
                return why
            needs[name] = found.text
        return ""

    # -- asking -----------------------------------------------------------------------------------------------

    def _answer(self, path: str) -> Any:
        """Return the registry's answer, as JSON, or `Missing`; the same each time."""
        if path not in self._answers:
            self._answers[path] = Missing(self._given_up) if self._given_up else self._asked(path)
        return self._answers[path]

    def _asked(self, path: str) -> Any:
        for pause_s in (*PAUSES_S, None):
            began = self._clock()
            answer, detail, may_pass = self._once(path)
            if not isinstance(answer, Missing) or answer.absent:
                return answer
            if may_pass and pause_s is not None and self._lost_s < LOST_MAX_S:
                self._sleep(pause_s)
                self._lost_s += self._clock() - began
                continue
            self._lost_s += self._clock() - began
            break
        # A failure at one schema shows nothing about others; a failed connection does.
        if answer.why in (AWAY, REFUSES) or self._lost_s >= LOST_MAX_S:
            self._given_up = answer.why
        self._notify(f"schema registry {self.place}: {answer.why} ({detail})")
        return answer

    def _once(self, path: str) -> tuple[Any, str, bool]:
        """Return an answer, the problem with it, and whether that is transient."""
        try:
            content = self._read(path)
        except urllib.error.HTTPError as error:
            with error:
                status = error.code
            detail = f"HTTP status {status}"
            if status in NO_SUCH:
                return Missing(UNKNOWN, absent=True), detail, False
            if status in (401, 403, 407) or 300 <= status < 400:
                return Missing(REFUSES), detail, False
            return Missing(FAILS), detail, status in (408, 429) or status >= 500
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            return Missing(AWAY), type(reason).__name__, True
        try:
            return json.loads(content), "", False
        except (ValueError, RecursionError):
            return Missing(GARBAGE), f"{len(content)} bytes that are no JSON", False

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


class _StayThere(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect to another place: credentials would go with it."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        there = (urllib.parse.urlsplit(url)[:2] for url in (req.full_url, newurl))
        if len(set(there)) > 1:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _parts(url: str) -> tuple[urllib.parse.SplitResult, str]:
    """Split a URL into its parts, and host and port."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
        place = f"[{host}]" if ":" in host else host
        if parts.port is not None:
            place += f":{parts.port}"
        if parts.scheme in ("http", "https") and host and not parts.query and not parts.fragment:
            return parts, place
    except ValueError:
        pass
    # The URL may hold a password: it is not repeated.
    raise BadInputError(
        "invalid URL of the schema registry", hint="write http://host:port or https://host/path"
    )


def _schema(parsed: Any) -> Schema | Missing:
    """Parse the registry's answer about one schema, without those to which it refers."""
    if not isinstance(parsed, dict) or not isinstance(parsed.get("schema"), str):
        return Missing(GARBAGE)
    return Schema(kind=str(parsed.get("schemaType") or AVRO).upper(), text=parsed["schema"])
