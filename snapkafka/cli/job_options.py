"""The options by which a command reads the log: the same for every command that runs the Spark job."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, Final

from snapkafka import ops

from .options import (
    Around,
    Avro,
    Codecs,
    Isolation,
    SchemaRegistry,
    Sinks,
    Sources,
    Strict,
    Unpickle,
    WithInputs,
)

#: What a command is given; wrong values are refused when it is called, as any other input is.
Reading = Callable[[], ops.HowToRead]
AS_IT_IS: Final[Reading] = ops.HowToRead


def _read(
    isolation: Isolation = "",
    sinks: Sinks = None,
    sources: Sources = None,
    strict: Strict = False,
    codecs: Codecs = None,
    unpickle: Unpickle = False,
    avro: Avro = None,
    schema_registry: SchemaRegistry = "",
    around: Around = ops.AROUND_RECORDS,
    with_inputs: WithInputs = False,
) -> ops.HowToRead:
    return ops.HowToRead(
        isolation=isolation,
        sinks=sinks or (),
        sources=sources or (),
        strict=strict,
        codecs=codecs or (),
        unpickle=unpickle,
        avro=avro or (),
        schema_registry=schema_registry,
        around=around,
        with_inputs=with_inputs,
    )


def reads_the_log(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options in place of its parameter `reading: Reading`.

    Returns:
        the function to register with Typer, with the options in its signature.
    """
    options = inspect.signature(_read).parameters
    own = inspect.signature(command)
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.parameters.items():
        parameters += options.values() if name == "reading" else [parameter]

    @functools.wraps(command)
    def translated(**given: Any) -> None:
        reading = functools.partial(_read, **{name: given.pop(name) for name in options})
        command(**given, reading=reading)

    hints = typing.get_type_hints(command, include_extras=True)
    hints |= typing.get_type_hints(_read, include_extras=True)
    translated.__annotations__ = {it.name: hints[it.name] for it in parameters}
    translated.__signature__ = own.replace(  # type: ignore[attr-defined]  # as `inspect` looks for it
        parameters=[it.replace(annotation=hints[it.name]) for it in parameters]
    )
    return translated
