"""The end of a rebalance: the inputs resume only after they were sought and the streams' queues emptied.

Faust resumes the inputs, seeks them to the committed positions, then empties the queues of its streams and resumes the
flow, which is on already if tables were recovered. Records that are fetched in between are handed out twice, taken for
done, or thrown away with the queues. Our announcement (R9), for which Faust waits just before, makes that likelier. So
we remove the moment altogether. Nor may a fetch in flight take records of the inputs meanwhile: it does if no partition
is active at all, because to aiokafka that means all partitions (robinhood/faust#69).
"""

from __future__ import annotations

from typing import Any, Final

from ...process import Process

RESUMES: Final = "to resume the inputs last"


class ExactPartitions:
    """A set of partitions that means these and no other, also when it is empty."""

    def __init__(self, tps: set[Any]) -> None:
        self._tps = tps

    def __contains__(self, tp: Any) -> bool:
        return tp in self._tps


def resume_last(driver: Process, consumer: Any) -> None:
    """Let the inputs of an app and its consumer resume when all else has ended: Faust resumes them, seeks, and then
    resumes the flow."""
    app: Any = driver.app
    fetch, seek, resume_flow = consumer._getmany, consumer.perform_seek, consumer.resume_flow
    #: Inputs that resume with the flow, and the generation in which they were assigned.
    held: dict[Any, int] = {}

    def pause() -> None:
        active = consumer._get_active_partitions()  # none of the inputs, where Faust seeks for another reason
        inputs = [tp for tp in active if not consumer._is_changelog_tp(tp)]
        consumer.pause_partitions(inputs)
        held.update(dict.fromkeys(inputs, app.consumer_generation_id))

    def resume() -> None:
        ours = {tp for tp, generation in held.items() if generation == app.consumer_generation_id}
        held.clear()
        if ours:
            consumer.resume_partitions(ours & consumer.assignment())

    def perform_seek() -> Any:
        """Replace `Consumer.perform_seek`, which Faust calls right after it has resumed the inputs. Whatever comes of
        it, nothing is read before the flow resumes."""
        driver.note(RESUMES, pause)
        return seek()

    def resume_all() -> None:
        resume_flow()
        driver.note(RESUMES, resume)

    async def getmany(active_partitions: set[Any] | None, **more: Any) -> Any:
        """Fetch as `Consumer._getmany` does. The active partitions may change while it waits."""
        only: Any = active_partitions
        try:
            only = None if only is None else ExactPartitions(only)
        except Exception as error:
            driver.stand_down(RESUMES, error)
        return await fetch(active_partitions=only, **more)

    consumer.perform_seek, consumer.resume_flow, consumer._getmany = perform_seek, resume_all, getmany
