"""The check that this Faust is one that snapkafka can patch: at installation, before anything is touched (R15).

A hook that has another name or other arguments in another release would fail in the middle of an app's work. So the
hooks (`hooks`) are looked up in Faust's classes first, each by its name and, if a function of ours will replace it, by
the arguments with which Faust will call it. Nothing is created or called for that: it would finalise the app.

This cannot find a hook that keeps its name and arguments and changes its meaning.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from types import FunctionType, MethodType
from typing import Any, Final
from zlib import crc32

#: The schemes of the one client library that is hooked into.
TRANSPORTS: Final = frozenset({"kafka", "aiokafka"})
#: By class: the names of what is used of it, with its arguments where ours takes its place.
EXPECTED: Final[Mapping[str, tuple[str, ...]]] = {
    "faust.app.base:App": (
        "_new_producer()",
        "_new_conductor()",
        "_new_consumer()",
        "_new_web()",
        "on_start()",
        "on_stop()",
        "stream(channel, beacon, **kwargs)",
        "on_partitions_revoked",
        "on_rebalance_complete",
        "on_after_configured",
        "configured",
        "conf",
        "beacon",
        "sensors",
        "topics",
        "tables",
        "agents",
        "agent",
        "channel",
        "web",
        "consumer",
        "consumer_generation_id",
        "_producer",
        "_consumer",
        "_reply_consumer",
        "_leader_assignor",
    ),
    "faust.agents.replies:ReplyConsumer": ("add(correlation_id, promise)", "_fetchers", "_waiting"),
    "faust.assignor.leader_assignor:LeaderAssignor": ("_leader_topic_name",),
    "faust.channels:Channel": ("_subscribers",),
    "faust.sensors.base:SensorDelegate": (
        "on_stream_event_in(tp, offset, stream, event)",
        "on_stream_event_out(tp, offset, stream, event, state)",
        "on_message_out(tp, offset, message)",
        "on_table_get(table, key)",
        "on_table_set(table, key, value)",
        "on_table_del(table, key)",
    ),
    "faust.streams:Stream": (
        "clone(**kwargs)",
        "noack()",
        "take",
        "take_events",
        "take_with_timestamp",
        "noack_take",
        "__aiter__()",
        "app",
        "beacon",
        "channel",
        "current_event",
        "enable_acks",
        "prefix",
        "_on_stream_event_in",
        "_on_stream_event_out",
        "_on_message_out",
    ),
    "faust.tables.manager:TableManager": ("changelog_topics", "recovery"),
    "faust.tables.recovery:Recovery": (
        "_resume_streams(generation_id)",
        "_wait",
        "active_highwaters",
        "active_tps",
        "tp_to_table",
    ),
    "faust.tables.sets:ChangeloggedSetManager": ("send_changelog_event(key, operation, value)",),
    "faust.stores.base:SerializedStore": (),
    "faust.tables.table:Table": (
        "clone(**kwargs)",
        "copy()",
        "info()",
        "items()",
        "keys()",
        "values()",
        "on_changelog_event(event)",
        "on_rebalance(assigned, revoked, newly_assigned, generation_id)",
        "on_recovery_completed(active_tps, standby_tps)",
        "persisted_offset(tp)",
        "apply_changelog_batch(batch)",
        "changelog_topic_name",
        "data",
        "window",
        "_to_key",
        "_sensor_on_get",
        "_sensor_on_set",
        "_sensor_on_del",
    ),
    "faust.transport.conductor:Conductor": ("_build_handler(tp, channels)", "_tp_to_callback", "_tp_index"),
    "faust.transport.consumer:TransactionManager": ("_tps_to_transactional_ids",),
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread": ("_ensure_consumer", "thread_loop"),
    "faust.transport.drivers.aiokafka:Consumer": (
        "subscribe(topics)",
        "resume_partitions(tps)",
        "perform_seek()",
        "resume_flow()",
        "stop_flow()",
        "on_buffer_full(tp)",
        "on_buffer_drop(tp)",
        "_getmany(active_partitions, timeout)",
        "ack(message)",
        "assignment",
        "transactions",
        "_gap",
        "_is_changelog_tp",
        "_thread",
        "_unacked_messages",
    ),
    "faust.transport.drivers.aiokafka:Producer": (
        "send(topic, key, value, partition, timestamp, headers, *, transactional_id)",
        "_new_producer(transactional_id)",
        "buffer",
        "key_partition",
        "_producer",
    ),
    "faust.transport.producer:ProducerBuffer": ("put(fut)", "pending"),
    "faust.types:AgentT": (),
    "faust.types:StreamT": (),
    "faust.types.tuples:PendingMessage": ("headers",),
    "aiokafka.consumer:AIOKafkaConsumer": ("committed", "end_offsets", "position"),
    "aiokafka.producer:AIOKafkaProducer": (
        "abort_transaction()",
        "commit_transaction()",
        "send_offsets_to_transaction(offsets, group_id)",
        "stop()",
    ),
    "aiokafka.producer.message_accumulator:MessageBatch": (),
}
STARS: Final[Mapping[Any, str]] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
#: What somebody else's wrapper may take: all that is handed to it.
ANYTHING: Final = "*args, **kwargs"


def not_as_expected() -> list[str]:
    """List the entries of `EXPECTED` that this Faust and this aiokafka do not match, each with what they have
    instead."""
    return [
        owner + seam + what for owner, seams in EXPECTED.items() for seam, what in _different(owner, seams)
    ]


#: `annotationlib.Format.FORWARDREF`, where there is one.
FORWARD_REFERENCES: Final[Mapping[str, Any]] = {"format": 3} if sys.version_info >= (3, 14) else {}


def _different(owner: str, seams: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    module, _, name = owner.partition(":")
    try:
        cls = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        yield "", " is not there"
        return
    for seam in seams:
        attribute, called, arguments = seam.rstrip(")").partition("(")
        if not _has(cls, attribute):
            yield f".{attribute}", " is not there"
        elif called and (found := _arguments(getattr(cls, attribute))) not in (arguments, ANYTHING):
            yield f".{attribute}", f" takes ({found}), not ({arguments})"


def _has(cls: type, attribute: str) -> bool:
    """Return whether a class or its instances have an attribute: Faust declares most of them in the class, and sets
    the rest in instances."""
    return any(
        attribute in vars(base)
        or attribute in _annotated_in(base)
        or attribute in _names_in(vars(base).get("__init__"))
        for base in cls.__mro__
    )


def _annotated_in(cls: type) -> Iterable[str]:
    """Return the attributes that a class itself annotates. Since Python 3.14 they are worked out when asked for; a name
    that is only there for type checkers stays one."""
    return inspect.get_annotations(cls, **FORWARD_REFERENCES)


def _names_in(function: Any) -> tuple[str, ...]:
    """Return the attributes that a function reads or sets; none if it is not written in Python."""
    names: tuple[str, ...] = getattr(getattr(function, "__code__", None), "co_names", ())
    return names


def _arguments(function: Any) -> str:
    """Return the names of the arguments as in `EXPECTED`, without `self`. A wrapper counts as the function in it, if
    it names that."""
    found: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(name.startswith("*") for name in found):
            found.append("*")
        found.append(STARS.get(parameter.kind, "") + parameter.name)
    return ", ".join(found[found[:1] == ["self"] :])


def checksum(functions: Iterable[Any]) -> int | None:
    """Compute a checksum of the sources of functions and methods; None where one of them is wrapped or has no
    source."""
    found = 0
    for function in functions:
        plain = function.__func__ if type(function) is MethodType else function
        if type(plain) is not FunctionType:
            return None
        try:
            found = crc32(inspect.getsource(plain.__code__).encode(), found)  # its own: a wrapper has another
        except (OSError, TypeError):
            return None
    return found


#: Settings of an app that hold messages back, or send them by another producer, so that no cut can vouch for them.
REFUSED: Final = ("stream_publish_on_commit", "producer_threaded")


class UnusableError(Exception):
    """An app whose settings keep its workers out of snapshots."""


def refusal(app: Any) -> str:
    """Return why the settings of an app keep its workers out of snapshots; empty: they do not. It is configured."""
    conf = app.conf
    urls = [url for name in ("broker", "broker_consumer", "broker_producer") for url in getattr(conf, name)]
    if scheme := next((url.scheme for url in urls if url.scheme not in TRANSPORTS), ""):
        return f"the broker of this app is {scheme}://, and workers take part over kafka:// only"
    if name := next((name for name in REFUSED if getattr(conf, name)), ""):
        return f"this app has {name}=True, and workers take part without it only"
    return ""


def require_usable(app: Any) -> None:
    """Refuse an app by its settings. Asked when its worker has joined, so that the ledger names a worker that cannot
    take part.

    Raises:
        UnusableError: says why.
    """
    if why := refusal(app):
        raise UnusableError(why)
