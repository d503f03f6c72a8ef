"""Commands made from requests: each field is an argument or an option."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec
import typer

from snapkafka import ops
from snapkafka.assembly import read_system
from snapkafka.errors import EXIT_NOT_GOOD, EXIT_OK, BadInputError, SnapkafkaError
from snapkafka.options import Option, options_of
from snapkafka.verbs import Change, Request, Where

from .running import connect, console, print_json, reach, reporting, run
from .verbs import COMMANDS, HELPS, Command
from .verbs import settings as help_settings

P = TypeVar("P")
D = TypeVar("D")
F = TypeVar("F", bound=Callable[..., Any])

#: Every command that is about a system has the first; every one that prints a result, the second.
CONFIG: Final = Annotated[
    str, typer.Option(metavar="FILE", help="TOML file that describes the system.", envvar="SNAPKAFKA_CONFIG")
]
AS_JSON: Final = Annotated[bool, typer.Option("--json", metavar="", help="Print the result as JSON.")]


def command(
    name: str,
    show: Callable[[Any], None] | None = None,
    *,
    key: str = "",
    status: Callable[[Any], int] = lambda found: EXIT_OK,
    own_json: bool = False,
    in_lines: bool = False,
) -> Callable[[F], F]:
    """Register a command. A parameter that is a request stands for its options; `Annotated[Request, fields]` for those
    of some fields. A coroutine function returns a result, which is printed; any other function prints by itself.

    Args:
        name: as in `HELPS`.
        show: prints the result for a person; None: there is none, and no `--json`.
        key: the field of `--json` that has a result which is a list.
        status: returns the exit status of a result.
        own_json: a function that prints by itself does so as JSON, too, where `console.as_json` is set.
        in_lines: the result is lines of JSON; without `show` always.
    """

    def registered(function: F) -> F:
        reads = _Requests(function)
        if show or own_json:
            reads.add("as_json", AS_JSON, False)

        @functools.wraps(function)
        def begun(**given: Any) -> None:
            as_json = given.pop("as_json", in_lines)
            console.begin(name, as_json=as_json, in_lines=in_lines)
            with reporting():
                arguments = reads.arguments(given)
                if not inspect.iscoroutinefunction(function):
                    function(**arguments)
                    return
            result = run(lambda: function(**arguments))
            if show and as_json:
                print_json({key: result} if key and isinstance(result, list | tuple) else result)
            elif show:
                show(result)
            if ends := status(result):
                raise typer.Exit(ends)

        begun.__annotations__ = {it.name: it.annotation for it in reads.parameters}
        begun.__signature__ = inspect.Signature(reads.parameters)  # type: ignore[attr-defined]  # for `inspect`
        made = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
        last = name.rpartition(" ")[2]
        made.command(name=last, cls=Command, **help_settings(name))(begun)
        COMMANDS[name] = typer.main.get_command(made)
        return function

    return registered


def question(name: str, show: Callable[[Any], None] = console.show, *, key: str = "") -> None:
    """Register a command that asks its function of `ops` once, and prints the answer."""
    found = HELPS[name]

    async def ask(at: Where, asked: msgspec.Struct) -> Any:
        where = reach(at.bootstrap) if found.offline else connect(at.bootstrap)
        return await getattr(ops, found.run or name)(where, at.namespace, **msgspec.structs.asdict(asked))

    ask.__annotations__["asked"] = Request if isinstance(found.about, str) else found.about
    command(name, show, key=key)(ask)


def good(field: str) -> Callable[[Any], int]:
    """Return the exit status by a field of a result, or of each of several: whether it is good; without it, it is."""

    def status(found: Any) -> int:
        items = found if isinstance(found, tuple) else (found,)
        return EXIT_OK if all(getattr(item, field, True) for item in items) else EXIT_NOT_GOOD

    return status


def ask_one_way(*ways: Mapping[str, bool]) -> None:
    """Refuse modes that exclude each other.

    Args:
        ways: for modes that do, whether each is requested, by its option.

    Raises:
        BadInputError: more than one is requested.
    """
    for one_of in ways:
        asked = [name for name, given in one_of.items() if given]
        if len(asked) > 1:
            raise BadInputError(f"{' and '.join(asked)} cannot be combined", hint="ask for one at a time")


class _Requests:
    """The parameters of a command, in which options stand for the requests of its function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.parameters: list[inspect.Parameter] = []
        self._own: list[str] = []
        self._requests: dict[str, tuple[type[msgspec.Struct], dict[str, Option]]] = {}
        hints = typing.get_type_hints(function, include_extras=True)
        for parameter in inspect.signature(function).parameters.values():
            hint = hints[parameter.name]
            kind, *fields = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                found = options_of(kind, *fields).items()
                options = {field: option for field, option in found if option.flag or option.metavar}
                self._requests[parameter.name] = kind, options
                self.parameters += map(_parameter, options.values())
            else:
                self._own.append(parameter.name)
                self.add(parameter.name, hint, parameter.default)
        if any(kind is Where for kind, _ in self._requests.values()):
            self.add("config", CONFIG, "")

    def add(self, name: str, hint: Any, default: Any) -> None:
        """Add a parameter."""
        kind = inspect.Parameter.KEYWORD_ONLY
        self.parameters.append(inspect.Parameter(name, kind, default=default, annotation=hint))

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the function: requests from what a command was given, and, for the rest, from what
        describes the system."""
        system = read_system(given.get("config", ""))
        found = {name: given[name] for name in self._own}
        for name, (kind, options) in self._requests.items():
            asked = {field: option.value(given[field]) for field, option in options.items()}
            unwritten = {field for field, option in options_of(kind).items() if not option.flag}
            known = {
                field: value
                for field, value in system.items()
                if (asked[field] == options[field].default if field in options else field in unwritten)
            }
            found[name] = kind(**asked | known)
        return found


def _parameter(option: Option) -> inspect.Parameter:
    of: Any = option.type
    if option.is_time:
        of = str
    elif option.many:
        of = list[typing.get_args(option.type)[0]]  # type: ignore[misc]  # for typer
        of = of if option.required else of | None
    info: Any
    shown = option.metavar or ("" if of is bool else None)
    if option.flag:
        info = typer.Option(
            *option.flag.split("/"),
            metavar=shown,
            help=option.help,
            envvar=option.env or None,
            min=option.least,
        )
    else:
        info = typer.Argument(metavar=shown, help=option.help)
    return inspect.Parameter(
        option.field,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if option.required else option.written_default,
        annotation=Annotated[of, info],
    )


# -- commands that change something ---------------------------------------------------------------------------


def propose(
    how: Change,
    *,
    plan: Callable[[], Coroutine[Any, Any, P]],
    act: Callable[[P], Coroutine[Any, Any, D]],
    report: Callable[[P, D], None],
    question: Callable[[P], str],
    show: Callable[[P], None] = console.show,
    refused: Callable[[P], type[SnapkafkaError] | None] = lambda plan: None,
    empty: Callable[[P], bool] = lambda plan: False,
) -> None:
    """Print a plan, refuse it or stop after it, ask, run it, and print the result.

    Args:
        refused: the error of a plan that has a reason to refuse: its exit status, unless it is a dry run.
        empty: whether there is nothing to remove, so that nothing is asked.

    Raises:
        typer.Exit: it is refused, or the answer is no.
    """
    planned = run(plan)
    if not console.as_json:
        show(planned)
    error = refused(planned)
    if how.dry_run or error or empty(planned):
        if console.as_json:
            print_json({"planned": planned, "done": None})
        elif empty(planned):
            console.print("Nothing to remove.")
        if error is not None:
            raise typer.Exit(EXIT_NOT_GOOD if how.dry_run else error.exit_status)
        return
    if not how.yes:
        if console.as_json or not sys.stdin.isatty():
            with reporting({"planned": planned}):
                raise BadInputError(
                    "not confirmed, as there is no terminal", hint="read the plan, then add --yes"
                )
        if not typer.confirm(question(planned), err=True):
            console.print("nothing was changed")
            raise typer.Exit(EXIT_NOT_GOOD)
    done = run(lambda: act(planned), beside={"planned": planned})
    if console.as_json:
        print_json({"planned": planned, "done": done})
    else:
        report(planned, done)
