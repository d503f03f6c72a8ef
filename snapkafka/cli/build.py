"""Commands made from requests: each field is an argument or an option."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, NoReturn, TypeVar

import msgspec
import typer
from typer.core import TyperCommand, TyperGroup

from snapkafka import ops
from snapkafka.assembly import read_system
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError
from snapkafka.options import Option, options_of
from snapkafka.verbs import Change, Where

from .helps import HELPS
from .running import connect, console, print_json, run

T = TypeVar("T")
P = TypeVar("P")
D = TypeVar("D")
F = TypeVar("F", bound=Callable[..., Any])

AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print the result as JSON.")]
#: Every command that is about a system has it.
CONFIG: Final = inspect.Parameter(
    "config",
    inspect.Parameter.KEYWORD_ONLY,
    default="",
    annotation=Annotated[
        str,
        typer.Option(metavar="FILE", help="TOML file that describes the system.", envvar="SNAPKAFKA_CONFIG"),
    ],
)


class WithoutType:
    """A command whose help shows no type beside `--help`."""

    def get_help_option(self, ctx: Any) -> Any:
        found = super().get_help_option(ctx)  # type: ignore[misc]  # of the command
        if found is not None:
            found.metavar = ""
        return found


class Command(WithoutType, TyperCommand): ...


class Group(WithoutType, TyperGroup): ...


def command(app: typer.Typer, name: str, **settings: Any) -> Callable[[F], F]:
    """Register a command. A parameter that is a request stands for its options; `Annotated[Request, fields]` for those
    of some fields.

    Args:
        name: as in `HELPS`; the last word is what `app` has it by.
        settings: more for typer.
    """
    found = HELPS[name]

    def registered(function: F) -> F:
        app.command(
            name=name.split()[-1],
            help=inspect.getdoc(found.request or function),
            epilog=f"Example: snapkafka {found.example}",
            rich_help_panel=found.panel,
            cls=Command,
            **settings,
        )(_expanded(name, function))
        return function

    return registered


def group(app: typer.Typer, name: str, text: str) -> typer.Typer:
    """Register a group of commands, and return it."""
    made = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode="rich", cls=Group)
    found = HELPS[name]
    app.add_typer(made, name=name, epilog=f"Example: snapkafka {found.example}", rich_help_panel=found.panel)
    return made


def question(
    app: typer.Typer,
    name: str,
    show: Callable[[Any], None],
    *,
    data: Callable[[Any], Any] = lambda found: found,
) -> None:
    """Register a command that asks once, and prints the answer.

    Args:
        show: prints it for a person.
        data: returns it as `--json` has it.
    """
    found = HELPS[name]

    def command_(at: Where, asked: msgspec.Struct, as_json: AsJson = False) -> None:
        async def ask() -> Any:
            where = connect(at.bootstrap) if at.bootstrap or not found.offline else None
            verb = getattr(ops, found.run or name)
            return await verb(where, at.namespace, **msgspec.structs.asdict(asked))

        printed(run(ask, as_json=as_json), show, as_json=as_json, data=data)

    command_.__annotations__["asked"] = found.request
    command(app, name)(command_)


def printed(
    found: T,
    show: Callable[[T], None],
    *,
    as_json: bool,
    data: Callable[[T], Any] = lambda found: found,
    good: bool = True,
) -> None:
    """Print a result, as JSON or for a person; one that is not good also sets the exit status."""
    if as_json:
        print_json(data(found))
    else:
        show(found)
    if not good:
        raise typer.Exit(EXIT_NOT_GOOD)


async def ask_one_way(*ways: Mapping[str, bool]) -> None:
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


def _expanded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that begins its output, with options in the place of requests."""
    own = inspect.signature(function)
    parameters: list[inspect.Parameter] = []
    requests: dict[str, tuple[type[msgspec.Struct], dict[str, Option]]] = {}
    for parameter in own.parameters.values():
        hint = typing.get_type_hints(function, include_extras=True)[parameter.name]
        kind, *fields = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            options = {
                field: option
                for field, option in options_of(kind, *fields).items()
                if option.flag or option.metavar
            }
            requests[parameter.name] = kind, options
            parameters += map(_parameter, options.values())
        else:
            parameters.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))

    if any(kind is Where for kind, _ in requests.values()):
        parameters.append(CONFIG)

    @functools.wraps(function)
    def begun(**given: Any) -> Any:
        console.begin(name)

        async def read() -> dict[str, msgspec.Struct]:
            system = read_system(given.get("config", ""))
            return {key: _read(kind, options, given, system) for key, (kind, options) in requests.items()}

        read_requests = run(read, as_json=given.get("as_json", False))
        return function(**{it: given[it] for it in own.parameters if it not in requests}, **read_requests)

    begun.__annotations__ = {it.name: it.annotation for it in parameters}
    begun.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # for `inspect`
    return begun


