"""What an aligned trigger is refused for: agents in a cycle."""

from __future__ import annotations

import pytest

from snapkafka import verbs
from snapkafka.errors import TriggerRefusedError
from snapkafka.kafka.preflight import check_trigger
from snapkafka.protocol import Bye
from tests.protocol.test_aligned import system
from tests.protocol.world import A, B, Process, World, settle

ALIGNED = verbs.Trigger(align=True)


@pytest.mark.parametrize("aligned", [True, False])
def test_a_cycle_is_refused_from_the_snapshot_on_that_shows_it(aligned: bool) -> None:
    world = World()
    front, back = system(world)
    back.send(A)
    check_trigger(world.fold, ALIGNED)  # nobody knows of the cycle yet
    world.trigger(align=aligned)
    settle(front, back)
    with pytest.raises(TriggerRefusedError, check=lambda error: error.facts["reason"] == "cycle"):
        check_trigger(world.fold, ALIGNED)
    check_trigger(world.fold, verbs.Trigger())
    check_trigger(world.fold, verbs.Trigger(apps=("front",), align=True))
    world.append(Bye(process=back.id, n=78))
    Process(world, "back", (B,))
    check_trigger(world.fold, ALIGNED)  # nobody knows where the new one sends
