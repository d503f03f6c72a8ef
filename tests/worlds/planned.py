"""A plan and a result of a recovery, as the command prints them."""

from __future__ import annotations

from typing import Any

from snapkafka.recovery import Plan, Recovered, Request


def planned(**changes: Any) -> Plan:
    """Build a plan of a restore of app accounts."""
    request = changes.pop("request", Request(namespace="shop", name="friday"))
    fields: dict[str, Any] = {
        "kind": request.kind,
        "plan": "abc",
        "snapshot": "friday",
        "attempt": 1,
        "epoch": 18,
        "verdict": "VERIFIED",
        "digest": "d" * 64,
        "place": "/there/friday.json",
        "namespace": "shop",
        "apps": ("accounts",),
    }
    return Plan(request=request, **fields | changes)


def done(**changes: Any) -> Recovered:
    """Build the result of it."""
    fields: dict[str, Any] = {
        "kind": "in-place",
        "plan": "abc",
        "snapshot": "friday",
        "epoch": 18,
        "namespace": "shop",
        "apps": ("accounts",),
        "author": 40,
        "resumed": False,
        "messages": 4_711,
        "inputs": 0,
        "state": 12,
        "seconds": 1.5,
    }
    return Recovered(**fields | changes)
