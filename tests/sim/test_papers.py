"""What the papers promise, each promise with its source, on the real machines.

[CL] K. M. Chandy, L. Lamport: Distributed Snapshots: Determining Global States of Distributed Systems, 1985.
[LY] T. H. Lai, T. H. Yang: On Distributed Snapshots, 1987.
[EWD 864] E. W. Dijkstra: The distributed snapshot of K. M. Chandy and L. Lamport, 1983.
"""

from __future__ import annotations

import pytest

from snapkafka.protocol import HEAR_ALL
from snapkafka.sim import play_story
from snapkafka.sim.story.file import StoryChannel, parse_story
from snapkafka.sim.story.performance import StoryRun, topic_of
from snapkafka.sim.story.play import StoryOutcome, outcomes

from .causality import Happened, Recorded, inside
from .computations import Act, State, passes_through
from .overlap import Overlap
from .predicates import GAMES, Walk, walk
from .scenarios import random_scenario

SEEDS = range(200)


def recorded_run(seed: int, **how: int) -> Recorded:
    run = Recorded(parse_story(random_scenario(seed, **how)))  # type: ignore[arg-type]
    run.run()
    return run


# -- Chandy and Lamport -------------------------------------------------------------------------------------------


def test_marker_sending_rule() -> None:
    """[CL] Marker-Sending Rule for a Process p. For each channel c, incident on, and directed away from p: p sends one
    marker along c after p records its state and before p sends further messages along c."""
    seen = 0
    for seed in SEEDS:
        run = recorded_run(seed)
        (outcome,) = outcomes(run)
        for channel in run.story.channels:
            log = run.logs[topic_of(channel)]
            markers = [offset for offset, entry in enumerate(log) if entry.marker is not None]
            assert len(markers) == (channel.sender in outcome.processes), "one marker, if it has recorded"
            if not markers:
                continue
            seen += 1
            marker = log[markers[0]].marker
            assert marker is not None
            for offset, entry in enumerate(log):
                if entry.marker is None:
                    (stamp,) = entry.stamps
                    assert (stamp.epoch < marker.epoch) == (offset < markers[0])
    assert seen > 300


class Rule(Recorded):
    """Notes, at every marker, whether its receiver had recorded, and what it has received since along that channel."""

    def __init__(self, run: Recorded) -> None:
        self.since: dict[StoryChannel, list[str]] = {}
        self.at_marker: dict[StoryChannel, tuple[bool, list[str]]] = {}
        super().__init__(run.story)

    def has_recorded(self, name: str) -> bool:
        return self.places[name].members[0].machine.colours.epoch > 0

    def _hand_over(self, channel: StoryChannel, event: str) -> None:
        entry = self.logs[topic_of(channel)][self.heads[channel]]
        recorded = self.has_recorded(channel.receiver)
        if entry.marker is not None:
            self.at_marker[channel] = (recorded, list(self.since.get(channel, [])))
        elif recorded:
            self.since.setdefault(channel, []).append(entry.what)
        super()._hand_over(channel, event)
        assert entry.marker is None or self.has_recorded(channel.receiver)


def test_marker_receiving_rule() -> None:
    """[CL] Marker-Receiving Rule for a Process q. On receiving a marker along a channel c: if q has not recorded its
    state then q records its state; q records the state of c as the empty sequence; else q records the state of c as the
    sequence of messages received along c after q's state was recorded and before q received the marker along c."""
    first = later = 0
    for seed in SEEDS:
        run = Rule(recorded_run(seed))
        run.run()
        (outcome,) = outcomes(run)
        for channel, (recorded, since) in run.at_marker.items():
            assert list(outcome.channels[channel]) == (since if recorded else [])
            first, later = first + (not recorded), later + bool(since)
    assert min(first, later) > 100


def acts_of(history: list[Happened]) -> list[Act]:
    """A story as a computation: the k-th event of a process writes key k, so that the order there is seen."""
    acts, counts = [], dict.fromkeys((event.process for event in history), 0)
    for event in history:
        counts[event.process] += 1
        message = (event.channel, event.message) if event.channel is not None else None
        key = str(counts[event.process])
        acts.append(
            Act(
                event.process,
                f"{event.process}.{key}",
                receive=message if event.kind == "receive" else None,
                write=(key, event.name),
                send=message if event.kind == "send" else None,
            )
        )
    return acts


def state_of(outcome: StoryOutcome) -> State:
    tables = {
        name: {str(k + 1): event for k, event in enumerate(events)}
        for name, events in outcome.processes.items()
    }
    channels = {tuple(channel): list(found) for channel, found in outcome.channels.items()}
    return State(tables, channels)  # type: ignore[arg-type]


class Moments(Recorded):
    """Notes where in the history the snapshot starts and where it ends (everybody has recorded)."""

    start = end = -1

    def run(self) -> None:
        self._watch = self._look
        super().run()

    def _look(self, _: StoryRun) -> None:
        epochs = [place.members[0].machine.colours.epoch for place in self.places.values()]
        if self.start < 0 and any(epochs):
            self.start = len(self.history)
        if self.end < 0 and all(epochs):
            self.end = len(self.history)


