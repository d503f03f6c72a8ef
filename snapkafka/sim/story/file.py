"""The file of a story: processes, channels, steps; and one clear line if it is invalid.

Errors that show without running it are refused here; those that depend on the run (an empty channel) by `run`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from snapkafka.errors import BadInputError

#: Longer steps are cut short in messages: one line has to stay one line.
STEP_TEXT_MAX: Final = 200

Text = Annotated[str, msgspec.Meta(min_length=1)]
#: A process: a text without "->".
Name = Annotated[str, msgspec.Meta(pattern="^((?!->).)+$")]


class StoryChannel(NamedTuple):
    """A channel from one process to another (or to itself): a topic with one partition."""

    sender: str
    receiver: str

    def __str__(self) -> str:
        return f"{self.sender}->{self.receiver}"


class _Step(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", forbid_unknown_fields=True):
    """A step. `event`: its name."""

    event: Text = "#"
    comment: Text = "#"


class _OnChannel(_Step, frozen=True, kw_only=True, rename={"sender": "from", "receiver": "to"}):
    """A step on a channel."""

    sender: Text
    receiver: Text

    @property
    def channel(self) -> StoryChannel:
        return StoryChannel(self.sender, self.receiver)


class Internal(_Step, frozen=True, kw_only=True, tag="internal"):
    """An event at a process without a message."""

    at: Text


class Send(_OnChannel, frozen=True, kw_only=True, tag="send"):
    """A send: a message enters a channel."""

    message: Text


class Deliver(_OnChannel, frozen=True, kw_only=True, tag="deliver"):
    """A delivery of the head of a channel; with `message`, of everything up to and including that message."""

    message: Text | msgspec.UnsetType = msgspec.UNSET


class Snapshot(_Step, frozen=True, kw_only=True, tag="snapshot"):
    """The start of snapshot `id` by a process."""

    at: Text
    id: Text


class Drain(_Step, frozen=True, kw_only=True, tag="drain"):
    """The delivery of everything left, channel by channel, until nothing moves."""


Step = Internal | Send | Deliver | Snapshot | Drain


class _File(msgspec.Struct):
    processes: list[Name]
    channels: list[tuple[Name, Name]]
    steps: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A valid file, as far as it shows without running it. `texts`: the steps as in the file, for messages."""

    processes: tuple[str, ...]
    channels: tuple[StoryChannel, ...]
    steps: tuple[Step, ...]
    texts: tuple[str, ...]

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
    try:
        raw = msgspec.convert(data, _File)
        channels = [StoryChannel(*pair) for pair in raw.channels]
        _require(len({*raw.processes}) == len(raw.processes), f"two processes of one name: {raw.processes}")
        _require(len({*channels}) == len(channels), f"two channels of one name: {raw.channels}")
        for name in (name for channel in channels for name in channel):
            _require(name in raw.processes, f"there is no process {name}")
    except ValueError as error:
        raise BadInputError(f"an invalid scenario: {str(error)[:STEP_TEXT_MAX]}") from None
    done: dict[tuple[str, ...], int] = {}
    texts = tuple(map(_text, raw.steps))
    steps = []
    for index, (step, text) in enumerate(zip(raw.steps, texts, strict=True)):
        try:
            steps.append(_checked(index, msgspec.convert(step, Step), raw.processes, channels, done))
        except ValueError as error:
            raise step_error(index, text, str(error)) from None
    return Story(processes=(*raw.processes,), channels=(*channels,), steps=(*steps,), texts=texts)


def step_error(index: int, text: str, problem: str) -> BadInputError:
    """Create the error for a step, on one line that names it."""
    return BadInputError(f"step {index} ({text}): {problem}")


def _checked(
    index: int,
    step: Step,
    processes: list[str],
    channels: list[StoryChannel],
    done: dict[tuple[str, ...], int],
) -> Step:
    """Check the names of a step, and name its event. `done`: what was sent and started, and in which step."""
    match step:
        case Internal(at=at) | Snapshot(at=at):
            _require(at in processes, f"there is no process {at}")
        case Send(channel=channel) | Deliver(channel=channel):
            for name in channel:
                _require(name in processes, f"there is no process {name}")
            _require(channel in channels, f"there is no channel {channel}")
    match step:
        case Send(message=message):
            by = done.setdefault((message,), index)
            _require(by == index, f"a message {message} was sent in step {by} already")
        case Deliver(message=str(message)):
            _require((message,) in done, f"no message {message} was sent before")
        case Snapshot(at=at, id=name):  # several processes may start one, each of them once
            by = done.setdefault((name, at), index)
            _require(by == index, f"{at} has started snapshot {name} in step {by} already")
    return step if step.event != "#" else msgspec.structs.replace(step, event=f"#{index}")


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _text(raw: object) -> str:
    text = json.dumps(raw)
    return text if len(text) <= STEP_TEXT_MAX else text[: STEP_TEXT_MAX - 3] + "..."
