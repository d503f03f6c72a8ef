"""The codecs of the apps, which Faust knows by name once a module of the user's has registered them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .decoding import REFUSED, STRING_OR_CONSTANT

#: Decodes bytes by a codec: to JSON, or to the reason why that is impossible.
Load: TypeAlias = Callable[[str, bytes], tuple[str | None, str | None]]


def codecs_of(modules: tuple[str, ...], *, unpickle: bool) -> Callable[[], Load]:
    """Create a function that imports the modules where it is called and returns the one that decodes. Both need nothing
    of this package there: Spark sends them to its workers by value."""
    refused, constant = REFUSED, STRING_OR_CONSTANT

    def plain(value: Any) -> Any:
        from faust.utils.json import on_default

        if isinstance(value, set | frozenset):
            return sorted(value, key=repr)
        return value.decode() if isinstance(value, bytes) else on_default(value)

    def load(name: str, value: bytes) -> tuple[str | None, str | None]:
        import json
        import re
        import warnings

        from faust.serializers.codecs import get_codec

        try:
            codec = get_codec(name)
        except Exception:
            return None, f"codec {name} is not registered with Faust"
        nodes = getattr(codec, "nodes", ())
        if not unpickle and any(type(node).__name__ == "raw_pickle" for node in nodes):
            return None, f"codec {name}{refused}"
        try:
            with warnings.catch_warnings(action="ignore"):  # Faust's of pickles: whoever asked for them knows
                found = codec.loads(value)
            text = json.dumps(found, default=plain, ensure_ascii=False, separators=(",", ":"))
            text = re.sub(constant, lambda at: at[1] or f'"{at[2]}"', text)
            text.encode()
        except (Exception, SystemExit) as error:
            return None, f"codec {name}: {type(error).__name__}"
        return text, None

    def opened() -> Load:
        import importlib

        missing = ""
        try:
            importlib.import_module("faust.serializers.codecs")
            for module in modules:
                importlib.import_module(module)
        except ImportError as error:
            missing = f"no module {error.name} on a worker"
        except (Exception, SystemExit) as error:
            missing = f"a module fails on a worker: {type(error).__name__}"
        return (lambda name, value: (None, f"codec {name}: {missing}")) if missing else load

    return opened
