"""The ledger as a process of the simulator uses it: it writes and reads records, waits for answers, or goes on
without them (R15). Each is a step of its own."""

from __future__ import annotations

from collections import deque

from snapkafka.protocol.actions import Hold, StartTimer
from snapkafka.protocol.events import (
    Absence,
    Joined,
    LedgerRead,
    MarkerMet,
    RanWithout,
    RecordMet,
    TimerExpired,
)
from snapkafka.protocol.records import NOBODY, Hello, InputTopic, LedgerRecord, Report, Table, TailLost

from .broker_log import SimStored
from .sending import Sender
from .surroundings import Surroundings
from .world_plan import App


class LedgerUser(Sender):
    """The part of a process that uses the ledger."""

    def __init__(self, world: Surroundings, number: int, app: App, *, without: bool, late: bool) -> None:
        super().__init__(world, number, app)
        self.launched_at = len(world.broker.ledger) if late else 0  # nothing of it ran before
        self.read = self.seen = 0  # of the ledger; `seen`: read, or written and acknowledged
        self.lost: int | None = None  # from here on, of that, the ledger has lost it
        self.deaf = False  # it reads the ledger no more
        self.posts: deque[LedgerRecord] = deque()
        self.timers: set[int] = set()
        #: Up to where the ledger should have been read, and did not answer (R15).
        self.missed: int | None = None
        self.impatient = False  # its inputs run unannounced
        self.hung = False  # the ledger answers nothing, and nothing arrives there
        self.late = late  # the ledger does not take its Hello yet, and it has not waited for that
        self.greeting = False  # it said so late, and has not read it yet: it has no id to say `Bye` with
        self.bare = without or late

    # -- the hooks of the loop ------------------------------------------------------------------------------------

    def append(self, record: LedgerRecord) -> None:
        """Write it later."""
        self.posts.append(record)

    def start_timer(self, action: StartTimer) -> None:
        """Let it expire later, or never."""
        self.timers.add(action.epoch)

    def append_hello(self, was: int = NOBODY) -> None:
        """Join, maybe again."""
        app, world = self.app, self.world
        hello = Hello(
            n=world.number(),
            app=app.name,
            pid=self.number,
            inputs=tuple(
                InputTopic(topic=t, partitions=world.partitions[t], topic_id=world.topic_id(t))
                for t in app.topics
            ),
            tables=(
                Table(
                    name="t",
                    changelog=app.changelog,
                    partitions=max((world.partitions[t] for t in app.topics), default=0),
                ),
                *((Table(name="g", changelog="global", partitions=1),) if world.plan.global_table else ()),
            ),
            was=was,
        )
        self.feed(Joined(hello=hello))
        self.posts.append(hello)

    @property
    def joined(self) -> bool:
        return self.machine.process is not None and self.machine.inputs.ready

    @property
    def knows_of_a_loss(self) -> bool:
        """Return whether it has read records that the ledger has lost, and has not reported the loss yet."""
        return self.lost is not None or any(isinstance(record, TailLost) for record in self.posts)

    # -- the ledger --------------------------------------------------------------------------------------------

    def _post(self, _: object) -> None:
        record = self.posts.popleft()
        if isinstance(record, Report) and self.world.chance("lose-report"):
            self.world.count("lost_reports")
            return
        offset = self.world.append_to_ledger(record)
        self.seen = max(self.seen, offset + 1)

    def _ledger(self, _: object) -> None:
        self.read += 1
        self.seen = max(self.seen, self.read)
        offset = self.read - 1
        self.feed(LedgerRead(offset=offset, record=self.world.broker.ledger[offset]))
        if self.bare and self.machine.process is not None:
            self.bare = self.greeting = False
            self.world.count("late_hellos")
            self.feed(RanWithout(since=self.launched_at))
        self.made_up_for()

    def _notice(self, _: object) -> None:
        """Find that the ledger is not the one that this process has read."""
        assert self.lost is not None
        self.world.count("losses_noticed")
        said = TailLost(n=self.world.number(), since=self.lost)
        self.lost, self.deaf = None, True
        self.stand_down()
        self.posts.appendleft(said)

    def _late(self, _: object) -> None:
        self.late, self.greeting = False, True
        self.append_hello()

    def stand_down(self) -> None:
        """Stand down after a fault of ours: the worker runs on without taking part."""
        self.world.count("stood_down")
        self.posts.clear()
        self.do(self.machine.stand_down())
        self.bare = True

    def made_up_for(self) -> None:
        """Ask the machine again for everything, once it was fed what it had to do without."""
        if self.missed is not None and self.read >= self.missed:
            self.missed = None
        if self.joined:
            self.impatient = False
        if self.machine.absent and self.missed is None and not self.impatient:
            self.feed(Absence(over=True))

    def go_on(self, *, missed: int | None = None) -> None:
        """Stop waiting (R15). `missed`: see there; None: for the announcement of the inputs."""
        if missed is None:
            self.impatient = True
        else:
            self.missed = max(missed, self.missed or 0)
        self.feed(Absence())

    def is_ours(self, record: SimStored) -> bool:
        """Return whether a record has a header of this ledger. Epochs of another one mean nothing."""
        return record.process >= 0 and not record.stripped and record.ledger == self.world.broker.ledger_id

    def meets(self, record: SimStored, how: str) -> bool:
        """Meet a record before a consumer, a table or a reply (`how`) takes it in (R2); return whether it is held back
        (R16). A record without a header, or with that of another ledger, is external."""
        if not self.is_ours(record):
            return False
        if record.marker:
            event: MarkerMet | RecordMet = MarkerMet(epoch=record.epoch)
        else:
            event = RecordMet(epoch=record.epoch, may_wait=how == "fetch")
        asked = self.feed(event)
        if asked is None or isinstance(asked, Hold):
            return asked is not None
        if self.machine.absent or self.hung or self.world.chance("silent-ledger"):
            self.world.count("silent_ledgers")
            self.go_on(missed=min(asked.offset + 1, len(self.world.broker.ledger)))
            self.made_up_for()
            return False
        self.read_ledger_to(asked.offset)
        return isinstance(self.feed(event), Hold)

    def read_ledger_to(self, offset: int) -> None:
        while self.read <= min(offset, len(self.world.broker.ledger) - 1):
            self._ledger(None)

    def expire(self, epoch: int) -> None:
        """End the time to live of a snapshot."""
        self.timers.discard(epoch)
        self.feed(TimerExpired(epoch=epoch))
