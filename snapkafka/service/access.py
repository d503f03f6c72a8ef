"""Authorization: tokens with roles, allowed places of tables, and requests that a foreign page has a browser send."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from snapkafka.errors import BadInputError, SnapkafkaError
from snapkafka.store.uri import canonical

#: A token that can be guessed protects nothing.
TOKEN_CHARS_MIN: Final = 16
TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")


class Role(IntEnum):
    """The rights of a client; each role includes those before it."""

    READ = 1
    TRIGGER = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Tokens:
    """The valid tokens, as SHA-256 digests with their roles: the tokens themselves are not kept."""

    known: tuple[tuple[bytes, Role], ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return bool(self.known)

    def role(self, token: str) -> Role | None:
        """Find the role of a token; None: it is unknown. Takes as long for any token, right or wrong."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = None
        for known, role in self.known:
            if hmac.compare_digest(known, digest):
                found = role
        return found

    def bearer(self, header: str) -> Role | None:
        """Find the role of a header Authorization; None: it names no token, or an unknown one."""
        scheme, _, token = header.partition(" ")
        return self.role(token.strip()) if scheme.lower() == "bearer" else None

    @classmethod
    def parse(cls, text: str, where: str) -> Tokens:
        """Read lines `role:token`; empty lines and those that begin with `#` are skipped.

        Args:
            where: the name of the text for an error, which never contains the text itself.

        Raises:
            BadInputError: a line is not of that form, or a token is too short.
        """
        found = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, colon, token = line.strip().partition(":")
            try:
                role = Role[name.strip().upper()]
            except KeyError:
                role = None
            token = token.strip()
            if not colon or role is None or not TOKEN.fullmatch(token) or len(token) < TOKEN_CHARS_MIN:
                raise BadInputError(
                    f"line {number} of {where} is invalid",
                    hint=f"write ROLE:TOKEN, with {TOKEN_CHARS_MIN} or more letters, digits and any of . _ ~ + / = -",
                )
            found.append((hashlib.sha256(token.encode()).digest(), role))
        if not found:
            raise BadInputError(f"{where} has no tokens", hint="write one role:token a line")
        return cls(tuple(found))


# -- storage roots --------------------------------------------------------------------------------------------


def within(uri: str, roots: Iterable[str]) -> str | None:
    """Return the canonical form of a storage or manifest that lies in one of the roots, or is one; None: it does not.

    What follows uses that form: the place that was checked is the one that is read or written.
    """
    try:
        place = canonical(uri)
        found = any(_within(_parts(place), _parts(canonical(root))) for root in roots if root)
    except SnapkafkaError:
        return None
    return place if found else None


def _parts(uri: str) -> tuple[str, str]:
    """Split a canonical URI into its file system and its path. `s3a` is taken for `s3`."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return "", uri
    bucket, _, path = rest.partition("/")
    return f"{scheme.replace('s3a', 's3')}://{bucket}", f"/{path}"


def _within(place: tuple[str, str], root: tuple[str, str]) -> bool:
    folder = root[1].rstrip("/")
    return place[0] == root[0] and (place[1].rstrip("/") == folder or place[1].startswith(folder + "/"))


# -- browsers ---------------------------------------------------------------------------------------------------


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine alone; a name other than `localhost` is not trusted."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def foreign(host: str, origin: str, *, names: Collection[str]) -> str:
    """Explain why a request may come from a foreign page; empty if it does not.

    Args:
        host: the header Host. A foreign page may have its name point to this machine (DNS rebinding).
        origin: the header Origin, empty if there is none.
        names: by which clients reach this server, besides those of this machine, in lower case.
    """
    name = _without_port(host.lower())
    if not (is_loopback(name) or name in names):
        return f"host {name[:60]!r} is unknown"
    if origin and origin.lower().partition("://")[2] != host.lower():
        return "requests of other origins are refused"
    return ""


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
