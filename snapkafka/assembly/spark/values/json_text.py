"""JSON in keys and values: whether text is JSON, and its form for people. Spark expressions only.

Spark's parsers end after the first value, whatever follows it, and some are lax. So text is put into an object and
into an array: a strict parser has to find the end of the object after it, and the array has to have one element. Text
that closes a bracket that it did not open fits only one of the two.

Two parsers take longer than everything else that is done for a small value. So most values are recognised by a regular
expression.

Spark's variant has integers of up to 38 digits, and turns longer ones into doubles. Where digits count (members and
keys of sets: ids of 128 bits) such a number passes through it as a string that begins with a control character.
"""

from __future__ import annotations

import functools
import operator
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from snapkafka.assembly.decoding import CONSTANTS, STRING_OR_CONSTANT

#: A character of a string that is no escape. Each control character by itself: a class of single ones is one look at a
#: table for Java, a range in it four calls for each character.
IN_STRING: Final = r'[^"\\' + "".join(map(r"\x{:02x}".format, range(32))) + "]"
#: Strings without escapes, as most keys are: valid JSON, and their content is what stands between the quotes. Not
#: possessive, for which Java has a slower loop: a quote ends it, and is not in it, so going back leads nowhere.
STRING: Final = f'"{IN_STRING}*"'
PLAIN_STRING: Final = rf"\A{STRING}\z"
#: What has no more bytes is held to `plain` before it is parsed.
SMALL_MAX: Final = 4_096
#: So many levels of objects and arrays `plain` knows.
LEVELS: Final = 2
#: As RFC 8259 has it.
STRICT: Final = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
#: As many digits in a row are more than the variant holds.
LONG: Final = r"[0-9]{39}"
#: A string, or a whole number that is as long; nothing else begins where one of them could not. Possessive, so that no
#: string is too long for it.
STRING_OR_LONG: Final = r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|(?<![0-9.eE+-])(-?[0-9]{39,}+)(?![.eE])'
#: Such a number as a string; what stands before it as the variant writes it, too.
MARK: Final = r"\u0001"
MARKED: Final = r'"\\u0001(-?[0-9]{39,}+)"'
#: What `_marked` marks with.
MARKS: Final = r"[\x01-\x03]"
#: The one field that is asked for: of what is not JSON Spark puts the text there.
BAD: Final = "bad"


def plain(levels: int) -> str:
    """Return a pattern for values of JSON without escapes, up to so many levels deep; it does not match all of them.
    It never backtracks (`*+`, `++`) except within one string, so it takes time linear in the text."""
    space, string = r"[ \t\n\r]*+", STRING
    number = r"-?+(?:0|[1-9][0-9]{0,300}+)(?:\.[0-9]{1,300}+)?+(?:[eE][+-]?+[0-9]{1,300}+)?+"
    value = scalar = f"{string}|{number}|true|false|null"
    for _ in range(levels):
        one = f"{space}(?:{value}){space}"
        member = f"{space}{string}{space}:{one}"
        in_object = rf"\{{(?:{member}(?:,{member})*+|{space})\}}"
        in_array = rf"\[(?:{one}(?:,{one})*+|{space})\]"
        value = f"{scalar}|{in_object}|{in_array}"
    return rf"\A{space}(?:{value}){space}\z"


def is_json(text: Column) -> Column:
    """Return whether a text is exactly one value of JSON. Null: no."""
    options = {**STRICT, "columnNameOfCorruptRecord": BAD}
    in_object = fn.from_json(fn.concat(fn.lit('{"":'), text, fn.lit("}")), f"{BAD} string", options)
    in_array = fn.json_array_length(fn.concat(fn.lit("["), text, fn.lit("]")))
    parsed = in_object[BAD].isNull() & fn.coalesce(in_array == 1, fn.lit(False))
    is_plain = (fn.octet_length(text) <= SMALL_MAX) & text.rlike(plain(LEVELS))
    return (
        fn.when(text.isNull(), fn.lit(False))
        .when(_is_plain_string(text) | is_plain, fn.lit(True))
        .otherwise(parsed)
    )


def only_json(text: Column) -> Column:
    """Return text that is JSON; null: it is not."""
    return fn.when(is_json(text), text)


def text_of(content: Column) -> Column:
    """Return JSON as people read it: a string is its content; the parser resolves its escapes."""
    string = fn.try_variant_get(fn.try_parse_json(content), "$", "string")
    return (
        fn.when(_is_plain_string(content), fn.replace(content, fn.lit('"'), fn.lit("")))
        .when(fn.ltrim(content).startswith('"'), string)
        .otherwise(content)
    )


def with_quoted_constants(text: Column) -> Column:
    """Return text with NaN, Infinity and -Infinity as strings, wherever JSON has numbers."""
    strings, constants = _marked(text, STRING_OR_CONSTANT)
    quoted_constants = fn.translate(fn.replace(strings, constants, fn.lit('"')), "\x03\x01", '"')
    applies = functools.reduce(operator.or_, map(text.contains, CONSTANTS)) & ~text.rlike(MARKS)
    return fn.when(applies, quoted_constants).otherwise(text)


def _marked(text: Column, pattern: str) -> tuple[Column, Column]:
    """Mark the second group of a pattern whose first is a JSON string: the text with a control character before each
    string, and what stands before each of the others, which end with `\\x03`."""
    found = fn.regexp_replace(text, pattern, "\x01$1\x02$2\x03")
    return fn.replace(found, fn.lit("\x02\x03"), fn.lit("")), fn.lit("\x01\x02")


def parsed(content: Column) -> Column:
    """Parse JSON to a variant; long integers are strings in it, which `unparsed` turns into numbers again. Null:
    invalid JSON."""
    # In JSON no control character stands as it is: after these two a number begins, after the first alone a string.
    strings, long_number = _marked(content, STRING_OR_LONG)
    marked = fn.translate(fn.replace(strings, long_number, fn.lit(f'"{MARK}')), "\x03\x01", '"')
    return fn.try_parse_json(fn.when(content.rlike(LONG), marked).otherwise(content))


def unparsed(value: Column) -> Column:
    """Return a `parsed` value, or a part of it, as JSON."""
    return fn.regexp_replace(fn.to_json(value), MARKED, "$1")


def quoted(text: Column) -> Column:
    """Return any text as a JSON string."""
    wrapped = fn.to_json(fn.struct(text.alias("v")), {"ignoreNullFields": "false"})
    return wrapped.substr(fn.lit(len('{"v":') + 1), fn.length(wrapped) - len('{"v":}'))


def _is_plain_string(content: Column) -> Column:
    """Return whether it is a JSON string without escapes; the parser would take several times as long."""
    return content.startswith('"') & content.rlike(PLAIN_STRING)
