"""Addresses of brokers as people write them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from snapkafka.errors import BadInputError

PORT: Final = 9092
#: `host`, `host:port` or `[address]:port`; Faust writes a scheme before it.
_FORM: Final = re.compile(
    r"(?:(?:aio)?kafka://)?(?:\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:/\[\]]+))(?::(?P<port>\d{1,5}))?/?"
)


class Address(NamedTuple):
    """A host and a port; an IPv6 address stands without its brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses(bootstrap: str) -> list[Address]:
    """Read `host:port`, several with commas or semicolons; with or without `kafka://` before them.

    Raises:
        BadInputError: one is invalid.
    """
    found = []
    for text in re.split("[,;]", bootstrap):
        parts = _FORM.fullmatch(text.strip())
        if parts is None or not 0 < int(parts["port"] or PORT) < 65_536:
            raise BadInputError(
                f"invalid broker address: {bootstrap!r}",
                hint="write host:port[,host:port...], and an IPv6 address in brackets: [::1]:9092",
            )
        found.append(Address(parts["ipv6"] or parts["host"], int(parts["port"] or PORT)))
    return found