def test_the_recorded_state_is_reachable_and_the_last_state_from_it() -> None:
    """[CL] Theorem 1, and [EWD 864] the equivalent computation, done for real: of the recorded history of a run, every
    red event right before a white one changes places with it, step by step, and each time the run is replayed. It stays
    possible, it passes through exactly the snapshot, it ends in the same state, and nothing before the start of the
    snapshot or after its end is moved: S_start -> S* -> S_end."""
    swapped = complete = 0
    for seed in SEEDS:
        run = Moments(parse_story(random_scenario(seed)))
        run.run()
        (outcome,) = outcomes(run)
        if not outcome.complete:
            continue
        complete += 1
        acts, white = acts_of(run.history), inside(run.history, outcome)
        swapped += passes_through(
            acts, white, state_of(outcome), fifo=True, from_=run.start, to=max(run.end, run.start)
        )
    assert complete > 60
    assert swapped > 300


def test_a_process_that_no_marker_path_reaches_is_named_and_not_waited_for() -> None:
    """[CL] needs of every process a path from an initiator. Where there is none the snapshot does not complete; who is
    missing is named, and it is never one that a path leads to."""
    named = 0
    for seed in SEEDS:
        scenario = random_scenario(seed)
        (outcome,) = play_story(parse_story(scenario))
        reached = {step["at"] for step in scenario["steps"] if step["do"] == "snapshot"}
        while fresh := {b for a, b in scenario["channels"] if a in reached} - reached:
            reached |= fresh
        assert set(outcome.unreached) == set(scenario["processes"]) - reached
        assert outcome.complete == (not outcome.unreached)
        assert outcome.under_way == ()
        named += len(outcome.unreached)
    assert named > 50


# -- Lai and Yang; Dijkstra with events that overlap ------------------------------------------------------------------

HEADERS = frozenset({"headers"})


@pytest.mark.parametrize(
    ("hear", "markers", "seeds"), [(HEAR_ALL, True, 40), (HEADERS, False, 30)], ids=["all", "headers"]
)
def test_colours_instead_of_fifo(hear: frozenset[str], markers: bool, seeds: int) -> None:
    """[LY] needs no FIFO channels: messages are white or red as their senders are, and a process records its state
    before it takes in a red one. Here events run on after the cut, so in one partition a red record can lie before a
    white one of the same sender. Headers alone keep the snapshot right, without any marker.

    [EWD 864] with events of several steps that overlap: the white steps of an event that finishes late change places
    with the red ones of others, in the same process too, and the computation passes through exactly the snapshot."""
    swapped = overtaken = in_flight = late = 0
    for seed in range(seeds):
        world = Overlap(seed, hear=hear, markers=markers)
        world.run(60)
        recorded = world.recorded()
        swapped += passes_through(world.acts, world.white, recorded, fifo=False)
        overtaken += world.overtaken()
        in_flight += sum(map(len, recorded.channels.values()))
        late += world.late()
    assert swapped > 1000
    assert overtaken > 10, "messages did overtake"
    assert in_flight > 100
    assert late > 20, "white steps did come after red ones in one process"


# -- stable predicates ------------------------------------------------------------------------------------------------


def recorded_in(found: Walk) -> tuple[dict[str, tuple[str, ...]], dict[tuple[str, str], tuple[str, ...]]]:
    """S*, from the real machines."""
    (outcome,) = play_story(parse_story(found.scenario))
    assert outcome.complete
    return dict(outcome.processes), {tuple(c): m for c, m in outcome.channels.items()}  # type: ignore[misc]


def test_a_stable_predicate_in_both_directions() -> None:
    """[CL] Stability detection: for a stable property y, y(S_start) implies that the snapshot has it, and that the
    snapshot has it implies y(S_end). True at the start => seen in it; seen in it => true at its end."""
    before = seen = after = 0
    for seed in range(300):
        found = walk(GAMES["termination"], seed)
        y = GAMES["termination"].holds
        s_start, s_end, s_star = y(*found.start), y(*found.end), y(*recorded_in(found))
        assert not s_start or s_star, seed
        assert not s_star or s_end, seed
        before, seen, after = before + s_start, seen + s_star, after + s_end
    assert before > 10, "it was true at the start"
    assert seen > before, "it was seen though it was not true at the start"
    assert after > seen, "it was not seen though it was true at the end"
    assert after < 300


def test_one_token_never_disappears_and_never_doubles() -> None:
    """[CL] The single-token system: in every recorded state there is exactly one token, in a process or on its way."""
    on_its_way = 0
    for seed in range(300):
        found = walk(GAMES["token"], seed)
        processes, channels = recorded_in(found)
        held = sum(GAMES["token"].local(name, events) == "token" for name, events in processes.items())
        flying = sum(map(len, channels.values()))
        assert held + flying == 1, seed
        on_its_way += flying
    assert 30 < on_its_way < 270
