"""Agents that call agents, sinks, and what is sent outside any event, with snapkafka and without."""

from __future__ import annotations

import json
import threading
import urllib.request
import uuid
from collections.abc import Iterator, Sequence

import pytest

from snapkafka.testing import Broker

from .harness import Pair, is_marker, running
from .judging import Judge, Row

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

ROWS = [
    Row("ask", ("ask",), ("ask-out",), inner=()),
    Row("join", ("join",), ("join-out",)),
    Row("map", ("map",), ("map-out",)),
    Row("reply_to-another-topic", ("reply",), ()),
    Row("cast", ("cast",), ("cast-out",), inner=("told",)),
    Row("sink-topic", ("sink",), ("sink-out",), order="none"),
    Row("sink-agent", ("sink",), ("sunk-out",), order="none"),
    Row("sink-function", ("sink",), ("called-out",)),
    Row("send_soon", ("soon",), ("soon-out",)),
    Row("timer", (), ("timer-out",), tables=("ticks",)),
    Row("crontab", (), ("cron-out",)),
    Row("task", (), ("task-out",)),
    Row("web-view", (), ("web-out",)),
    Row("task-that-outlives-its-event", ("spawned",), ("spawned-out",), order="none"),
    Row("channel-in-memory", ("channel",), ("channel-out",)),
    Row("codec-and-raw-keys", ("codec",), ("codec-out", "codec-mid")),
    Row("schema", ("schema",), ("schema-out", "schema-mid")),
    Row("schema-of-avro", ("avro",), ("avro-out",), inner=("avro-mid",)),
    Row("polymorphic-models", ("drawn",), ("drawn-out",), tables=("drawings",), inner=("drawn-mid",)),
    Row("null-values", ("null",), ("null-out", "null-mid")),
]
INNER = ("square", "sunk", "told", "reply-out", "avro-mid", "drawn-mid")
SECONDS = 8.0
COUNT = 200
#: Each of these asks another agent, which takes its time.
ASKING = {"ask": 60, "join": 30, "map": 30, "reply": 80}
#: Those that await the answer, and are torn by one from red.
TORN = ("ask", "join", "map")
WEB = 40


def _records(name: str) -> Sequence[tuple[str, bytes, int | None]]:
    return [
        (f"k{n % 11}", json.dumps({"n": n, "key": f"k{n % 11}"}).encode(), None)
        for n in range(ASKING.get(name, COUNT))
    ]


@pytest.fixture(scope="module")
def judge(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with running(
        kafka.bootstrap,
        f"t{uuid.uuid4().hex[:8]}",
        tmp_path_factory.mktemp("calls"),
        "tests.features.apps.calls",
        inputs=sorted({name for row in ROWS for name in row.inputs}),
        outputs=[*(name for row in ROWS for name in row.outputs), *INNER],
        changelogs=["ticks", "squares", "drawings"],
        web=True,
    ) as pair:
        browsing = threading.Thread(target=_browse, args=(pair,))
        browsing.start()
        # Their records wait from the start, so each asks again as soon as it is answered, and a cut tears some.
        pair.send({name: _records(name) for name in TORN}, seconds=0)
        pair.load(
            {name: _records(name) for row in ROWS for name in row.inputs if name not in TORN}, seconds=SECONDS
        )
        browsing.join()
        expected = {name: len(_records(row.inputs[0])) for row in ROWS if row.inputs for name in row.outputs}
        outside = {"timer-out": 40, "cron-out": 20, "task-out": 100, "web-out": WEB}
        pair.wait_for(expected | outside | {"reply-out": ASKING["reply"]})
        pair.finish()
        yield Judge(pair)


def _browse(pair: Pair) -> None:
    """Ask the views of both runs."""
    for n in range(WEB):
        for side in pair.sides:
            with urllib.request.urlopen(f"http://127.0.0.1:{side.port}/told/?n={n}", timeout=20) as answer:
                assert json.load(answer) == {"n": n}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(judge: Judge, row: Row) -> None:
    judge.same(row)
    judge.captured(row)


def test_a_red_reply_tears_the_event_that_asked(judge: Judge) -> None:
    """R6: what was asked in white and answered in red: the event goes on in red, and counts as not processed."""
    torn = [torn for captured in judge.snapshots for cut in captured.processes for torn in cut.torn]
    assert {event.table for event in torn} == {""}
    assert {event.agent for event in torn} <= set(TORN)


def test_replies_that_go_elsewhere_are_those_without_us(judge: Judge) -> None:
    """Each carries the question's own id, by which the two runs are held against each other."""
    ours, plain = (
        {
            answer["correlation_id"]: answer["value"]
            for record in side.records["reply-out"]
            if not is_marker(record)
            for answer in [json.loads(record.value or b"null")]
        }
        for side in judge.pair.sides
    )
    assert plain.keys() == {str(n) for n in range(ASKING["reply"])}
    assert ours == plain


def test_a_channel_in_memory_is_reported_by_name(judge: Judge) -> None:
    assert "agent in-memory reads an in-memory channel" in judge.pair.ours.log


def test_every_snapshot_is_consistent(judge: Judge) -> None:
    assert len(judge.snapshots) >= 4, "one before, two under load, and the last"
    assert judge.in_flight(), "nothing was on its way in any snapshot: the test shows nothing"
    judge.consistent()


def test_the_same_exceptions(judge: Judge) -> None:
    judge.same_errors()
