"""Options of the job on the command line: generated from the fields of `JobSpec`."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from snapkafka.assembly.spec import OPTIONS, JobSpec, Option, changed

#: How the log is read and decoded: the same for every command that runs the job.
READING: Final = (
    "isolation",
    "sinks",
    "sources",
    "strict",
    "codecs",
    "unpickle",
    "avro",
    "schema_registry",
    "around",
    "with_inputs",
    "engine",
)

#: What a command is given: it returns the options with further fields. Wrong values are refused when it is called.
Spec = Callable[..., JobSpec]


def option_of(field: str) -> Any:
    """Return the option of a field, for the signature of a command."""
    option = OPTIONS[field]
    return typer.Option(
        option.flag, metavar=option.metavar or None, help=option.help, envvar=option.env or None
    )


def job_options(*fields: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of these fields in place of its parameter `spec: Spec`.

    Returns:
        a decorator; what it returns is to be registered with Typer, with the options in its signature.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        options = [_parameter(OPTIONS[field]) for field in fields]
        own = inspect.signature(command)
        hints = typing.get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for name, parameter in own.parameters.items():
            parameters += options if name == "spec" else [parameter.replace(annotation=hints[name])]

        @functools.wraps(command)
        def translated(**given: Any) -> None:
            read = {name: given.pop(name) for name in fields}
            named = {name: item for name, item in read.items() if item is not None}
            command(**given, spec=lambda **more: changed(JobSpec(), **(named | more)))

        translated.__annotations__ = {it.name: it.annotation for it in parameters}
        translated.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # for `inspect`
        return translated

    return decorated


def _parameter(option: Option) -> inspect.Parameter:
    kind: Any = list[str] | None if option.many else option.type
    return inspect.Parameter(
        option.field,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=None if option.many else option.default,
        annotation=Annotated[kind, option_of(option.field)],
    )
