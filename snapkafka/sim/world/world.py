"""The world of the simulator: workers that join and leave, groups that rebalance, triggers, and faults.

One random number generator decides; the same seed gives the same run, byte for byte.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from snapkafka.protocol.alignment import known_graph
from snapkafka.protocol.events import TriggerAppended
from snapkafka.protocol.records import LogEnd, TopicPartition, Trigger
from snapkafka.until import pause_after

from .broker_log import SimStored
from .faults import strike
from .lives import Lives
from .world_plan import WorldPlan

#: What a process does now and then, by how often beside all else; in some worlds other things are slow, too.
RARE: Final = dict.fromkeys(("commit", "commit-transaction", "tick"), 0.1)
#: Steps of the system between a failed attempt and the next one: the first time, and at most.
PAUSE_STEPS: Final = 10
PAUSE_STEPS_MAX: Final = 100


class World(Lives):
    """The whole world. `step()` lets one thing happen."""

    def __init__(self, plan: WorldPlan, seed: int) -> None:
        super().__init__(plan, seed)
        self._weights = plan.slow | RARE
        self._inputs_left, self._snapshots_left = plan.inputs, plan.snapshots

    # -- one step ----------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Let one thing happen; False: nothing can."""
        if not self.healthy and strike(self):
            return True
        if self.healthy and self.restart_bare():
            return True
        if self.unbalanced and (self.healthy or self.rng.random() < 0.2):
            self.rebalance(min(self.unbalanced))
            return True
        if self._outside():
            return True
        awake = [process for process in self.processes if not process.paused]
        self.rng.shuffle(awake)
        for process in awake:
            options = list(process.choices())
            if not options:
                continue
            weights = RARE if self.healthy else self._weights
            ((kind, what),) = self.rng.choices(options, [weights.get(kind, 1.0) for kind, _ in options])
            self.say(f"p{process.number} {kind} {_in_words(what)}")
            process.perform(kind, what)
            return True
        return bool(self.unbalanced)

    def _outside(self) -> bool:
        """Send external input, or trigger a snapshot."""
        if self._inputs_left and self.rng.random() < 0.05:
            self._inputs_left -= 1
            self.input_comes()
            return True
        if self.plan.asked_early and (self.asked is None or self.rng.random() < 0.02):
            self.asked = self.look(self.ends())
        if self._snapshots_left and self.rng.random() < 0.02 and self._able():
            self._snapshots_left -= 1
            self.trigger(f"s{self._snapshots_left}")
            return True
        return self.plan.retries > 0 and self._ask_again()

    def _able(self) -> bool:
        """Return whether a process takes part, and each input has a reader, if the author looks."""
        ready = self.rng.random() < 0.2 or not self.fold.unassigned(self.plan.scope)
        return ready and any(True for _ in self.fold.living())

    def input_comes(self) -> None:
        """Append a record from outside."""
        tp = self.any_input()
        self.broker.append(tp, SimStored(hops=self.plan.hops))
        self.say(f"outside {tp}")

    def _ask_again(self) -> bool:
        """Trigger a snapshot again that failed some time ago, as the next attempt."""
        for epoch, view in self.fold.snapshots.items():
            id_, attempt = view.trigger.id, view.trigger.attempt
            if view.failure is None or attempt > self.plan.retries or (id_, attempt + 1) in self.fold.by_id:
                continue
            place = (self.broker.ledger_id, epoch)
            if place not in self.due:
                pause = pause_after(attempt, self.rng.random(), first=PAUSE_STEPS, most=PAUSE_STEPS_MAX)
                self.due[place] = len(self.trace) + pause
            if len(self.trace) >= self.due[place] and self._able():
                self.due[place] = math.inf
                self.count("retries")
                self.trigger(id_, attempt=attempt + 1)
                return True
        return False

    def trigger(self, name: str, attempt: int = 1, *, align: bool | None = None) -> int:
        """Trigger a snapshot; return its epoch, 0: it is refused, or not in the ledger yet.

        Args:
            align: None: by chance, if the plan has aligned ones.
        """
        if align is None:
            align = self.plan.align and self.rng.random() < 0.7
        graph = known_graph(self.fold, self.fold.topics_of(self.fold.standing(self.plan.scope)))
        align = align and not graph.cycle()
        seen = self.asked or self.look(self.ends())
        self.asked = None
        if seen is None:
            self.count("refused")
            return 0
        asked_at, ends, stopped = seen
        if self.chance("unread-ends"):  # who triggers may not describe the inputs
            self.count("unread_ends")
            ends = ()
        times = 2 if self.chance("twin-trigger") else 1
        record = Trigger(
            n=self.number(),
            id=name,
            attempt=attempt,
            ends=ends,
            marker_topics=self.plan.marker_topics,
            apps=self.plan.scope,
            run_without=self.run_without() if self.plan.scope else (),
            stopped=stopped,
            asked_at=asked_at,
            align=align,
            sends=graph.stated() if align else (),
        )
        if "ledger" not in self.plan.hear:
            self._trigger_by_a_process(record)
            return 0
        epoch = self.append_to_ledger(record) + 1
        if times == 2:
            self.append_to_ledger(replace(record, n=self.number(), ends=()))
            self.count("twin_triggers")
        return epoch

    def ends(self) -> tuple[LogEnd, ...]:
        """Return the present log ends of all inputs."""
        tps = {
            TopicPartition(topic, p)
            for app in self.plan.apps
            for topic in app.topics
            for p in range(self.partitions[topic])
        }
        return tuple(
            LogEnd(topic=tp.topic, partition=tp.partition, end=len(self.broker.log(tp))) for tp in sorted(tps)
        )

    def _trigger_by_a_process(self, record: Trigger) -> None:
        """Let a participant trigger the snapshot, if no process learns of it by the ledger."""
        joined = [p for p in self.processes if p.joined and not p.paused]
        if joined:
            process = self.rng.choice(joined)
            process.feed(TriggerAppended(n=record.n))
            process.posts.append(record)


def _in_words(what: object) -> str:
    return "" if what is None else str(getattr(what, "cause", what))
