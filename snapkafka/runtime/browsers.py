"""Requests that a foreign page has a browser send: recognised by their headers Host and Origin."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection


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
