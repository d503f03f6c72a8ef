"""A small world that is restored again and again, to check that each agent processes each message once after a
snapshot.

One app with two agents on one input, a second app that sends into it, and somebody external who does, too. Events are
one step here; what is explored is the restore: it crashes between any two steps and is run again, is suspended and
wakes up while another goes on or long after it, is aborted, or is replaced by a restore of another snapshot; workers of
before wake up, too, and append what they had in hand; workers are started at any moment, also one without snapkafka.
The broker may have deleted what the group has committed by then, and the beginning of the input between a snapshot and
its restore: then that is refused, or shown to need nothing of it, and another snapshot is restored. At last the input
may be recreated. The fold of the
ledger is the real one (`protocol.restores`), and so are the rules that workers go by.

The oracle knows no header: in the end an agent has processed what its state held at the cut, the messages in flight to
it then, every external message that it had not processed, and all messages since the restore; each of them once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

from snapkafka.protocol.offsets import NOBODY, AgentPosition, TopicId
from snapkafka.protocol.records import RESTORE, Bye, Restore
from snapkafka.protocol.restores import Rule
from tests.protocol.world import log_ends

from .restore_world import AGENTS, CHANGELOG, INPUT, Cut, SimMessage, SimWritten, SmallWorld

APPS: Final = ("p", "q")
#: What can be left out, for proof that this world finds it.
BREAKS: Final = (
    *("stamp", "barrier", "commit-point", "commit-last", "hold", "positions", "state"),
    *("lease", "groups", "abort", "expired", "recreated", "gone"),
)
RESTORES: Final = 3
STEPS: Final = 60
STEPS_OF_A_RESTORE: Final = [
    "tool",
    "crash",
    "suspend",
    "wake",
    "start",
    "external",
    "bare",
    "abort",
    "replace",
]
#: From here on nothing disturbs a restore any more: it has had bad luck, and each run of it appends some.
CALM_FROM: Final = 2_000
#: No world comes near.
LOG_MAX: Final = 4_000
#: How often the group is deleted with its offsets, before a worker has started after a restore.
EXPIRES: Final = 0.3
#: How often the input is recreated in the end, and how many messages come into it then.
RECREATED: Final = 0.3
#: How often the beginning of the input is deleted before a restore, and before a step of one.
DELETED: Final = 0.5
DELETED_MEANWHILE: Final = 0.01
#: How often something else goes on between two messages that a restore appends.
PAUSE: Final = 0.15
#: How often a worker stops in good order once its app was restored, and something of before wakes up.
STOPS: Final = 0.1


@dataclass
class RestoreWorld(SmallWorld):
    """The world, which is restored. `run` plays it."""

    def run(self) -> list[str]:
        """Run, be restored, and run to the end of the input; several times. Return the violations."""
        self.start()
        for _ in range(RESTORES):
            for _ in range(STEPS):
                self.step()
            if not self.cuts:
                self.take_cut()
            cut = self.rng.choice(self.cuts)
            if self.rng.random() < DELETED:
                self.delete()
            cut = self.restore(self.possible(cut))
            if self.worker is None and self.rng.random() < EXPIRES:
                self.committed = None
                self.counts["expired"] += 1
            if len(self.log) > LOG_MAX:
                self.wrong.append("each run of the restore appends again what the last one did")
                return self.wrong
            while self.worker is None or self.worker.at < len(self.log):
                self.step_of_worker()
                if self.worker is not None and self.rng.random() < STOPS:
                    self.stop_in_order()
            self.judge(cut)
        if self.rng.random() < RECREATED:
            self.recreate()
        return self.wrong

    # -- the restore ----------------------------------------------------------------------------------------------

    def delete(self) -> None:
        """Delete the beginning of the input, as retention does: nothing that the newest snapshot needs."""
        self.begin = max(self.begin, self.rng.randint(0, min(self.cuts[-1].positions.values())))

    def possible(self, cut: Cut) -> Cut:
        """Choose the newest snapshot in place of one whose restore is refused."""
        if not self.lacks(cut):
            return cut
        self.counts["refused"] += 1
        return self.cuts[-1]

    def lacks(self, cut: Cut) -> bool:
        """Return whether external records that a restore has to read again may be gone, by the rule of the tool."""
        position = min(cut.positions.values())
        if self.begin <= position or "gone" in self.broken:
            return False
        by_all = {
            at for at in range(position, self.begin) if all(self.has_started(cut, it, at) for it in AGENTS)
        }
        lost = not by_all.union(cut.in_flight).issuperset(range(position, self.begin))
        self.counts["nothing_lacks"] += not lost
        return lost

    def has_started(self, cut: Cut, agent: str, offset: int) -> bool:
        return offset < cut.positions[agent] or offset in cut.skipped[agent]

    def stop_in_order(self) -> None:
        """Let a worker commit what it has processed, and stop; suspended ones run on meanwhile."""
        assert self.worker is not None
        self.committed, self.worker = self.worker.at, None
        self.counts["stopped_in_order"] += 1
        self.wake()

    def restore(self, cut: Cut) -> Cut:
        """Restore until it is done, while everything else runs on; return the cut that was restored in the end."""
        plan = f"plan {self.number()}"
        if self.worker is not None:
            self.asleep.append(self.worker)
        self.asleep_senders.append(self.sender)
        self.worker = None
        tool = self.tool(plan, cut)
        views = self.ledger.restores.views
        while plan not in views or self.ledger.restores.open is not None:
            if len(self.log) > LOG_MAX:
                return cut
            view = self.ledger.restores.open
            if self.rng.random() < DELETED_MEANWHILE:
                self.delete()
            if view is not None and view.plan != plan and plan in views:
                # A suspended run has woken up in time.
                cut, plan, self.holder = self.planned[view.plan], view.plan, None
                tool = self.tool(plan, cut)
            if self.lacks(cut):  # its runs end by that name
                self.counts["gone_meanwhile"] += 1
                self.holder = None
                cut, plan = self.cuts[-1], f"plan {self.number()}"
                tool = self.tool(plan, cut, "" if view is None else view.plan)
            step = self.rng.choices(STEPS_OF_A_RESTORE, (30, 1, 1, 5, 1, 1, 1, 0.3, 0.3))[0]
            match step if len(self.log) < CALM_FROM else "tool":
                case "tool":
                    if next(tool, "over") == "over":
                        self.holder = None
                        tool = self.tool_again(plan, cut)
                case "crash" | "suspend":
                    self.counts[step] += 1
                    self.asleep_tools += [tool] if step == "suspend" else []
                    self.holder = None  # as soon as its session is over
                    tool = self.tool_again(plan, cut)
                case "bare":
                    self.bare()
                case "abort":
                    if self.abort():
                        return self.restore(cut)
                case "replace":
                    if view is not None:
                        self.counts["replaced"] += 1
                        self.holder = None
                        cut = self.possible(self.rng.choice(self.cuts))
                        plan = f"plan {self.number()}"
                        tool = self.tool(plan, cut, view.plan)
                case "wake":
                    self.wake()
                case "start":
                    self.step_of_worker()
                case _:
                    self.external()
            self.stop_who_runs()
        self.holder = None
        self.sender = self.hello("q")
        for _ in range(4):
            self.wake()
        return cut

    def bare(self) -> None:
        """Start a worker without snapkafka in the middle of it, if its group lets it in, and let it process one
        event."""
        view = self.ledger.restores.open
        if view is None:
            return
        if self.holder is not None and "groups" not in self.broken:
            self.counts["kept_out"] += 1
            return
        self.counts["bare"] += 1
        self.changelog.append(SimWritten("x", (-self.fresh(),), NOBODY))
        # It is deleted only behind a restore, and a worker has started since.
        assert self.committed is not None
        self.committed += self.committed < len(self.log)

    def abort(self) -> bool:
        """Give the open restore up; return whether it is over. Then workers start as if it had never begun."""
        view = self.ledger.restores.open
        if view is None:
            return False
        if "abort" in self.broken:
            view.appended.clear()
        self.say(view.plan, "aborted")
        if view.open:
            self.counts["not_aborted"] += 1
            return False
        self.counts["aborted"] += 1
        tools = {
            p for p, it in self.ledger.processes.items() if it.hello.mode == RESTORE and p > view.begun_at
        }
        writers = {message.process for message in self.log} | {it.process for it in self.changelog}
        if tools & writers:
            self.wrong.append(f"{view} was aborted, and has appended records that a worker takes in")
        return True

    def stop_who_runs(self) -> None:
        """Stop a worker that had started at the same moment as the restore when it reads of it, even if it is over by
        then."""
        if self.worker is None or "hold" in self.broken:
            return
        restores = self.ledger.restores
        over = restores.restored("p") != self.worker.runs_on and "over" not in self.broken
        if restores.holds("p") or over:
            self.counts["stopped"] += 1
            self.asleep.append(self.worker)
            self.worker = None

    def wake(self) -> None:
        """Let something older run on for a moment: a worker, a sender, a restore."""
        if self.asleep and self.rng.random() < 0.4:
            worker = self.rng.choice(self.asleep)
            worker.state["x"] = (*worker.state["x"], -self.fresh())
            self.changelog.append(SimWritten("x", worker.state["x"], worker.process))
            self.counts["late_writes"] += 1
        elif self.asleep_senders and self.rng.random() < 0.5:
            self.log.append(SimMessage(-self.fresh(), self.rng.choice(self.asleep_senders)))
            self.counts["late_sends"] += 1
        elif self.asleep_tools:
            tool, holder = self.rng.choice(self.asleep_tools), self.holder
            for _ in range(self.rng.randint(1, 12)):
                next(tool, None)
                self.counts["late_steps"] += 1
            self.holder = holder  # it falls asleep again, and what it may have held is over

    def say(self, plan: str, stage: str, **fields: object) -> int:
        record = Restore(n=self.number(), plan=plan, stage=stage, apps=APPS, **fields)  # type: ignore[arg-type]
        view = self.ledger.restores.open
        if "commit-point" in self.broken and stage in ("appending", "done") and view is not None:
            view.author = record.author  # whoever comes first, not whom the latest `begun` names
        return self.append(record)

    def tool(self, plan: str, cut: Cut, replaces: str = "") -> Iterator[None]:
        """Run a plan as it is confirmed now."""
        self.planned[plan] = cut
        return self.steps(plan, cut, replaces, self.facts())

    def tool_again(self, plan: str, cut: Cut) -> Iterator[None]:
        """Run a plan once more; it replaces whatever other plan is open by now."""
        view = self.ledger.restores.open
        return self.tool(plan, cut, "" if view is None or view.plan == plan else view.plan)

    def facts(self) -> tuple[frozenset[str], str]:
        """Return the plans that the ledger names, and the one that is open: a change of that is another plan."""
        view = self.ledger.restores.open
        return frozenset(self.ledger.restores.views), "" if view is None else view.plan

    def steps(
        self, plan: str, cut: Cut, replaces: str, confirmed: tuple[frozenset[str], str]
    ) -> Iterator[None]:
        """Yield between the steps of a restore; it may stop at any `yield` for ever.

        Args:
            confirmed: see `facts`, when this one was confirmed.
        """
        restores, me = self.ledger.restores, object()
        while self.holder is not None:
            yield
        self.holder = me
        if plan not in restores.views and confirmed != self.facts():
            return  # the plan has changed
        owned = self.say(plan, "begun", replaces=replaces)
        yield
        if plan not in restores.views:
            return
        view = restores.views[plan]

        def mine() -> bool:
            return view.open and (view.owner == owned or "commit-point" in self.broken)

        if not mine():
            return
        author = self.hello("snapkafka-restore", RESTORE)
        yield
        if not mine():
            return
        owned = self.say(plan, "begun", author=author)
        yield
        if not mine():
            return
        base, state_base = len(self.log), len(self.changelog)
        ends = log_ends((INPUT, base), (CHANGELOG, state_base))
        yield
        if not mine():
            return
        self.say(plan, "appending", author=author, ends=ends)
        positions = yield from self.channels(cut, author, base)
        if "state" not in self.broken:
            for agent in AGENTS:
                self.changelog.append(SimWritten(agent, cut.state[agent], author))
                yield

        def others() -> bool:
            """Return whether another process has written above the bases."""
            found = any(it.process not in (author, NOBODY) for it in self.log[base:]) or any(
                it.process != author for it in self.changelog[state_base:]
            )
            self.counts["others"] += found
            return found and not {"groups", "commit-point"} & self.broken  # the second net of both

        if others():
            return
        ids = (TopicId(topic=INPUT.topic, topic_id=self.topic_id),)
        if "commit-last" in self.broken:
            self.say(plan, "done", author=author, ends=ends, positions=positions, topics=ids)
        elif not mine():
            return
        yield  # it may be suspended between the question and the request
        if self.holder is not me and "lease" not in self.broken:
            return  # the group does not take it
        self.committed = min(it.offset for it in positions)
        self.counts["set"] += 1
        yield
        if not mine() or others() or self.lacks(cut):
            return
        self.append(Bye(process=author, n=self.number()))
        self.say(plan, "done", author=author, ends=ends, positions=positions, topics=ids)

    def channels(self, cut: Cut, author: int, base: int) -> Generator[None, None, tuple[AgentPosition, ...]]:
        """Append the messages in flight and the external records of their range, in their order; if there are only
        external records, the positions go back."""
        lowest = min(cut.positions.values())
        sources = [
            (offset, message.id)
            for offset, message in enumerate(self.log[:base])
            if offset >= lowest
            and (offset >= self.begin or offset in cut.in_flight)
            and (cut.in_flight.get(offset) == message.id if message.process != NOBODY else True)
            and not (message.process != NOBODY and offset >= cut.end)
        ]
        there = self.log[max(lowest, self.begin) : base]
        stored = any(lowest <= offset < self.begin for offset in cut.in_flight)
        if not stored and all(message.process == NOBODY for message in there):
            return tuple(self.position(agent, cut.positions[agent], cut.skipped[agent]) for agent in AGENTS)
        self.counts["appended"] += len(sources)
        skipped: dict[str, set[int]] = {agent: set() for agent in AGENTS}
        for offset, message in sources:
            stamped = NOBODY if "stamp" in self.broken else author
            self.log.append(SimMessage(message, stamped, copied=True))
            for agent in AGENTS:
                if offset < cut.positions[agent] or offset in cut.skipped[agent]:
                    skipped[agent].add(len(self.log) - 1)
            if self.rng.random() < PAUSE:
                yield
        return tuple(self.position(agent, base, frozenset(skipped[agent])) for agent in AGENTS)

    def position(self, agent: str, offset: int, skipped: frozenset[int]) -> AgentPosition:
        rule = Rule(offset, skipped).start(offset)
        at, above = rule.offset, tuple(sorted(rule.started_above))
        return AgentPosition(
            app="p", agent=agent, topic=INPUT.topic, partition=0, offset=at, started_above=above
        )

    # -- the oracle -----------------------------------------------------------------------------------------------

    def judge(self, cut: Cut) -> None:
        """Check that every expected message was processed once; it compares ids alone."""
        assert self.worker is not None
        for agent in AGENTS:
            due = Counter(cut.state[agent])
            for offset, message in enumerate(self.log):
                processed = offset < cut.positions[agent] or offset in cut.skipped[agent]
                flying = cut.in_flight.get(offset) == message.id
                external = message.process == NOBODY and not message.copied
                if (external or flying) and not processed:
                    due[message.id] += 1
            found = Counter(self.worker.state[agent])
            if found != due:
                self.wrong.append(f"agent {agent}: too many {found - due}, missing {due - found}")


def explore(seeds: range) -> tuple[dict[int, list[str]], Counter[str]]:
    """Run the worlds of these seeds; return the violations by seed, and the number of each kind of event."""
    wrong, counts = {}, Counter[str]()
    for seed in seeds:
        world = RestoreWorld(seed)
        if found := world.run():
            wrong[seed] = found
        counts += world.counts
    return wrong, counts
