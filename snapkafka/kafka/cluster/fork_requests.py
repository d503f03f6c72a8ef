"""The names in a request to the broker, and whether a process of a fork may send it.

Everything that a client of aiokafka does is such a request, so the refusals here apply to producers, consumers and
admin clients alike, in every thread and event loop. A request tells its fields, so no kind is taken apart by hand:
every text in it is a name of the fork, or stands in a field that holds no name. What is unknown is refused.

Requests by their API key, as in `kafka.protocol` ("The Messages").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aiokafka.protocol.types import Array, Schema

from snapkafka.errors import ForkIsolationError
from snapkafka.protocol.forking import of_fork, prefix_of

#: Requests that change nothing, and read no record, position or setting of a topic, whatever they name: coordinators
#: (10), groups (15, 16, 69), logins (17, 36), versions (18), access rules (29), reassignments (46), quotas (48).
FREE: Final = frozenset({10, 15, 16, 17, 18, 29, 36, 46, 48, 69})
#: Requests that are sent for the fork's own names. Those in neither set concern the cluster as a whole.
CHECKED: Final = frozenset(
    {0, 1, 2, 3, 8, 9, 11, 12, 13, 14, 19, 20, 21, 22, 24, 25, 26, 28, 32, 33, 35, 37, 42}
)
#: Reads settings, those of brokers and of the cluster, too.
DESCRIBE_CONFIGS: Final = 32
#: The number of topics among the kinds of resources with settings.
TOPIC_RESOURCE: Final = 2

TOPIC: Final = "topic"
TRANSACTION: Final = "transactional id"
#: A field of a request -> the kind of the names that it holds.
NAMES: Final = {
    **dict.fromkeys(("topic", "topics", "name"), TOPIC),
    **dict.fromkeys(("group", "groups_names", "consumer_group", "group_id"), "consumer group"),
    "transactional_id": TRANSACTION,
}
#: Fields with texts that name nothing.
NO_NAMES: Final = frozenset(
    {
        *("member", "member_id", "consumer_id", "group_instance_id"),
        *("kind", "protocol_type", "protocol_name"),
        *("metadata", "note", "rack_id", "config_key", "config_name", "config_names", "config_value"),
    }
)


def require_of_fork(fork: str, request: Any) -> None:
    """Check that every name in a request belongs to the fork.

    Args:
        request: in its encoded form, an aiokafka `RequestStruct`.

    Raises:
        ForkIsolationError: it has another name, changes the cluster, or is of an unknown kind or form.
    """
    what, key = type(request).__name__.partition("_v")[0], request.API_KEY
    if key in FREE:
        return
    if key not in CHECKED:
        raise ForkIsolationError(
            f"request {what} (API key {key}) is unknown here: refused to send it in fork {fork}"
        )
    try:
        found = list(_texts("", request.SCHEMA, [getattr(request, name) for name in request.SCHEMA.names]))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ForkIsolationError(
            f"request {what} is not as expected ({error}): refused to send it in fork {fork}"
        ) from error
    for field, text in found:
        kind = NAMES.get(field, f"cluster {field}")
        allowed = key == DESCRIBE_CONFIGS if field == "resource" else field in NO_NAMES
        if kind == TOPIC:
            allowed = of_fork(fork, text or "")
        elif field in NAMES:
            allowed = text.startswith(prefix_of(fork)) if text is not None else kind == TRANSACTION
        if not allowed:
            raise ForkIsolationError(f"{what} refused: {kind} {text} is not of fork {fork}", name=text)


def _texts(field: str, form: Any, value: Any) -> Iterator[tuple[str, str | None]]:
    """Yield the texts of a request with their fields. A list that is absent stands for all topics, which are only
    read."""
    if isinstance(form, Schema):
        fields = dict(zip(form.names, zip(form.fields, value, strict=True), strict=True))
        if "resource_type" in fields:
            of_topic = fields["resource_type"][1] == TOPIC_RESOURCE
            yield TOPIC if of_topic else "resource", fields.pop("resource_name")[1]
        for name, (of, part) in fields.items():
            yield from _texts(name, of, part)
    elif isinstance(form, Array):
        for item in value or ():
            yield from _texts(field, form.array_of, item)
    elif isinstance(value, str) or (value is None and field in NAMES):
        yield field, value
