"""JSON as it lies in keys and values: whether text is JSON, and how people read it. Spark expressions only.

Spark's parsers end with the first value that they have read, whatever stands behind it, and some are lax. So text is
put into an object and into an array: a strict parser has to find the end of the object behind it, and the array has to
have one element. What closes a bracket that it did not open closes only one of the two.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

__all__ = ["is_json", "quoted", "text_of"]

#: Strings without escapes, as most keys are: valid JSON, and their content is what stands between the quotes.
PLAIN_STRING: Final = r'\A"[^"\\\x00-\x1f]*"\z'
#: As RFC 8259 has it.
STRICT: Final = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
#: The one field that is asked for: of what is not JSON Spark puts the text there.
BAD: Final = "bad"


def is_json(text: Column) -> Column:
    """Is it one value of JSON, and nothing else? Null: no."""
    options = {**STRICT, "columnNameOfCorruptRecord": BAD}
    in_object = fn.from_json(fn.concat(fn.lit('{"":'), text, fn.lit("}")), f"{BAD} string", options)
    in_array = fn.json_array_length(fn.concat(fn.lit("["), text, fn.lit("]")))
    parsed = in_object[BAD].isNull() & fn.coalesce(in_array == 1, fn.lit(False))
    return fn.when(text.isNull(), fn.lit(False)).when(_is_plain_string(text), fn.lit(True)).otherwise(parsed)


def text_of(content: Column) -> Column:
    """JSON as people read it: a string is its content; the parser takes care of its escapes."""
    string = fn.try_variant_get(fn.try_parse_json(content), "$", "string")
    return (
        fn.when(_is_plain_string(content), fn.replace(content, fn.lit('"'), fn.lit("")))
        .when(fn.ltrim(content).startswith('"'), string)
        .otherwise(content)
    )


def quoted(text: Column) -> Column:
    """Anything as JSON."""
    wrapped = fn.to_json(fn.struct(text.alias("v")), {"ignoreNullFields": "false"})
    return wrapped.substr(fn.lit(len('{"v":') + 1), fn.length(wrapped) - len('{"v":}'))


def _is_plain_string(content: Column) -> Column:
    """Said without the parser, which takes several times as long."""
    return content.startswith('"') & content.rlike(PLAIN_STRING)
