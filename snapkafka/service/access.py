"""Authorization: tokens with roles, and the allowed places of tables."""

from __future__ import annotations

import hashlib
import hmac
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from snapkafka.errors import BadInputError

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


def canonical(uri: str) -> tuple[str, str, str]:
    """Split a path or URI into scheme, place and path, with `..`, `//` and links of this machine resolved.

    `s3` is taken for `s3a`. A relative path means one of this machine.
    """
    parts = urlsplit(uri)
    if "://" not in uri or parts.scheme == "file":
        path = unquote(parts.path) if parts.scheme == "file" else uri
        return "file", "", str(Path(path).expanduser().resolve())
    scheme = "s3a" if parts.scheme == "s3" else parts.scheme
    return scheme, parts.netloc, posixpath.normpath("/" + parts.path.lstrip("/"))


def below(uri: str, roots: Iterable[str]) -> bool:
    """Return whether a storage or manifest lies in one of the roots, or is one."""
    return any(_within(canonical(uri), canonical(root)) for root in _given(roots))


def _given(roots: Iterable[str]) -> Iterator[str]:
    yield from (root for root in roots if root)


def _within(place: tuple[str, str, str], root: tuple[str, str, str]) -> bool:
    folder = root[2].rstrip("/")
    return place[:2] == root[:2] and (place[2] == (folder or "/") or place[2].startswith(folder + "/"))
