"""The codecs of the apps, which Faust knows by name once a module of the user's has registered them."""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from .json_text import with_quoted_constants

#: Codecs that execute what they read.
PICKLES: Final = r"(^|\|)(raw_)?pickle($|\|)"
REFUSED: Final = " is not decoded: pickles execute code (the option unpickle)"
#: Decodes bytes by a codec: to JSON, or to the reason why that is impossible.
Load: TypeAlias = Callable[[str, bytes], tuple[str | None, str | None]]


def loader(modules: tuple[str, ...], *, unpickle: bool) -> Load:
    """Import the modules, and return the function that decodes."""
    missing = ""
    try:
        importlib.import_module("faust.serializers.codecs")
        for module in modules:
            importlib.import_module(module)
    except ImportError as error:
        missing = f"no module {error.name} on a worker"
    except (Exception, SystemExit) as error:
        missing = f"a module fails on a worker: {type(error).__name__}"
    if missing:
        return lambda name, value: (None, f"codec {name}: {missing}")
    return lambda name, value: _load(name, value, unpickle=unpickle)


def _load(name: str, value: bytes, *, unpickle: bool) -> tuple[str | None, str | None]:
    from faust.serializers.codecs import get_codec

    try:
        codec = get_codec(name)
    except Exception:
        return None, f"codec {name} is not registered with Faust"
    if not unpickle and any(type(node).__name__ == "raw_pickle" for node in getattr(codec, "nodes", ())):
        return None, f"codec {name}{REFUSED}"
    try:
        with warnings.catch_warnings(action="ignore"):  # Faust's of pickles: whoever asked for them knows
            found = codec.loads(value)
        text = with_quoted_constants(
            json.dumps(found, default=_plain, ensure_ascii=False, separators=(",", ":"))
        )
        text.encode()
    except (Exception, SystemExit) as error:
        return None, f"codec {name}: {type(error).__name__}"
    return text, None


def _plain(value: Any) -> Any:
    from faust.utils.json import on_default

    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return value.decode() if isinstance(value, bytes) else on_default(value)
