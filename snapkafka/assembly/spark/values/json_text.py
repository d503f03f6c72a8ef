"""JSON as it lies in keys and values: whether text is JSON, and how people read it. Spark expressions only.

Spark's parsers end with the first value that they have read, whatever stands behind it, and some are lax. So text is
put into an object and into an array: a strict parser has to find the end of the object behind it, and the array has to
have one element. All that closes a bracket that it did not open closes only one of the two.

Two parsers take longer than all else that is done for a small value. So what most values are is known by its marks.

Spark's variant has whole numbers of up to 38 digits, and makes doubles of longer ones. Where digits count (members and
keys of sets: ids of 128 bits) such a number goes through it as a string that begins with a control character.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

__all__ = ["is_json", "parsed", "plain", "quoted", "text_of", "unparsed"]

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
#: The one field that is asked for: of what is not JSON Spark puts the text there.
BAD: Final = "bad"


def plain(levels: int) -> str:
    """Return what matches values of JSON without escapes, up to so many levels deep; not all of them. Nothing in it
    goes back over what it has read (`*+`, `++`) but within one string, so it takes as long as the text is.
    """
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
    """Is it one value of JSON, and nothing else? Null: no."""
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


def text_of(content: Column) -> Column:
    """JSON as people read it: a string is its content; the parser takes care of its escapes."""
    string = fn.try_variant_get(fn.try_parse_json(content), "$", "string")
    return (
        fn.when(_is_plain_string(content), fn.replace(content, fn.lit('"'), fn.lit("")))
        .when(fn.ltrim(content).startswith('"'), string)
        .otherwise(content)
    )


def parsed(content: Column) -> Column:
    """JSON as a variant; long whole numbers are strings in it, which `unparsed` makes numbers again. Null: no JSON."""
    # In JSON no control character stands as it is: after these two a number begins, after the first alone a string.
    found = fn.regexp_replace(content, STRING_OR_LONG, "\x01$1\x02$2\x03")
    without_strings = fn.replace(found, fn.lit("\x02\x03"), fn.lit(""))
    opened = fn.replace(without_strings, fn.lit("\x01\x02"), fn.lit(f'"{MARK}'))
    marked = fn.translate(opened, "\x03\x01", '"')
    return fn.try_parse_json(fn.when(content.rlike(LONG), marked).otherwise(content))


def unparsed(value: Column) -> Column:
    """Return what was `parsed`, or a part of it, as JSON."""
    return fn.regexp_replace(fn.to_json(value), MARKED, "$1")


def quoted(text: Column) -> Column:
    """Anything as JSON."""
    wrapped = fn.to_json(fn.struct(text.alias("v")), {"ignoreNullFields": "false"})
    return wrapped.substr(fn.lit(len('{"v":') + 1), fn.length(wrapped) - len('{"v":}'))


def _is_plain_string(content: Column) -> Column:
    """Stated without the parser, which takes several times as long."""
    return content.startswith('"') & content.rlike(PLAIN_STRING)
