"""Options as fields: what stands beside the field of a request says how its command writes it."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import Meta

from snapkafka.errors import BadInputError
from snapkafka.units import duration_ms, moment_ms, rounded_ms


def option(
    written: str, text: str, *, env: str = "", bare: str = "", commas: bool = False, ge: float | None = None
) -> Meta:
    """Describe a field that is an option of its command.

    Args:
        written: `--ttl TIME`; `-v/--verbose`; `ID` alone is an argument; empty: requests alone have it.
        text: what help says of it.
        env: the variable that it is taken from otherwise.
        bare: the unit of a duration without one; empty: it needs one.
        commas: names may be separated by commas.
        ge: the least number.
    """
    flag, _, metavar = written.partition(" ") if written.startswith("-") else ("", "", written)
    extra = {"least": ge, "flag": flag, "metavar": metavar, "env": env, "bare": bare, "commas": commas}
    return Meta(description=text, extra=extra)  # not Meta's own bound, which a field that may be None has not


def switch(text: str) -> Meta:
    """Describe a field that is an option without a value, by its own name."""
    return option("--", text)


class Option(NamedTuple):
    """An option of a command, or an argument of it: that has no `flag`, but a `metavar`."""

    field: str
    type: Any
    default: Any
    help: str
    least: float | None
    flag: str
    metavar: str
    env: str
    bare: str
    commas: bool

    @property
    def required(self) -> bool:
        return self.default is msgspec.NODEFAULT

    @property
    def many(self) -> bool:
        return typing.get_origin(self.type) is tuple

    @property
    def is_time(self) -> bool:
        """Whether a person writes it as a duration, or as a moment."""
        return self.field.endswith("_ms")

    @property
    def written_default(self) -> Any:
        """The default as a person writes it."""
        if self.is_time:
            return rounded_ms(self.default).replace(" ", "").replace(".0", "") if self.default else ""
        return None if self.many else self.default

    def value(self, given: Any) -> Any:
        """Read what a person gave.

        Raises:
            BadInputError: a time is invalid, or a name is empty: an unset variable would mean all.
        """
        if given is None or (given == "" and self.is_time):
            return () if self.many else self.default
        if self.field == "at_ms":
            return moment_ms(given)
        if self.is_time:
            return duration_ms(given, self.flag, bare=self.bare, zero=self.least == 0)
        if not self.commas:
            return tuple(given) if self.many else given
        names = tuple(name.strip() for text in given for name in text.split(","))
        if not all(names):
            raise BadInputError("a name is empty", hint=f"write {self.flag} a,b, or leave it out for all")
        return names


def options_of(request: type[msgspec.Struct], fields: Iterable[str] = ()) -> dict[str, Option]:
    """Return the options of a request by their fields.

    Args:
        fields: only these, in this order; none: all.
    """
    types, hints = typing.get_type_hints(request), typing.get_type_hints(request, include_extras=True)
    found = {}
    for item in msgspec.structs.fields(request):
        (meta,) = (meta for meta in typing.get_args(hints[item.name])[1:] if meta.description)
        made = Option(item.name, types[item.name], item.default, meta.description, **(meta.extra or {}))
        flag = f"--{item.name.replace('_', '-')}" if made.flag == "--" else made.flag
        found[item.name] = made._replace(flag=flag)
    return {name: found[name] for name in fields or found}
