"""The file of a story: processes, channels, steps; and one clear line if it is invalid.

Errors that show without running it are refused here; those that depend on the run (an empty channel) by `run`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from snapkafka.errors import BadInputError

#: Longer messages are cut short: one line has to stay one line.
MESSAGE_MAX: Final = 300
#: The event of a step that names none: it is named by the index of the step.
UNNAMED: Final = "#"

Text = Annotated[str, msgspec.Meta(min_length=1)]
#: A process: a text without "->".
Name = Annotated[str, msgspec.Meta(pattern="^((?!->).)+$")]


class StoryChannel(NamedTuple):
    """A channel from one process to another (or to itself): a topic with one partition."""

    sender: Name
    receiver: Name

    def __str__(self) -> str:
        return f"{self.sender}->{self.receiver}"


class _Step(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", forbid_unknown_fields=True):
    """A step. `event`: its name."""

    event: Text = UNNAMED
    comment: Text = ""


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

    message: Text | None = None


class Snapshot(_Step, frozen=True, kw_only=True, tag="snapshot"):
    """The start of snapshot `id` by a process."""

    at: Text
    id: Text


class Drain(_Step, frozen=True, kw_only=True, tag="drain"):
    """The delivery of everything left, channel by channel, until nothing moves."""


Step = Internal | Send | Deliver | Snapshot | Drain


class Story(msgspec.Struct, frozen=True):
    """A file. Unknown fields of it are ignored."""

    processes: tuple[Name, ...]
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
    """Parse a story from JSON values, as far as it shows its errors without running it.

    Raises:
        BadInputError: it is invalid; the message names the step.
    """
    try:
        story = msgspec.convert(data, Story)
        for names in (story.processes, story.channels):
            _require(len({*names}) == len(names), f"two of one name: {', '.join(map(str, names))}")
        for name in (name for channel in story.channels for name in channel):
            _require(name in story.processes, f"there is no process {name}")
    except ValueError as error:
        raise BadInputError(f"an invalid scenario: {error}"[:MESSAGE_MAX]) from None
    done: dict[tuple[str, ...], int] = {}
    for index, step in enumerate(story.steps):
        try:
            _check(index, step, story, done)
        except ValueError as error:
            raise step_error(index, str(error)) from None
    return story


def step_error(index: int, problem: str) -> BadInputError:
    """Create the error for a step, on one line that names it."""
    return BadInputError(f"step {index}: {problem}"[:MESSAGE_MAX])


def _check(index: int, step: Step, story: Story, done: dict[tuple[str, ...], int]) -> None:
    """Check the names of a step. `done`: what was sent and started, and in which step."""
    match step:
        case Internal(at=at) | Snapshot(at=at):
            _require(at in story.processes, f"there is no process {at}")
        case Send(channel=channel) | Deliver(channel=channel):
            _require(channel in story.channels, f"there is no channel {channel}")
    match step:
        case Send(message=message):
            by = done.setdefault((message,), index)
            _require(by == index, f"a message {message} was sent in step {by} already")
        case Deliver(message=str(message)):
            _require((message,) in done, f"no message {message} was sent before")
        case Snapshot(at=at, id=name):  # several processes may start one, each of them once
            by = done.setdefault((name, at), index)
            _require(by == index, f"{at} has started snapshot {name} in step {by} already")


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)
