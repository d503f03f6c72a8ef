"""Values in the embedded engine: what it reads, and what it leaves to Spark rather than differ."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from snapkafka.assembly import HandOverError, arrow
from snapkafka.assembly.embedded import invariants
from snapkafka.assembly.embedded.json_text import is_json, parsed, text_of, unparsed, window_of
from snapkafka.assembly.embedded.sql import get_json_object
from snapkafka.assembly.embedded.values import Decoder
from snapkafka.checks import Invariant, Status, load, parameters_of, ready_made
from tests.worlds.waiting_messages import DELIVERED, TRIGGERED_S, WAITING


@pytest.mark.parametrize(
    ("raw", "codec", "json", "text", "why"),
    [
        (b'"a"', "json", '"a"', "a", None),
        (b"{", "json", None, None, "not JSON"),
        (b"{", None, None, "{", None),
        (b'{"a": 1}', None, '{"a": 1}', '{"a": 1}', None),
        (b"\xff", "json", None, None, "not UTF-8"),
        (b'"a"', "text", '"\\"a\\""', '"a"', None),
        (b"YQ==", "raw|binary", '"a"', "a", None),
        (b"MQ==", "json|binary", "1", "1", None),
        (b"x", "own", None, None, "codec own is not decoded"),
        (
            b"x",
            "pickle",
            None,
            None,
            "codec pickle is not decoded: pickles execute code (the option unpickle)",
        ),
        (None, "json", None, None, None),
    ],
)
def test_a_value_by_its_codec(
    raw: bytes | None, codec: str | None, json: str | None, text: str | None, why: str | None
) -> None:
    assert Decoder()(raw, codec) == (json, text, why)


@pytest.mark.parametrize("text", ["NaN", "01", "+1", "1.", "[1,]", '"\t"', "", " ", "nul", "1 2", '{"a"}'])
def test_what_is_no_json(text: str) -> None:
    assert not is_json(text)


@pytest.mark.parametrize("text", [" 1 ", "-0.5e+3", '"\\u00e9"', "[[]]", "\t{}\n", "[" * 50 + "]" * 50])
def test_what_is_json(text: str) -> None:
    assert is_json(text)


@pytest.mark.parametrize(
    ("work", "named"),
    [
        (lambda: is_json("1" * 400), "very long numbers"),
        (lambda: is_json("[" * 200 + "]" * 200), "many levels"),
        (lambda: is_json('{"' + "a" * 50_001 + '": 1}'), "very long names"),
        (lambda: text_of('"\\ud800"'), "half a surrogate pair"),
        (lambda: parsed("1.5"), "a fraction"),
        (lambda: parsed('{"a":1}'), "a JSON object"),
        (lambda: unparsed("\x01"), "control characters"),
        (lambda: window_of('["k",["1","2"]]'), "no numbers"),
        (lambda: window_of("[1.5,[1,2]]"), "a fraction"),
        (lambda: Decoder()(b"YQ", "raw|binary"), "base64 in an unusual form"),
    ],
)
def test_what_the_two_engines_might_read_differently_is_handed_over(work: Any, named: str) -> None:
    with pytest.raises(HandOverError, match=named):
        work()


def test_many_brackets_are_no_many_levels() -> None:
    assert is_json("[" + ",".join(["{}"] * 500) + ',"' + "[" * 300 + '"]')


def test_a_long_text_is_no_long_name() -> None:
    assert is_json('{"a": "' + "\\n:" * 50_000 + '", "b": ["' + "x" * 60_000 + '"]}')


def test_windows_and_keys_of_their_own() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    until = start + timedelta(seconds=9.9)
    assert window_of(f'[["a",2],[{start.timestamp():.0f},{until.timestamp()}]]') == ('["a",2]', start, until)
    assert window_of('["k",[-1e9,1e12]]') is None, "not all of it is a time that readers know"
    assert window_of('["k"]') is window_of("7") is window_of('["k",[1.0]]') is None


def rows_of(sql: str) -> Any:
    tables = {"messages": arrow("messages", []), "channels": arrow("channels", [])}
    (found,) = invariants.check([Invariant(name="mine", sql=sql)], tables)
    return found


def test_texts_are_changed_as_by_spark() -> None:
    """DuckDB's `trim` takes any space, and its `upper` and `lower` other letters than Java's."""
    found = rows_of("SELECT trim('  \u00a0a ') AS a, upper('ab') AS b, lower('AB') AS c, upper(NULL) AS d")
    assert [it.what for it in found.witnesses] == ['{"a":"\u00a0a","b":"AB","c":"ab"}']


def test_an_invariant_that_fails_has_its_rows_as_spark_prints_them() -> None:
    found = rows_of("SELECT 'é' AS a, NULL AS b, 2 AS c, true AS d UNION ALL SELECT 'z', NULL, 1, false")
    assert (found.status, found.found) == (Status.FAILED, 2)
    assert [it.what for it in found.witnesses] == ['{"a":"z","c":1,"d":false}', '{"a":"é","c":2,"d":true}']
    assert rows_of("SELECT * FROM messages").status is Status.PASSED


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT reverse(topic) FROM messages", "the function reverse"),
        ("DROP TABLE messages", "not one SELECT"),
        ("SELECT 1; SELECT 2", "not one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "the function read_csv"),
        ("SELECT 1.5::DOUBLE AS x", "::"),
        ("SELECT CAST(1 AS DOUBLE) / 3 AS x", "/"),
        ("SELECT CAST(12345678901 AS DOUBLE) AS x", "hold a float"),
        ("SELECT CAST('x' AS BIGINT) AS x", "which DuckDB refuses"),
        ("SELECT * FROM messages WHERE split(key, '-')[0] = 'x'", r"\["),
        ("SELECT size(split('a.b', '.')) AS n", "a pattern"),
        ("SELECT size(split('a', '')) AS n", "a pattern"),
        (r"SELECT size(split('a', '\n')) AS n", "a backslash"),
        (r"SELECT * FROM messages WHERE key = 'a\u002d1'", "a backslash"),
        ('SELECT * FROM messages WHERE topic <> "topic"', "double quotes"),
        ("SELECT * FROM messages WHERE 2 ^ 3 = 1", r"\^"),
        ("SELECT * FROM messages WHERE key COLLATE NOCASE = 'x'", "COLLATE"),
        ("SELECT * FROM messages WHERE CAST(value AS DECIMAL) = 0", "a cast to DECIMAL"),
        ("SELECT * FROM messages WHERE TRY_CAST(value AS DATE) IS NULL", "a cast to DATE"),
        ("SELECT * FROM messages WHERE TRY_CAST(value AS BOOLEAN)", "a cast to BOOLEAN"),
        ("SELECT * FROM messages WHERE CAST(CAST(value AS DECIMAL(9, 2)) AS INT) = 0", "of a fraction"),
        (
            "SELECT TRY_CAST(n AS INT) FROM (SELECT explode(split(value, ';')) AS n FROM messages)",
            "beside explode",
        ),
        ("SELECT * FROM messages WHERE CAST('1e3' AS INT) = 0", "a number like 1e3"),
        ("SELECT * FROM messages WHERE lower(topic || timestamp) = 'x'", "a cast beside a time"),
        ("SELECT CAST(timestamp AS BIGINT) AS n FROM messages", "a cast beside a time"),
        ("SELECT upper('straße') AS x", "letters beyond ASCII"),
        ("SELECT lower('İ') AS x", "letters beyond ASCII"),
        ("SELECT trim(BOTH 'x' FROM 'xax') AS x", "which DuckDB refuses"),
    ],
)
def test_sql_that_may_differ_is_handed_over(sql: str, named: str) -> None:
    with pytest.raises(HandOverError, match=named):
        rows_of(sql)


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ('{"a":{"b":"x"}}', "$.a.b", "x"),
        ('{"a":7}', "$.a", "7"),
        ("12", "$", "12"),
        ("abc", "$", None),
        ('{"a":null}', "$.a", None),
        ("[1,true]", "$[1]", "true"),
        ("{}", "$.a", None),
        (None, "$", None),
    ],
)
def test_a_part_of_json(text: str | None, path: str, found: str | None) -> None:
    assert get_json_object(text, path) == found


@pytest.mark.parametrize("value", ["1.5", "1e3", " 7", "1_000", "007", "0x1f", "inf"])
def test_a_cast_of_a_number_that_only_one_would_take_is_handed_over(value: str) -> None:
    message = {"topic": "t", "value": value}
    tables = {"messages": arrow("messages", [message])}
    mine = Invariant(name="mine", sql="SELECT CAST(value AS BIGINT) AS n FROM messages")
    with pytest.raises(HandOverError, match="a number like"):
        invariants.check([mine], tables)


@pytest.mark.parametrize("where", ["value IN (0)", "value = `partition`"])
def test_a_cast_that_is_not_written_is_one_too(where: str) -> None:
    """DuckDB rounds the text -0.4 to 0, and Spark refuses it."""
    tables = {"messages": arrow("messages", [{"topic": "t", "partition": 0, "value": "-0.4"}])}
    with pytest.raises(HandOverError, match="a cast in invariant mine"):
        invariants.check([Invariant(name="mine", sql=f"SELECT topic FROM messages WHERE {where}")], tables)


@pytest.mark.parametrize("amount", ["0.5", '"0.5"', '"1e3"', '"1_000"', '"0x10"'])
def test_a_cast_of_a_part_of_json_that_only_one_would_take_is_handed_over(amount: str) -> None:
    """Else `TRY_CAST(...) IS NULL` would hold for DuckDB alone."""
    tables = {"messages": arrow("messages", [{"topic": "t", "value": f'{{"n":{amount}}}'}])}
    sql = "SELECT topic FROM messages WHERE TRY_CAST(get_json_object(value, '$.n') AS INT) IS NULL"
    with pytest.raises(HandOverError, match="a number like"):
        invariants.check([Invariant(name="mine", sql=sql)], tables)


def test_decimals_in_json_are_no_obstacle_to_a_cast_to_decimals() -> None:
    state = [
        {"app": "a", "table_name": "t", "key": key, "value": f'{{"n":{key}}}'} for key in ("0.5", "-0.25")
    ]
    tables = {
        name: arrow(name, state if name == "state" else []) for name in ("state", "messages", "positions")
    }
    of = {"table": "t", "amount": "$.n"}
    for found, more in (("conservation", {"total": "0.25"}), ("no_negative", {"floor": "-1"})):
        (outcome,) = invariants.check(load([found], of | more), tables)
        assert outcome.status is Status.PASSED, outcome


def test_a_message_that_waits_too_long_or_has_no_time_is_found() -> None:
    """As in tests/spark/test_ready_made.py."""
    rows = [
        {"topic": topic, "partition": 0, "offset": n, "timestamp_ms": at}
        for n, (topic, at) in enumerate(WAITING)
    ]
    tables = {
        "messages": arrow("messages", rows),
        "processes": arrow("processes", [{"triggered_at": datetime.fromtimestamp(TRIGGERED_S, UTC)}]),
    }
    for parameters, expected in DELIVERED:
        (found,) = invariants.check(load(["delivered_within"], parameters), tables)
        assert sorted((item.topic, item.offset) for item in found.witnesses) == expected, parameters


def test_nulls_are_where_spark_has_them() -> None:
    """In no set, and first in an order."""
    tables = {"messages": arrow("messages", [{"topic": "t", "key": key} for key in ("a", None)])}
    sql = "SELECT topic FROM messages GROUP BY topic HAVING size(collect_set(key)) = 1"
    (found,) = invariants.check([Invariant(name="set", sql=sql)], tables)
    assert found.found == 1
    sql = "SELECT n FROM (SELECT key, sum(1) OVER (ORDER BY key) AS n FROM messages) WHERE key IS NULL AND n = 1"
    (found,) = invariants.check([Invariant(name="order", sql=sql)], tables)
    assert found.found == 1


def test_the_ready_made_invariants_are_understood_or_handed_over() -> None:
    """By name: one that is not understood here must be so for a reason that is known."""
    tables = {name: arrow(name, []) for name in ("state", "messages", "channels", "positions", "processes")}
    parameters = {"table": "t", "total": "0", "topics": "in", "waits_for": "$", "seconds": "1"}
    handed = {}
    for name in ready_made():
        wanted = {key: value for key, value in parameters.items() if key in parameters_of([name])}
        (found,) = load([name], wanted)
        try:
            (outcome,) = invariants.check([found], tables)
            assert outcome.check == f"V6 {name}"
        except HandOverError as reason:
            handed[name] = str(reason)
    assert handed.keys() <= {"one_token"}, handed


def test_tables_have_the_columns_that_are_stated() -> None:
    row = {
        "process": 1,
        "app": "a",
        "left": False,
        "triggered_at": datetime.fromisoformat("2026-01-01T00:00:00+00:00"),
    }
    (found,) = arrow("processes", [row]).to_pylist()
    assert found["triggered_at"] == row["triggered_at"]
    assert found["torn"] is None


def test_times_are_compared_with_texts() -> None:
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    state = [
        {"app": "a", "table_name": "t", "window_start": noon, "window_end": noon + timedelta(seconds=9.9)}
    ]
    sql = "SELECT app FROM state WHERE window_start >= '2026-05-01 12:00:00' AND window_end < '2026-05-01 12:00:10'"
    (found,) = invariants.check([Invariant(name="mine", sql=sql)], {"state": arrow("state", state)})
    assert found.found == 1
