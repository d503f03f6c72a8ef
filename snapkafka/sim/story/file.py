"""The file of a story: processes, channels, steps; and one clear line if it is invalid.

Errors that show without running it are refused here; those that depend on the run (an empty channel) by `run`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from snapkafka.errors import BadInputError

#: Longer steps are cut short in messages: one line has to stay one line.
STEP_TEXT_MAX: Final = 200

#: What a step of each kind must say, and what it may say. `event` and `comment` may stand anywhere.
FIELDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "internal": (("at",), ()),
    "send": (("from", "to", "message"), ()),
    "deliver": (("from", "to"), ("message",)),
    "snapshot": (("at", "id"), ()),
    "drain": ((), ()),
}


class StoryChannel(NamedTuple):
    """A channel from one process to another (or to itself): a topic with one partition."""

    sender: str
    receiver: str

    def __str__(self) -> str:
        return f"{self.sender}->{self.receiver}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A step. `index` counts from 0; `text`: the step as in the file; `event`: its name."""

    index: int
    text: str
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Internal(_Step):
    """An event at a process without a message."""

    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(_Step):
    """A send: a message enters a channel."""

    channel: StoryChannel
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver(_Step):
    """A delivery of the head of a channel; with `message`, of everything up to and including that message."""

    channel: StoryChannel
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(_Step):
    """The start of snapshot `id` by a process."""

    at: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(_Step):
    """The delivery of everything left, channel by channel, until nothing moves."""


Step = Internal | Send | Deliver | Snapshot | Drain


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A valid file, as far as it shows without running it."""

    processes: tuple[str, ...]
    channels: tuple[StoryChannel, ...]
    steps: tuple[Step, ...]

    @property
    def snapshot_ids(self) -> tuple[str, ...]:
        """The ids in the order in which they are first started."""
        return tuple(dict.fromkeys(step.id for step in self.steps if isinstance(step, Snapshot)))


def load_story(path: Path) -> Story:
    """Read a story.

    Raises:
        BadInputError: there is no such file, it is not JSON, or it is invalid; the message names the step.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{path} is not JSON: {error}") from error
    return parse_story(data)


def parse_story(data: object) -> Story:
    """Parse a story from JSON values. Unknown fields of the file are ignored.

    Raises:
        BadInputError: it is invalid; the message names the step.
    """
    if not isinstance(data, dict):
        raise BadInputError("a scenario is a JSON object with processes, channels and steps")
    processes = _processes(_list(data, "processes"))
    channels = _channels(_list(data, "channels"), processes)
    parser = _Parser(processes, channels)
    steps = tuple(parser.step(index, raw) for index, raw in enumerate(_list(data, "steps")))
    return Story(processes=processes, channels=channels, steps=steps)


def step_error(step: Step, problem: str) -> BadInputError:
    """Create the error for a step, on one line that names it."""
    return _error(step.index, step.text, problem)


def _error(index: int, text: str, problem: str) -> BadInputError:
    return BadInputError(f"step {index} ({text}): {problem}")


def _list(data: dict[str, Any], field: str) -> list[Any]:
    if not isinstance(data.get(field), list):
        raise BadInputError(f"the scenario has no list of {field}")
    found: list[Any] = data[field]
    return found


def _processes(raw: Iterable[Any]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for index, name in enumerate(raw):
        if not isinstance(name, str) or not name or "->" in name:
            raise BadInputError(f"processes[{index}] ({_text(name)}): a name is a text without '->'")
        if name in names:
            raise BadInputError(
                f"processes[{index}] ({_text(name)}): there is a process of that name already"
            )
        names[name] = None
    return tuple(names)


def _channels(raw: Iterable[Any], processes: tuple[str, ...]) -> tuple[StoryChannel, ...]:
    channels: dict[StoryChannel, None] = {}
    for index, pair in enumerate(raw):
        where = f"channels[{index}] ({_text(pair)})"
        if not isinstance(pair, list) or len(pair) != 2:
            raise BadInputError(f"{where}: a channel is a pair of processes, [from, to]")
        for name in pair:
            if name not in processes:
                raise BadInputError(f"{where}: there is no process {_text(name)}")
        channel = StoryChannel(*pair)
        if channel in channels:
            raise BadInputError(f"{where}: there is such a channel already")
        channels[channel] = None
    return tuple(channels)


class _Parser:
    """A parser of steps, one after the other, which knows the names so far."""

    def __init__(self, processes: tuple[str, ...], channels: tuple[StoryChannel, ...]) -> None:
        self._processes, self._channels = frozenset(processes), frozenset(channels)
        self._messages: dict[str, int] = {}  # message -> the step that sends it
        self._started: dict[tuple[str, str], int] = {}  # (snapshot, process) -> the step that starts it there

    def step(self, index: int, raw: Any) -> Step:
        text = _text(raw)
        if not isinstance(raw, dict):
            raise _error(index, text, 'a step is an object such as {"do": "drain"}')
        try:
            return self._step(index, text, raw)
        except ValueError as error:
            raise _error(index, text, str(error)) from None

    def _step(self, index: int, text: str, raw: dict[str, Any]) -> Step:
        do = raw.get("do")
        if not isinstance(do, str) or do not in FIELDS:
            raise ValueError(f'"do" is one of {", ".join(FIELDS)}')
        must, may = FIELDS[do]
        for field in must:
            if field not in raw:
                raise ValueError(f'"{field}" is missing')
        for field, value in raw.items():
            if field not in {"do", "event", "comment", *must, *may}:
                raise ValueError(f'a step of kind {do} has no "{field}"')
            if not isinstance(value, str) or not value:
                raise ValueError(f'"{field}" is not a text')
        event = raw.get("event", f"#{index}")
        match do:
            case "internal":
                return Internal(index=index, text=text, event=event, at=self._process(raw["at"]))
            case "send":
                channel, message = self._channel(raw), self._new_message(raw["message"], index)
                return Send(index=index, text=text, event=event, channel=channel, message=message)
            case "deliver":
                channel, wanted = self._channel(raw), raw.get("message")
                if wanted is not None and wanted not in self._messages:
                    raise ValueError(f"no message {wanted} was sent before")
                return Deliver(index=index, text=text, event=event, channel=channel, message=wanted)
            case "snapshot":
                at = self._starter(raw["id"], self._process(raw["at"]), index)
                return Snapshot(index=index, text=text, event=event, at=at, id=raw["id"])
            case _:
                return Drain(index=index, text=text, event=event)

    def _process(self, name: str) -> str:
        if name not in self._processes:
            raise ValueError(f"there is no process {name}")
        return name

    def _channel(self, raw: dict[str, str]) -> StoryChannel:
        channel = StoryChannel(self._process(raw["from"]), self._process(raw["to"]))
        if channel not in self._channels:
            raise ValueError(f"there is no channel {channel}")
        return channel

    def _new_message(self, name: str, index: int) -> str:
        if name in self._messages:
            raise ValueError(f"a message {name} was sent in step {self._messages[name]} already")
        self._messages[name] = index
        return name

    def _starter(self, snapshot: str, at: str, index: int) -> str:
        """Check the starter of a snapshot: several processes may start one, each of them once."""
        if (snapshot, at) in self._started:
            raise ValueError(
                f"{at} has started snapshot {snapshot} in step {self._started[snapshot, at]} already"
            )
        self._started[snapshot, at] = index
        return at


def _text(raw: object) -> str:
    text = json.dumps(raw)
    return text if len(text) <= STEP_TEXT_MAX else text[: STEP_TEXT_MAX - 3] + "..."
