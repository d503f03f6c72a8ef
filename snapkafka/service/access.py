"""Authorization: tokens with roles, allowed places of tables, and requests that a foreign page has a browser send."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Final

from snapkafka.errors import BadInputError, SnapkafkaError
from snapkafka.store.uri import canonical

#: A role and its token: one that can be guessed protects nothing.
LINE: Final = re.compile(r"(?i)\s*(read|trigger|admin)\s*:\s*([a-z0-9._~+/=-]{16,})\s*")


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
            if (given := LINE.fullmatch(line)) is None:
                raise BadInputError(
                    f"line {number} of {where} is invalid",
                    hint="write ROLE:TOKEN, with 16 or more letters, digits and any of . _ ~ + / = -",
                )
            found.append((hashlib.sha256(given[2].encode()).digest(), Role[given[1].upper()]))
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
        found = any(_is_below(place, canonical(root)) for root in roots if root)
    except SnapkafkaError:
        return None
    return place if found else None


def _is_below(place: str, root: str) -> bool:
    """Compare canonical URIs. `s3a` is taken for `s3`."""
    place, root = (re.sub("^s3a:", "s3:", uri).rstrip("/") for uri in (place, root))
    return place == root or place.startswith(f"{root}/")


# -- browsers ---------------------------------------------------------------------------------------------------


@lru_cache
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
    name = host.lower().rpartition("]")[0].lstrip("[") or host.lower().partition(":")[0]
    if not (is_loopback(name) or name in names):
        return f"host {name[:60]!r} is unknown"
    if origin and origin.lower().partition("://")[2] != host.lower():
        return "requests of other origins are refused"
    return ""
