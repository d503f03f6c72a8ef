"""A fork: a snapshot becomes a second system under a prefix, beside the original, which is only read.

The ledger of the fork names the topics before the first one is created, and their ids afterwards. A crash before
`done` leaves topics that the ledger names: the next run removes them and starts over. See docs/guide/fork.md.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from snapkafka.checks import ReadRange
from snapkafka.errors import ForkFailedError, LedgerUnusableError
from snapkafka.kafka.ledger.reading import opened
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.manifest import Manifest
from snapkafka.ports import TopicAdmin
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.forking import LEDGER, of_fork, prefix_of, prefixed
from snapkafka.protocol.records import Fork, ForkTopic, TopicPartition
from snapkafka.runtime.signals import to_its_end
from snapkafka.units import wall_ms
from snapkafka.wire.headers import ledger_id

from .channels import Channel, channels
from .forks import fork_in, removed
from .lost_inputs import lost_inputs, raise_lost
from .plan import Plan
from .positions import Appended, apps_of, changelogs_of, inputs_of, lowest_positions
from .reasons import copy_refusals, external_refusals, member_refusals
from .state import Row
from .stored_rows import carried_by, rows_of_state, workers_of
from .target import Target, TargetRun, unforced
from .target_facts import Refusal, TopicFacts
from .topics import Contents, NewTopic, Source, new_topics, settle, topics_of, validated

#: Kafka's own limit.
TOPIC_CHARS_MAX: Final = 249
#: Above every offset: where the log of a topic starts that does not exist.
NO_LOG: Final = 1 << 63
#: Each takes some 300 bytes, and a record of the ledger at most 256 KB.
TOPICS_PER_RECORD: Final = 500


@dataclass(slots=True, kw_only=True)
class ForkTarget(Target):
    """The topics, groups and ledger of a fork, under its prefix, in the same cluster."""

    made: list[ForkTopic] = field(default_factory=list)
    expires_ms: int = 0
    _new: tuple[NewTopic, ...] = ()
    _contents: Contents | None = None

    @property
    def fork(self) -> str:
        return self.session.request.fork

    @property
    def source(self) -> str:
        """The namespace of the forked system."""
        return self.session.request.namespace or self.session.manifest.namespace

    @property
    def captured(self) -> Captured:
        return in_fork(self.session.captured, self.fork)

    # -- the plan ---------------------------------------------------------------------------------------------

    async def plan(self) -> Plan:
        session, manifest, request = self.session, self.session.manifest, self.session.request
        sources, lowest = await self._sources(), lowest_positions(session.captured)
        begins, external = session.tables.in_flight, []
        if request.with_inputs:
            starts = await log_starts(session.admin, lowest)
            begins = session.tables.unread(lowest, starts)
            topics = {
                name: TopicFacts(topic_id=it.topic_id, partitions=it.partitions)
                for name, it in sources.items()
            }
            external = list(external_refusals(manifest, topics, lowest, await self._lost(lowest, starts)))
        own = sorted(name for name in await session.admin.describe_topics() if of_fork(self.fork, name))
        exists, unfinished = await self._existing(own)
        in_flight = carried_by(record for records in session.tables.in_flight.values() for record in records)
        self._contents = Contents(
            captured=session.captured,
            carried=carried_by(record for records in begins.values() for record in records),
            largest={topic: size for topic, (_, size) in session.tables.state.items()},
        )
        self._new, unfit = new_topics(
            manifest,
            sources,
            self._contents,
            await session.defaults(),
            lambda name: prefixed(self.fork, name),
        )
        return replace(
            self.base_plan(None),
            work=self.work(in_flight),
            topics=self._new,
            removes=tuple(unfinished),
            stored=sum(map(len, begins.values())) - sum(map(len, session.tables.in_flight.values())),
            refusals=unforced(
                [
                    *refusals(
                        manifest,
                        self.fork,
                        files=session.tables.damage,
                        there=own,
                        unfinished=unfinished,
                        exists=exists,
                        external=external,
                    ),
                    *unfit,
                    *await validated(session.admin, [it for it in self._new if it.topic not in own]),
                    *member_refusals(await workers_of(session.admin, apps_of(self.captured))),
                ],
                force=request.force,
            ),
        )

    async def _lost(
        self, lowest: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
    ) -> list[Refusal]:
        """Find the external records that production's logs have no longer."""
        session = self.session
        there = {tp: at for tp, at in lowest.items() if starts[tp] < NO_LOG}
        ends = await session.admin.log_ends(there) if there else {}
        return await asyncio.to_thread(
            lambda: list(
                lost_inputs(
                    session.manifest, session.tables, session.bulk, there, starts, ends, self._production
                )
            )
        )

    @property
    def _production(self) -> int:
        return ledger_id(bytes.fromhex(self.session.manifest.ledger.topic_id))

    async def _existing(self, there: list[str]) -> tuple[str, list[str]]:
        """Find a fork of this name: as a phrase if it is complete, else the topics that its creation has left."""
        ledger = self.session.ledger
        if ledger not in there:
            return "", []
        async with opened(self.session.where, self.session.namespace) as work:
            found = fork_in(work)
            empty = work.reading.state.end == 0
        if found is None:
            return ("", [ledger]) if empty else (f"{ledger} is not the ledger of a fork", [])
        if found.stage == "ready":
            return f"fork {self.fork} exists: it is of snapshot {found.snapshot}", []
        planned = {name for name, _ in found.topics}
        return "", [name for name in there if name in planned]

    async def _sources(self) -> dict[str, Source]:
        admin = self.session.admin
        described = await admin.describe_topics(list(topics_of(self.session.manifest)))
        found = {}
        for name, it in described.items():
            try:
                holding, own = await admin.topic_settings(name)
            except LedgerUnusableError:  # without the right to read them, what was recorded counts
                holding, own = {}, {}
            found[name] = Source(
                topic_id=it.topic_id,
                partitions=it.partitions,
                replicas=getattr(it, "replicas", None) or None,
                settings=holding,
                own=own,
            )
        return found

    # -- what the steps ask -----------------------------------------------------------------------------------

    async def clear(self, plan: Plan, notify: Callable[[str], None]) -> None:
        if plan.removes:
            notify("removing what an earlier attempt has left")
            session = self.session
            await removed(session.admin, session.where, self.fork, plan.removes, session.ledger, ())

    async def announce(self, run: TargetRun) -> None:
        """Record in the ledger of the fork the topics to create."""
        admin, topic, expires_s = self.session.admin, run.work.ledger.topic, self.session.request.expires_s
        self.expires_ms = 0 if expires_s is None else wall_ms() + round(expires_s * 1_000)
        ledger = (await admin.describe_topics([topic]))[topic]
        self.made = [ForkTopic(topic=topic, topic_id=ledger.topic_id, partitions=1)]
        wanted = [ForkTopic(topic=it.topic, partitions=it.partitions) for it in self._new]
        await self._state(run, "begun", [*self.made, *wanted])

    async def create(self, run: TargetRun) -> None:
        """Create the topics, and state their ids.

        Raises:
            ForkFailedError: one exists already, so another run creates it at the same time.
        """
        admin = self.session.admin
        for it in self._new:
            # A broker creates it whether or not its answer is awaited: later than who removes what is there.
            created = await to_its_end(
                admin.create_topic(
                    it.topic, partitions=it.partitions, replicas=it.replicas, settings=it.settings
                )
            )
            if not created:
                raise ForkFailedError(
                    f"topic {it.topic} was created by another client meanwhile",
                    hint="see whether another run creates the same fork; then run the command again",
                )
        described = await admin.describe_topics([it.topic for it in self._new])
        self.made += [
            ForkTopic(topic=it.topic, topic_id=described[it.topic].topic_id, partitions=it.partitions)
            for it in self._new
        ]
        run.created += [it.topic for it in self.made]
        assert self._contents is not None, "plan() comes first"
        run.changed += await settle(admin, self._new, self._contents)
        await self._state(run, "created", self.made)

    async def _state(self, run: TargetRun, stage: str, topics: Sequence[ForkTopic]) -> None:
        manifest = self.session.manifest
        chunks = [topics[at : at + TOPICS_PER_RECORD] for at in range(0, len(topics), TOPICS_PER_RECORD)]
        n = random.getrandbits(62)
        for number, chunk in enumerate(chunks):
            await run.append(
                Fork(
                    n=n + number,
                    plan=run.plan.plan,
                    stage="created" if stage == "created" else "begun",
                    fork=self.fork,
                    source=self.source,
                    snapshot=manifest.id,
                    attempt=manifest.attempt,
                    epoch=manifest.epoch,
                    apps=apps_of(manifest.captured),
                    topics=tuple(chunk),
                    part=number,
                    parts=len(chunks),
                    expires_ms=self.expires_ms,
                    who=run.who,
                )
            )

    async def ends(self, run: TargetRun) -> dict[TopicPartition, int]:
        """Find that the new topics are empty.

        Raises:
            ForkFailedError: another program has written there.
        """
        wanted = sorted({*inputs_of(self.captured), *changelogs_of(self.captured)})
        ends = dict(await run.admin.log_ends(wanted))
        if written := [tp for tp in wanted if ends[tp]]:
            raise ForkFailedError(
                f"{written[0]} was created by this run and holds {ends[written[0]]:,} records of another client",
                hint="see who writes there; then run the command again",
            )
        return ends

    async def channels(
        self, run: TargetRun, ends: Mapping[TopicPartition, int]
    ) -> Callable[[], Iterator[Channel]]:
        copied = await self._copied()
        return lambda: map(self._translated, copied())

    async def examined(self) -> Callable[[], Iterator[KafkaRecord]]:
        copied = await self._copied()
        return lambda: (record for channel in copied() for record in channel.records)

    async def _copied(self) -> Callable[[], Iterator[Channel]]:
        """Prepare the records to copy, by the names of production; the result blocks."""
        session, request = self.session, self.session.request
        lowest = lowest_positions(session.captured)
        unread = session.tables.in_flight
        starts, now = dict.fromkeys(lowest, 0), dict.fromkeys(lowest, 0)
        if request.with_inputs:
            starts = await log_starts(session.admin, lowest)
            now |= await session.admin.log_ends([tp for tp in lowest if starts[tp] < NO_LOG])
            unread = session.tables.unread(lowest, starts)
            raise_lost(unforced(await self._lost(lowest, starts), force=request.force))
        ranges = [ReadRange(*tp, max(at, starts[tp]), now[tp]) for tp, at in lowest.items()]
        production = self._production
        return lambda: channels(session.bulk, ranges, unread, frozenset(lowest), production)

    def _translated(self, channel: Channel) -> Channel:
        topic = prefixed(self.fork, channel.tp.topic)
        records = tuple(record._replace(topic=topic) for record in self.editing.edit(channel.records))
        return Channel(TopicPartition(topic, channel.tp.partition), records)

    def count(self, appended: Mapping[TopicPartition, Iterable[Appended]]) -> tuple[int, int]:
        own = {
            (prefixed(self.fork, tp.topic), tp.partition, record.offset)
            for tp, records in self.session.tables.in_flight.items()
            for record in records
        }
        copied = [(*tp, it.old) for tp, items in appended.items() for it in items]
        messages = sum(item in own for item in copied)
        return messages, len(copied) - messages

    def rows(self) -> Iterator[Row]:
        for row in self.editing.edit(rows_of_state(self.session.placed)):
            yield Row(TopicPartition(prefixed(self.fork, row.tp.topic), row.tp.partition), row.key, row.value)

    def takes_others(self, topic: str) -> bool:
        return False

    def takes_external(self, topic: str) -> bool:
        return False


