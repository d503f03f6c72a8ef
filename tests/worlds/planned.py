"""Plans and results of recoveries, as the command prints them."""

from typing import Any

from snapkafka.restore import Irrevocable, NewTopic, PartitionMove, Plan, Recovered, Refusal, Request


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


def done(plan: Plan, **changes: Any) -> Recovered:
    """Build the result of it."""
    fields: dict[str, Any] = {"author": 40, "messages": 4_711, "inputs": 0, "state": 12, "seconds": 1.5}
    return Recovered(plan=plan, **fields | changes)


ORDERS: dict[str, Any] = {"app": "accounts", "topic": "orders", "partition": 0}
OUTPUTS = (Irrevocable(topic="invoices", partition=3, start=100, end=120),)
RESTORING = planned(
    moves=(
        PartitionMove(**ORDERS, before=900, after=None, appends=4_711, again=33),
        PartitionMove(**ORDERS | {"topic": "raw", "partition": 1}, before=77, after=55, again=22),
    ),
    messages=4_711,
    irrevocable=OUTPUTS,
    taken_ms=1,
)
REFUSAL = Refusal(
    code="group-has-members", what="consumer group accounts has 2 members", hint="stop all workers"
)
KEPT = {"retention.ms": "-1"}
MADE = (NewTopic("fork.staging.orders", "orders", 3, settings=KEPT, changed=KEPT),)
FORKING = planned(
    request=Request(namespace="shop", name="friday", fork="staging"),
    namespace="fork.staging.shop",
    apps=("fork.staging.accounts",),
    topics=MADE,
    messages=4_711,
    state=12,
    stored=17,
)
FORKED = done(FORKING, topics=("fork.staging.orders",), expires_ms=1_700_000_000_000)
