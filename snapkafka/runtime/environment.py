"""The environment for child processes: it may hold anything, and pip, Java and Spark obey it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

#: Of pip's and Python's settings those that say what to install where, and not where to fetch it.
SHAPES_INSTALLATIONS: Final = frozenset(
    {
        *("PYTHONHOME", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONSTARTUP", "PYTHONUSERBASE"),
        *(
            "PIP_ABI",
            "PIP_COMPILE",
            "PIP_DRY_RUN",
            "PIP_EDITABLE",
            "PIP_IMPLEMENTATION",
            "PIP_LOG",
            "PIP_NO_BINARY",
        ),
        *(
            "PIP_NO_DEPENDENCIES",
            "PIP_NO_DEPS",
            "PIP_ONLY_BINARY",
            "PIP_PLATFORM",
            "PIP_PREFIX",
            "PIP_PYTHON",
        ),
        *(
            "PIP_PYTHON_VERSION",
            "PIP_REPORT",
            "PIP_REQUIREMENT",
            "PIP_REQUIRE_HASHES",
            "PIP_REQUIRE_VIRTUALENV",
        ),
        *("PIP_ROOT", "PIP_SRC", "PIP_TARGET", "PIP_USER", "UV_PROJECT_ENVIRONMENT", "UV_REQUIRE_HASHES"),
        *("UV_NO_BINARY", "UV_PYTHON", "UV_SYSTEM_PYTHON"),
    }
)


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Derive the environment for pip, uv or Java from one that may hold anything.

    Variables that shape *other* installations (a target, a user site, hashes, no wheels) would make ours fail or end
    up elsewhere, and are left out; those that name an index, a proxy or certificates stay.
    """
    ours = {name: value for name, value in environ.items() if name not in SHAPES_INSTALLATIONS}
    use_utf8(ours)
    return ours


def use_utf8(environ: MutableMapping[str, str]) -> None:
    """Replace the locale C, under which Java opens no file whose path has more than ASCII."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    if locale in ("C", "POSIX"):
        environ.pop("LC_ALL", None)
        environ["LC_CTYPE"] = "C.UTF-8"