def in_fork(captured: Captured, fork: str) -> Captured:
    """Translate inputs and changelogs to their names in the fork."""

    def named(name: str) -> str:
        return prefixed(fork, name)

    return dataclasses.replace(
        captured,
        inputs=tuple(
            dataclasses.replace(
                cut,
                app=named(cut.app),
                topic=named(cut.topic),
                topic_id="",
                agents=tuple(dataclasses.replace(at, topic=named(at.topic)) for at in cut.agents),
            )
            for cut in captured.inputs
        ),
        changelogs=tuple(
            dataclasses.replace(cut, app=named(cut.app), topic=named(cut.topic), topic_id="")
            for cut in captured.changelogs
        ),
    )


def refusals(
    manifest: Manifest,
    fork: str,
    *,
    files: str,
    there: Collection[str],
    unfinished: Collection[str],
    exists: str,
    external: Iterable[Refusal],
) -> Iterator[Refusal]:
    """Find every reason not to create a fork.

    Args:
        files: what is wrong with the files; empty: nothing.
        there: topics of this fork that exist.
        unfinished: those left by an earlier attempt.
        exists: an existing fork, as a phrase; empty: there is none.
        external: why the external records since the snapshot cannot be read.
    """
    yield from copy_refusals(manifest, files, done="forked")
    for item in external:
        yield dataclasses.replace(item, hint=f"{item.hint}; or leave out --with-inputs")
    yield from _names(manifest, fork, there, unfinished, exists)


