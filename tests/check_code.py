"""A check of what linters do not know: a message is a short line, and no assert does anything.

Part of `make lint`. A message is what an error, a refusal, an advice or a shortfall gets; a value in it counts as five
characters. What an assert does besides looking would not be done without asserts (`PYTHONOPTIMIZE`), so it calls only
functions that change nothing. Nothing is imported.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
#: What a message is given as: of an error the first argument, of what is named in a list these.
KEYWORDS: Final = frozenset({"hint", "what", "do"})
OTHERS: Final = frozenset({"Refusal", "Advice", "Shortfall"})
#: Folders whose messages only developers of snapkafka meet.
DEVELOPERS: Final = frozenset({"sim", "testing"})
CHARS_MAX: Final = 100
VALUE_CHARS: Final = 5
#: What an assert may call.
PURE: Final = frozenset({"isinstance", "len", "is_dataclass", "get_origin", "must_wait"})


def main(root: Path = ROOT) -> int:
    """Print what is wrong, one line each; return 1 if anything is."""
    problems = list(check(root / "snapkafka"))
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print("code: messages are short lines, and asserts do nothing")
    return 1 if problems else 0


def check(package: Path) -> Iterator[str]:
    """Yield what is wrong in a package, as `file:line: what`."""
    for path in sorted(package.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        found = list(effects(nodes))
        if path.relative_to(package).parts[0] not in DEVELOPERS:
            found += unreadable(nodes)
        yield from (f"{path.relative_to(package.parent)}:{line}: {what}" for line, what in found)


def unreadable(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield each message that is no short line, with its line in the file."""
    for line, said in messages(nodes):
        if len(said) > CHARS_MAX or "\n" in said:
            yield line, f"a message of one line and {CHARS_MAX} characters at most: {said!r}"


def messages(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield each message with its line in the file."""
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if name.endswith("Error") or name in OTHERS:
            named = [keyword.value for keyword in node.keywords if keyword.arg in KEYWORDS]
            yield from ((part.lineno, text(part)) for part in (*node.args[:1], *named))


def text(node: ast.expr) -> str:
    """Return the text of a message, with dots for each value; of two texts the longer one."""
    match node:
        case ast.Constant(value=str() as value):
            return value
        case ast.JoinedStr(values=values):
            return "".join(text(part) or "." * VALUE_CHARS for part in values)
        case ast.IfExp(body=body, orelse=other):
            return max(text(body), text(other), key=len)
    return ""


def effects(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield what an assert may do besides looking, with its line in the file."""
    for node in nodes:
        if not isinstance(node, ast.Assert):
            continue
        for part in ast.walk(node.test):
            does = isinstance(part, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)
            calls = isinstance(part, ast.Call) and ast.unparse(part.func).rpartition(".")[2]
            if does or (calls and calls not in PURE):
                yield node.lineno, f"an assert that may do something: {ast.unparse(part)}"


if __name__ == "__main__":
    sys.exit(main())
