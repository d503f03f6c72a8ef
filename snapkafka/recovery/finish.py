"""The rest of a plan that is past its commit point: the groups are set, and workers run. It needs only the ledger."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from snapkafka.errors import OvertakenError, RestoreFailedError
from snapkafka.kafka.ledger.reading import Opened
from snapkafka.protocol.records import AgentPosition, Bye, LedgerRecord, Restore
from snapkafka.protocol.restores import RESTORED_METADATA, RestoreView

from .plan import Plan
from .positions import group_offsets
from .stored_rows import GroupAdmin, Hold

#: The metadata of an offset that a restore has committed: a worker that cannot read the ledger then does not start.
NOTE: Final = RESTORED_METADATA + "{plan}"


@dataclass(slots=True, kw_only=True)
class Commit:
    """The rest of a plan that is past its commit point.

    Args:
        work: the ledger of the target cluster.
        holds: the held consumer groups, by name.
        notify: called with each phase as it begins.
        crash: for tests: called with the name of each step before it is done.
    """

    work: Opened
    admin: GroupAdmin
    holds: Mapping[str, Hold]
    plan: Plan
    who: str = ""
    notify: Callable[[str], None] = lambda text: None
    crash: Callable[[str], None] = lambda step: None
    owned: int = -1  # the ledger offset of our latest `begun`

    async def finish(self) -> RestoreView:
        """Set the groups, and end the plan.

        Raises:
            OvertakenError: another run has taken over; it changed nothing more.
            RestoreFailedError: the groups are not where they were set.
        """
        await self.claim()
        await self.set_groups(list(self.view().positions()))
        await self.end()
        return self.view()

    async def claim(self) -> None:
        """Record in the ledger that this run continues the plan."""
        view = self.work.reading.state.restores.views.get(self.plan.plan)
        if view is None or not view.open:
            state = "was finished by another run" if view is not None else "is unknown"
            raise OvertakenError(
                f"plan {self.plan.plan} {state}: nothing was changed", hint="see `snapkafka list`"
            )
        self.owned = await self.append(
            Restore(
                n=number(),
                plan=view.plan,
                stage="begun",
                snapshot=view.begun.snapshot,
                attempt=view.begun.attempt,
                epoch=view.begun.epoch,
                apps=view.apps,
                who=self.who,
                origin=view.begun.origin,
            )
        )

    async def set_groups(self, positions: list[AgentPosition]) -> None:
        """Set the offsets of each group as its member, and read them back."""
        await self.phase("groups")
        note = NOTE.format(plan=self.plan.plan)
        for app, offsets in sorted(group_offsets(positions).items()):
            await self.require_mine()
            await self.holds[app].commit(offsets, note)
            there = await self.admin.committed(app)
            for tp, offset in offsets.items():
                if there.get(tp, (-1, ""))[0] != offset:
                    raise RestoreFailedError(
                        f"group {app} has committed {there.get(tp, (-1, ''))[0]} for {tp} instead of {offset}"
                    )

    async def end(self) -> None:
        """Record that the plan is done: workers run."""
        await self.phase("done")
        view = self.view()
        if view.author in {living.process for living in self.work.reading.state.living()}:
            await self.append(Bye(process=view.author, n=0))
        await self.append(Restore(n=number(), plan=view.plan, stage="done", author=view.author))

    # -- the ledger -------------------------------------------------------------------------------------------

    def view(self) -> RestoreView:
        """Find the plan in the ledger."""
        view = self.work.reading.state.restores.views.get(self.plan.plan)
        if view is None:
            raise OvertakenError(
                f"another recovery was begun at the same time: {self.work.reading.state.restores.open}",
                hint="let it finish",
            )
        return view

    async def require_mine(self) -> None:
        """Read the ledger to its end, and check that the plan is still open, and this run's.

        Raises:
            OvertakenError: it is not.
        """
        await self.work.catch_up()
        view = self.view()
        if not view.open:
            raise OvertakenError(
                f"plan {view.plan} is {view.stage} by another run: this one changed nothing more",
                hint="see `snapkafka list`; the workers can be started when it is done",
            )
        if view.owner != self.owned:
            raise OvertakenError(
                f"plan {view.plan} was taken over by another run: this one changed nothing more",
                hint="let that one finish",
            )
        for hold in self.holds.values():
            hold.require()

    async def append(self, record: LedgerRecord) -> int:
        """Append to the ledger, and read it up to that."""
        offset = await self.work.ledger.append(record)
        await self.work.catch_up(to=offset + 1)
        return offset

    async def phase(self, name: str) -> None:
        """Begin a step, if the plan is still this run's."""
        self.crash(name)
        await self.require_mine()
        self.notify(name)


def number() -> int:
    """Draw a random number for a ledger record."""
    return random.getrandbits(62)  # of 63; chunks of one record count up from it
