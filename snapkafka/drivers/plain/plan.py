"""What takes part in snapshots: the clients of a loop, its inputs and its state; and what it states about that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from snapkafka.config import Config
from snapkafka.errors import BadInputError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.protocol import Hello
from snapkafka.protocol import Table as TableFact

from ..hello import hello_from_here, input_of, open_changelog
from .table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What takes part: the clients of a loop, its inputs and its state.

    `group`: its consumer group, and its app in the snapshot. `on_assign`, `on_revoke`: the loop's own callbacks, as its
    library has them, after ours at an assignment and before ours at a revocation.
    """

    config: Config
    group: str
    consumer: Any = None
    producer: Any = None
    inputs: tuple[str, ...] = ()
    table: Table | None = None
    on_assign: Any = None
    on_revoke: Any = None

    @property
    def clients(self) -> list[Any]:
        return [client for client in (self.consumer, self.producer) if client is not None]

    def require_usable(self, *, group: str | None, commits: str, unequal: str) -> None:
        """Refuse what cannot take part, by name.

        Args:
            group: that of the consumer.
            commits: what to do as the consumer commits by itself; empty: it does not.
            unequal: what to do as a member may have other partitions of each input; empty: it has the same ones.
        """
        self.config.validate(BadInputError)
        if not self.clients:
            raise BadInputError("a participant needs a consumer or a producer", hint="give it one of them")
        if (self.consumer is None) != (not self.inputs):
            raise BadInputError(
                "a participant with a consumer needs its inputs, and one without has none",
                hint='participant(consumer=c, inputs=["orders"]): it subscribes to them',
            )
        if self.table is not None and len(self.clients) < 2:
            raise BadInputError(
                f"table {self.table.name} needs a consumer and a producer",
                hint="its partitions are those of the inputs, its changes are records of the producer",
            )
        if self.consumer is None:
            return
        if commits:
            raise BadInputError(
                "the consumer commits by itself, also records that are not processed", hint=commits
            )
        if group != self.group:
            raise BadInputError(
                f"the consumer is in group {group}, not in {self.group}",
                hint="leave group= out, or make it that of the consumer",
            )
        if unequal and self.table is not None and len(self.inputs) > 1:
            raise BadInputError(f"table {self.table.name} needs equal partitions of all inputs", hint=unequal)

    async def hello(self, admin: KafkaTopicAdmin, reset: str) -> Hello:
        """Return what the loop states about itself (R11). The changelog of its table is created where it is missing."""
        tables: tuple[Any, ...] = ()
        described = await admin.describe_topics(list(self.inputs)) if self.inputs else {}
        if missing := sorted(set(self.inputs) - described.keys()):
            raise BadInputError(f"there is no topic {missing[0]}", hint="create it first")
        if self.table is not None:
            counts = {described[topic].partitions for topic in self.inputs}
            if len(counts) != 1:
                raise BadInputError(
                    f"table {self.table.name} needs inputs of one number of partitions, not {sorted(counts)}",
                    hint="a write goes to the changelog partition of its event: create the inputs alike",
                )
            fact = TableFact(
                name=self.table.name,
                changelog=self.table.changelog,
                partitions=counts.pop(),
                key_codec="json",
                value_codec="json",
                copartitioned=True,
                kind="Table",
            )
            tables = await open_changelog(admin, fact)
        return hello_from_here(
            self.group,
            mode=self.config.mode,
            inputs=tuple(input_of(topic, described[topic], "raw", "raw") for topic in self.inputs),
            tables=tables[:1],
            retention=tables[1:],
            reset=reset if self.inputs else "",
        )
