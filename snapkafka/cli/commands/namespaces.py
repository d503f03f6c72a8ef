"""`snapkafka namespaces`: the namespaces of a cluster."""

from __future__ import annotations

from snapkafka import ops
from snapkafka.cli.options import AsJson, Bootstrap
from snapkafka.cli.running import connect, console, print_json, run


def namespaces(bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """List the namespaces of a cluster: each has a ledger."""
    found = run(lambda: ops.namespaces(connect(bootstrap)), as_json=as_json)
    if as_json:
        print_json({"namespaces": found})
        return
    for name in found:
        console.print(name)
    if not found:
        console.print("No namespace: no service with snapkafka has run on this cluster.")
