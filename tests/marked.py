"""Commands that are started with a mark in their environment, which their own children inherit."""

import contextlib
import sys

import psutil


def with_ctrl_c(module: str) -> list[str]:
    """A shell in the background leaves Ctrl-C ignored for all that it starts."""
    code = (
        "import signal, runpy;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        f"runpy.run_module({module!r}, run_name='__main__')"
    )
    return [sys.executable, "-c", code]


def marked(mark: object) -> list[psutil.Process]:
    """Every process that has the mark in its environment, dead ones aside."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if each.environ().get("MARK") == str(mark) and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found
