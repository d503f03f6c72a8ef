"""Functions of snapkafka that report when they are called, and can be made to raise: by an import hook.

Each function of `PACKAGES` gets a first statement that calls `reached`. A hook does its own work in a `try` that leads
to `stand_down`: there that statement stands inside, for what is outside is Faust's. A hook that has all its work done
by `note` gets none: `note` has. Which run of an app calls is known from a context variable, so many apps can run in one
process, each with a fault of its own.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable
from contextvars import ContextVar
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType
from typing import Any, Final

#: With all that begins with one of these names.
PACKAGES: Final = (
    "snapkafka.drivers.aio_client",
    "snapkafka.drivers.faust",
    "snapkafka.drivers.gate",
    "snapkafka.drivers.ledger",
    "snapkafka.drivers.machine_driver",
    "snapkafka.drivers.metrics",
    "snapkafka.drivers.patches",
    "snapkafka.drivers.process",
    "snapkafka.drivers.reading",
    "snapkafka.drivers.sends",
    "snapkafka.protocol",
    "snapkafka.wire",
)
REACHED: Final = "__reached__"
#: Where a worker withdraws: in these functions, which `__main__` can import, and in whatever they call.
WITHDRAWS: Final[set[CodeType]] = set()


class FaultError(RuntimeError):
    """A bug of ours."""


class Fault:
    """A fault of one run: `where` raises from `arm` on, each time.

    Args:
        where: the function; empty: none, and what is called is noted.
        withdraws: the worker needs it to withdraw, so it raises only until then.
    """

    def __init__(self, where: str = "", *, withdraws: bool = False) -> None:
        self.where, self.withdraws = where, withdraws
        self.armed = self.withdrawing = False
        self.over: Callable[[], bool] = lambda: False  # has the worker stood down?
        self.raised = 0
        self.called: set[str] = set()
        self.called_to_withdraw: set[str] = set()

    def reached(self, where: str) -> None:
        """A function is called in this run."""
        if not self.armed:
            return
        if not self.where:
            if not self.withdrawing:
                self.called.add(where)
            elif _withdraws():
                self.called_to_withdraw.add(where)
        elif where == self.where and not (self.withdraws and self.over()):
            self.raised += 1
            raise FaultError(f"a bug of ours in {where}")


RUN: ContextVar[Fault | None] = ContextVar("fault", default=None)


def _withdraws() -> bool:
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code in WITHDRAWS:
            return True
        frame = frame.f_back
    return False


def reached(where: str) -> None:
    """Called by every function of `PACKAGES`."""
    fault = RUN.get()
    if fault is not None:
        fault.reached(where)


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path))
        _report_in(tree, fullname.removeprefix("snapkafka.") + ":")
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(PACKAGES):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = _Loader(name, spec.origin)
        return spec


def install_hook() -> None:
    """Instrument what is imported from here on."""
    assert not any(name.startswith(PACKAGES) for name in sys.modules), "they were imported before"
    setattr(builtins, REACHED, reached)
    sys.meta_path.insert(0, _Finder())


def _report_in(tree: ast.AST, above: str) -> None:
    for node in ast.iter_child_nodes(tree):
        name = above
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{above}{node.name}."
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _has_it_noted(node):
            body = _body_of(node)
            call = ast.parse(f"{REACHED}({name.rstrip('.')!r})").body[0]
            body.insert(1 if _is_docstring(body[0]) and len(body) > 1 else 0, call)
        _report_in(node, name)


def _body_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """Where its own statements stand: in the `try` that contains them, if it is a hook."""
    tries = [statement for statement in function.body if isinstance(statement, ast.Try)]
    tries += [part for whole in tries for part in whole.finalbody if isinstance(part, ast.Try)]
    for part in tries:
        if any("stand_down" in ast.dump(handler) for handler in part.handlers):
            return part.body
    return function.body


def _has_it_noted(function: ast.AST) -> bool:
    """Whether its work is done by `note`, not counting functions in it."""
    inner = [node for node in ast.iter_child_nodes(function) if not isinstance(node, ast.FunctionDef)]
    found = isinstance(function, ast.Call) and isinstance(function.func, ast.Attribute)
    return (found and function.func.attr == "note") or any(map(_has_it_noted, inner))  # type: ignore[attr-defined]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
