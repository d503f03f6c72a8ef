"""R9: the assigned inputs, and where each starts, are reported before the loop gets a record of them.

The positions are those that the group has committed, or where the reset policy starts. The table is recovered first.
If the ledger does not answer in a short time, the loop goes on, and the process is absent until it does (R15).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from snapkafka.errors import BadInputError
from snapkafka.protocol.events import AssignedInput, InputsAssigned, InputsRevoked
from snapkafka.protocol.records import TopicPartition

from .recovery import Recovered, recover
from .running_events import LOOP

if TYPE_CHECKING:
    from .driver import PlainDriver
    from .running_events import Events
    from .table import Table


class Assignments:
    """The assignments of one loop.

    Args:
        host: whose machine is fed.
        reset: where an input without a committed offset starts, "earliest" or "latest"; empty: it must have one.
    """

    def __init__(self, host: PlainDriver, events: Events, table: Table | None, *, reset: str) -> None:
        self._host, self._events, self._table, self._reset = host, events, table, reset

    async def assigned(
        self, committed: Mapping[TopicPartition, int | None], *, generation: int, member: str
    ) -> dict[TopicPartition, int]:
        """Recover the table, announce these inputs, and return where each starts.

        Args:
            committed: the offsets that the group has committed; None: none.
            generation: of the group.
            member: the id of this process in it.

        Raises:
            SnapkafkaError: the table cannot be recovered, or where an input starts is unknown.
        """
        host = self._host
        host.feed(InputsRevoked())  # what starts from here on starts under this assignment
        found = Recovered()
        if self._table is not None:
            partitions = {tp.partition for tp in committed}
            found = await recover(host, self._table, partitions)
            self._table.replace(found.data)
        positions = await self._positions(committed)
        if host.absent or not host.started:
            return positions
        changelogs = () if self._table is None else found.changelogs(self._table)
        host.feed(
            InputsAssigned(
                generation=generation,
                member=member,
                inputs=tuple(
                    AssignedInput(
                        tp=tp, agents=(LOOP,), position=position, replay_until=found.effects_until(tp)
                    )
                    for tp, position in sorted(positions.items())
                ),
                changelogs=changelogs,
            )
        )
        await host.follower.for_inputs()
        return positions

    async def _positions(self, committed: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
        unknown = [tp for tp, offset in committed.items() if offset is None]
        if unknown and not self._reset:
            raise BadInputError(
                f"the group has committed no offset of {unknown[0]}, and its reset policy is an error",
                hint="commit where the loop is to start, or set auto.offset.reset",
            )
        starts = await self._starts(unknown)
        return {tp: starts[tp] if offset is None else offset for tp, offset in committed.items()}

    async def _starts(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        if not tps:
            return {}
        admin = self._host.admin
        return await (admin.log_starts(tps) if self._reset == "earliest" else admin.log_ends(tps))

    def revoked(self) -> None:
        """Forget the inputs: they are revoked."""
        self._events.on_revoked()
        self._host.feed(InputsRevoked())
        if self._table is not None:
            self._table.replace({})
