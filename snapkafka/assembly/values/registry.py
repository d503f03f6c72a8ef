"""A client of schema registries with Confluent's interface (`GET /schemas/ids/{id}`), Apicurio among them.

A registry that does not answer, or fails, fails the assembly by name. For a schema that it does not have there is a
reason. Credentials go only to the registry itself: no redirect passes them on, and no text from here contains them.
"""

from __future__ import annotations

import base64
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Final

import msgspec

from snapkafka.errors import BadInputError, StorageError

from .avro import AVRO, Schema

#: The registry may be silent for so long.
ANSWER_S: Final = 5.0
#: No schema is larger.
ANSWER_BYTES_MAX: Final = 8_000_000
#: Bytes that begin with a zero byte by chance may have any number: a process asks for no more.
NUMBERS_MAX: Final = 500

MANY: Final = f"more numbers occur than the {NUMBERS_MAX} that a registry is asked for"

AGAIN: Final = "check its URL and rights, and run this again; without the option values stay bytes"


class _MissingError(Exception):
    """There is no answer; the text is the reason."""


class _Reference(msgspec.Struct):
    subject: str
    version: int


class _Answer(msgspec.Struct, rename="camel"):
    schema: str
    schema_type: str | None = None
    references: list[_Reference] | None = None


class Registry:
    """The registry at a URL. Its answers, also missing ones, are kept.

    Args:
        url: `http://host:port/path` or `https://...`, also with `user:password@` in it.
        environ: Basic authentication, if the URL has none: `SNAPKAFKA_SCHEMA_REGISTRY_USERNAME`, `..._PASSWORD`.

    Raises:
        BadInputError: that is not a valid URL of a registry.
    """

    def __init__(self, url: str, environ: Mapping[str, str]) -> None:
        parts = _parts(url)
        self._place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        pair = f"{urllib.parse.unquote(parts.username or '')}:{urllib.parse.unquote(parts.password or '')}"
        if not parts.username:
            names = "SNAPKAFKA_SCHEMA_REGISTRY_USERNAME", "SNAPKAFKA_SCHEMA_REGISTRY_PASSWORD"
            pair = ":".join(environ.get(name, "") for name in names)
        self._login = "" if pair.startswith(":") else f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._schemas: dict[int, Schema | str] = {}

    def schema(self, number: int) -> Schema | str:
        """Return the schema of a number, with those to which it refers; or why there is none.

        Raises:
            StorageError: the registry does not answer, or fails.
        """
        if number not in self._schemas:
            if len(self._schemas) >= NUMBERS_MAX:
                return MANY
            needs: dict[str, str] = {}
            try:
                found = self._answer(f"/schemas/ids/{number}")
                self._gather(found, needs)
            except _MissingError as error:
                self._schemas[number] = str(error)
            else:
                kind = (found.schema_type or AVRO).upper()
                self._schemas[number] = Schema(found.schema, kind, tuple(needs.values()))
        return self._schemas[number]

    def _gather(self, found: _Answer, needs: dict[str, str]) -> None:
        """Add the schemas to which a schema refers to `needs`, deepest first."""
        for it in found.references or ():
            path = f"/subjects/{urllib.parse.quote(it.subject, safe='')}/versions/{it.version}"
            if path not in needs:
                needs[path] = ""  # a circle ends here, and its schema cannot be parsed
                other = self._answer(path)
                self._gather(other, needs)
                del needs[path]
                needs[path] = other.schema

    def _answer(self, path: str) -> _Answer:
        request = urllib.request.Request(self._place + path, headers={"Accept": "application/json"})
        if self._login:
            request.add_unredirected_header("Authorization", self._login)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as response:
                return msgspec.json.decode(response.read(ANSWER_BYTES_MAX), type=_Answer)
        except urllib.error.HTTPError as error:
            with error:
                status = error.code
            if status < 500 and status not in (401, 407, 408, 429):
                raise _MissingError(f"the registry does not give it out: status {status}") from None
            raise StorageError(f"the schema registry fails: status {status}", hint=AGAIN) from None
        except (OSError, http.client.HTTPException):
            raise StorageError("the schema registry does not answer", hint=AGAIN) from None
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise StorageError("the schema registry fails: its answer cannot be read", hint=AGAIN) from None


def _parts(url: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and not parts.query
        if usable and not parts.fragment and parts.port != 0:
            return parts
    except ValueError:
        pass
    # The URL may hold a password: it is not repeated.
    raise BadInputError("invalid URL of the schema registry", hint="write https://host:port/path")
