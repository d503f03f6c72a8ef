"""Inputs that are held back for an aligned snapshot (R16): in their order, each once, whatever comes between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from faust.types import TP
from mode.utils.queues import FlowControlEvent, ThrowableQueue

from snapkafka.drivers.faust.inbound.holding import HeldInputs
from snapkafka.protocol import TopicPartition

IN = TP("in", 0)


class Worker:
    """One partition of a worker that is held back, its agent's queue, and what was put there."""

    def __init__(self) -> None:
        flow = FlowControlEvent(initially_suspended=False)
        self.queue: Any = ThrowableQueue(maxsize=100, flow_control=flow)
        self.full: set[TP] = set()
        self.crashed: list[BaseException] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.before: Callable[[int], Awaitable[bool]] | None = None
        self.conductor = SimpleNamespace(
            _tp_to_callback={IN: self.take_in}, _tp_index={IN: [SimpleNamespace(queue=self.queue)]}
        )
        host: Any = SimpleNamespace(
            machine=SimpleNamespace(positions=SimpleNamespace(inputs=lambda: (TopicPartition("in", 0),))),
            app=SimpleNamespace(
                consumer=SimpleNamespace(
                    on_buffer_full=self.full.add, on_buffer_drop=self.full.discard, crash=self.crash
                )
            ),
            metrics=SimpleNamespace(held_s=SimpleNamespace(add=lambda seconds: None)),
            spawn=self.spawn,
        )
        self.held = HeldInputs(host, self.conductor)

    async def crash(self, error: BaseException) -> None:
        self.crashed.append(error)

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    async def take_in(self, offset: int) -> None:
        """Take in a record as Faust does: it may have to wait on the way to the queue."""
        if self.before is not None and await self.before(offset):
            return
        await self.gate.wait()
        self.queue.force_put_nowait(offset)

    async def arrive(self, *offsets: int) -> None:
        for offset in offsets:
            await self.conductor._tp_to_callback[IN](offset)

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def waiting(self) -> list[int]:
        found = []
        while not self.queue.empty():
            found.append(self.queue.get_nowait())
            self.queue.task_done()
        return found


async def test_what_waits_for_its_agent_stays_there_and_goes_on_in_order() -> None:
    worker = Worker()
    await worker.arrive(0, 1)
    worker.held.hold_all()
    assert worker.queue.empty() and IN in worker.full
    await worker.arrive(2)
    worker.held.let_go()
    await worker.settle()
    assert worker.waiting() == [0, 1, 2]
    await asyncio.wait_for(worker.queue.join(), 1)  # each was counted once
    assert IN not in worker.full and worker.conductor._tp_to_callback[IN] == worker.take_in


async def test_a_record_on_its_way_to_the_queue_is_not_started_before_those_that_waited() -> None:
    worker = Worker()
    await worker.arrive(0, 1)
    worker.gate.clear()
    late = asyncio.ensure_future(worker.arrive(2))
    await worker.settle()
    worker.held.hold_all()
    agent = asyncio.ensure_future(_started(worker.queue, 3))
    worker.gate.set()
    await late
    await worker.settle()
    assert not agent.done() and worker.queue.empty()
    worker.held.let_go()
    assert await asyncio.wait_for(agent, 1) == [0, 1, 2]


async def _started(queue: Any, count: int) -> list[int]:
    return [await queue.get() for _ in range(count)]


async def test_a_second_snapshot_holds_what_is_still_being_let_go() -> None:
    worker = Worker()
    worker.held.hold_all()
    await worker.arrive(0, 1, 2)
    worker.gate.clear()
    worker.held.let_go()
    await worker.settle()  # record 0 is on its way
    worker.held.hold_all()
    worker.gate.set()
    await worker.settle()
    assert worker.queue.empty()
    worker.held.let_go()
    await worker.arrive(3)
    await worker.settle()
    assert worker.waiting() == [0, 1, 2, 3]


async def test_a_record_that_has_to_wait_again_stays_before_those_behind_it() -> None:
    worker = Worker()
    worker.held.hold(IN, 0)
    await worker.arrive(1, 2)
    red = asyncio.Event()

    async def asks(offset: int) -> bool:
        if offset == 0 and not red.is_set():
            await red.wait()
            worker.held.hold(IN, 0)
            return True
        return False

    worker.before = asks
    worker.held.let_go()
    await worker.settle()
    worker.held.hold_all()  # the cut for another snapshot, while the machine is being asked about record 0
    red.set()
    await worker.settle()
    worker.held.let_go()
    await worker.settle()
    assert worker.waiting() == [0, 1, 2]


async def test_let_go_twice_takes_in_one_record_at_a_time() -> None:
    worker = Worker()
    worker.held.hold_all()
    await worker.arrive(0, 1, 2)
    worker.gate.clear()
    worker.held.let_go()
    await worker.settle()
    worker.held.hold_all()
    worker.held.let_go()
    await worker.settle()
    worker.gate.set()
    await worker.settle()
    assert worker.waiting() == [0, 1, 2]
    assert len([task for task in worker.tasks if task.done()]) == len(worker.tasks)


async def test_what_is_on_its_way_when_inputs_are_revoked_does_not_come_in_later() -> None:
    """Faust cancels its own callback then; it will be read again, here or elsewhere."""
    worker = Worker()
    worker.held.hold_all()
    await worker.arrive(0, 1)
    worker.gate.clear()
    worker.held.let_go()
    await worker.settle()
    worker.held.forget()
    worker.gate.set()
    await worker.settle()
    assert worker.waiting() == []
    await worker.arrive(0)
    assert worker.waiting() == [0]


async def test_an_error_of_faust_while_it_takes_in_what_was_held_crashes_the_consumer_as_ever() -> None:
    worker = Worker()
    worker.held.hold_all()
    await worker.arrive(0, 1)

    async def fails(offset: int) -> bool:
        raise ValueError(offset)

    worker.before = fails
    worker.held.let_go()
    await worker.settle()
    assert [str(error) for error in worker.crashed] == ["0"]
