"""The names in a request to the broker, and whether a process of a fork may send it.

Everything that a client of aiokafka does is such a request, so the refusals here apply to producers, consumers and
admin clients alike, in every thread and event loop. A request of an unknown kind is refused.

Requests by their API key, as in `kafka.protocol` ("The Messages").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from snapkafka.errors import ForkIsolationError
from snapkafka.protocol.forking import of_fork, prefix_of

TOPIC: Final = "topic"
GROUP: Final = "consumer group"
TRANSACTION: Final = "transactional id"
#: Stands for a request that concerns the cluster, or all names of a kind.
CLUSTER: Final = "cluster"

#: The kind of a name, and the name.
Name = tuple[str, str]
Names = Callable[[Any], Iterable[Name]]

#: The number of topics among the kinds of resources with settings.
TOPIC_RESOURCE: Final = 2


def require_of_fork(fork: str, request: Any) -> None:
    """Check that every name in a request belongs to the fork.

    Args:
        request: in its encoded form, an aiokafka `RequestStruct`.

    Raises:
        ForkIsolationError: it has another name, changes the cluster, or is of an unknown kind or form.
    """
    what = type(request).__name__.partition("_v")[0]
    names = NAMES.get(request.API_KEY)
    if names is None:
        raise ForkIsolationError(
            f"request {what} (API key {request.API_KEY}) is unknown here: refused to send it in fork {fork}"
        )
    try:
        found = list(names(request))
    except (
        AttributeError,
        LookupError,
        TypeError,
    ) as error:  # another release of the client has it elsewhere
        raise ForkIsolationError(
            f"request {what} is not as expected ({error}): refused to send it in fork {fork}"
        ) from error
    for kind, name in found:
        if not _is_of_fork(fork, kind, name):
            raise ForkIsolationError(f"{kind} {name} is not of fork {fork}: refused to send {what}")


def _is_of_fork(fork: str, kind: str, name: str) -> bool:
    if kind == TOPIC:
        return of_fork(fork, name)
    return kind != CLUSTER and name.startswith(prefix_of(fork))


# -- what a field holds -----------------------------------------------------------------------------------------------


def _none(request: Any) -> Iterator[Name]:
    """Return no names: the request changes nothing, and reads no record, position or setting of a topic."""
    return iter(())


def _topics(field: str = "topics") -> Names:
    """Read the names in a list of topics, each a name or a tuple that begins with one; None stands for all topics,
    which are only read."""

    def names(request: Any) -> Iterator[Name]:
        for item in getattr(request, field) or ():
            yield TOPIC, item if isinstance(item, str) else item[0]

    return names


def _since(version: int, names: Names) -> Names:
    """Read names from a field that a version of the request introduced."""
    return lambda request: names(request) if version <= request.API_VERSION else ()


def _metadata(request: Any) -> Iterator[Name]:
    """Yield topics: names up to version 9, (id, name, tags) from then on."""
    for item in request.topics or ():
        name = item if isinstance(item, str) else item[1]
        yield (TOPIC, name) if name else (CLUSTER, "topic by its id")


def _one(kind: str, field: str) -> Names:
    def names(request: Any) -> Iterator[Name]:
        if (name := getattr(request, field)) is not None:
            yield kind, name

    return names


def _groups(field: str) -> Names:
    return lambda request: ((GROUP, name) for name in getattr(request, field))


def _settings(*, reads: bool) -> Names:
    """Read the names of resources with settings: topics by name; settings of brokers and of the cluster may be read."""

    def names(request: Any) -> Iterator[Name]:
        for kind, name, *_ in request.resources:
            if kind == TOPIC_RESOURCE:
                yield TOPIC, name
            elif not reads:
                yield CLUSTER, f"resource {name}"

    return names


def _all(*parts: Names) -> Names:
    return lambda request: (name for part in parts for name in part(request))


_TRANSACTION: Final = _one(TRANSACTION, "transactional_id")

#: API key -> the names in a request of that kind. Others change the cluster as a whole (its access rules, the places
#: of replicas): a request of a kind that is not here is refused.
NAMES: Final[dict[int, Names]] = {
    0: _all(_since(3, _TRANSACTION), _topics()),  # Produce
    1: _all(_topics(), _since(7, _topics("forgotten_topics_data"))),  # Fetch
    2: _topics(),  # ListOffsets
    3: _metadata,
    8: _all(_one(GROUP, "consumer_group"), _topics()),  # OffsetCommit
    9: _all(_one(GROUP, "consumer_group"), _topics()),  # OffsetFetch
    10: _none,  # FindCoordinator: which broker to ask
    11: _one(GROUP, "group"),  # JoinGroup
    12: _one(GROUP, "group"),  # Heartbeat
    13: _one(GROUP, "group"),  # LeaveGroup
    14: _one(GROUP, "group"),  # SyncGroup
    15: _none,  # DescribeGroups: preflight has to find external readers
    16: _none,  # ListGroups
    17: _none,  # SaslHandshake
    18: _none,  # ApiVersions
    19: _topics("create_topic_requests"),  # CreateTopics
    20: _topics(),  # DeleteTopics
    21: _topics(),  # DeleteRecords
    22: _TRANSACTION,  # InitProducerId
    24: _all(_TRANSACTION, _topics()),  # AddPartitionsToTxn
    25: _all(_TRANSACTION, _one(GROUP, "group_id")),  # AddOffsetsToTxn
    26: _TRANSACTION,  # EndTxn
    28: _all(_TRANSACTION, _one(GROUP, "group_id"), _topics()),  # TxnOffsetCommit
    29: _none,  # DescribeAcls
    32: _settings(reads=True),  # DescribeConfigs
    33: _settings(reads=False),  # AlterConfigs
    36: _none,  # SaslAuthenticate
    37: _topics("topic_partitions"),  # CreatePartitions
    42: _groups("groups_names"),  # DeleteGroups
    44: _settings(reads=False),  # IncrementalAlterConfigs
    46: _none,  # ListPartitionReassignments
    48: _none,  # DescribeClientQuotas
    60: _none,  # DescribeCluster
    69: _none,  # ConsumerGroupDescribe
}
