"""Values in the embedded engine: what it reads, and what it leaves to Spark rather than differ."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from snapkafka.assembly import HandOverError, arrow
from snapkafka.assembly.embedded.json_text import is_json, parsed, text_of, unparsed, window_of
from snapkafka.assembly.embedded.values import Decoder


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