def _read(
    kind: type[msgspec.Struct],
    options: Mapping[str, Option],
    given: Mapping[str, Any],
    system: Mapping[str, Any],
) -> msgspec.Struct:
    """Return a request from what a command was given, and, for the rest, from what describes the system."""
    asked = {field: option.value(given[field]) for field, option in options.items()}
    unwritten = {field for field, option in options_of(kind).items() if not option.flag}
    known = {
        field: value
        for field, value in system.items()
        if (asked[field] == options[field].default if field in options else field in unwritten)
    }
    return kind(**asked | known)


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


@dataclass(frozen=True, kw_only=True)
class Proposal(Generic[P, D]):
    """A change that is planned, shown, confirmed and made.

    `show`, `report`: print the plan, and the result. `refused`: whether the plan has a reason to refuse. `empty`:
    whether there is nothing to do, so that nothing is asked. `good`: whether everything planned was done. `change`: the
    participle for "nothing was ...": "changed" or "removed".
    """

    plan: Callable[[], Coroutine[Any, Any, P]]
    act: Callable[[P], Coroutine[Any, Any, D]]
    show: Callable[[P], None]
    report: Callable[[P, D], None]
    question: Callable[[P], str]
    refused: Callable[[P], bool] = lambda plan: False
    empty: Callable[[P], bool] = lambda plan: False
    good: Callable[[D], bool] = lambda done: True
    change: str = "changed"


def propose(proposal: Proposal[P, D], how: Change, *, as_json: bool) -> None:
    """Run a proposal: print the plan, refuse it or stop after it, ask, run it, and print the result.

    Raises:
        typer.Exit: it is refused, the answer is no, or not all was done.
    """
    planned = run(proposal.plan, as_json=as_json)
    if not as_json:
        proposal.show(planned)
    refused = proposal.refused(planned)
    if how.dry_run or refused or proposal.empty(planned):
        if as_json:
            print_json({"planned": planned, "done": None})
        if refused:
            raise typer.Exit(EXIT_NOT_GOOD)
        return
    if not how.yes:
        _confirm(proposal, planned, as_json=as_json)
    done = run(
        lambda: proposal.act(planned), as_json=as_json, beside={"planned": planned} if as_json else None
    )
    if as_json:
        print_json({"planned": planned, "done": done})
    else:
        proposal.report(planned, done)
    if not proposal.good(done):
        raise typer.Exit(EXIT_NOT_GOOD)


def _confirm(proposal: Proposal[P, D], planned: P, *, as_json: bool) -> None:
    def nobody_to_ask() -> NoReturn:
        raise BadInputError(
            f"not confirmed, as there is no terminal: nothing was {proposal.change}",
            hint="read the plan, then add --yes",
        )

    if as_json or not sys.stdin.isatty():
        run(nobody_to_ask, as_json=as_json, beside={"planned": planned})
    if not typer.confirm(proposal.question(planned), err=True):
        console.print(f"nothing was {proposal.change}")
        raise typer.Exit(EXIT_NOT_GOOD)