def _names(
    manifest: Manifest, fork: str, there: Collection[str], unfinished: Collection[str], exists: str
) -> Iterator[Refusal]:
    if exists:
        yield Refusal(
            code="fork-exists",
            what=exists,
            hint=f"remove it first: snapkafka fork drop {fork}; or choose another name",
        )
        return
    external = sorted(topic for topic in there if of_fork(fork, topic) and topic not in unfinished)
    if external:
        more = f" and {len(external) - 1} more" if len(external) > 1 else ""
        yield Refusal(
            code="topics-exist",
            what=f"topic {external[0]}{more} begins with {prefix_of(fork)} already",
            hint=f"remove what is left of it (snapkafka fork drop {fork}), or choose another name",
        )
    names = [prefixed(fork, name) for name in (*topics_of(manifest), *apps_of(manifest.captured))]
    names.append(LEDGER + prefixed(fork, manifest.namespace))
    if too_long := [name for name in names if len(name) > TOPIC_CHARS_MAX]:
        yield Refusal(
            code="name-too-long",
            what=f"{too_long[0]} has {len(too_long[0])} characters, and Kafka takes {TOPIC_CHARS_MAX}",
            hint="choose a shorter name",
        )


async def log_starts(admin: TopicAdmin, lowest: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Read the starts of production's logs: `NO_LOG` if a partition does not exist."""
    wanted = list(lowest)
    there = await admin.describe_topics({tp.topic for tp in wanted})
    known = [tp for tp in wanted if tp.topic in there and tp.partition < there[tp.topic].partitions]
    return dict.fromkeys(wanted, NO_LOG) | dict(await admin.log_starts(known))
