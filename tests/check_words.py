"""A check that messages, docstrings and docs use the words of docs/explanation/glossary.md, and none that it forbids.

Part of `make lint`. A message is a string literal below the folders of `SOURCES` that holds two words or more; a
docstring is one of them; a page is a Markdown file of docs/ or of the root, without its code blocks, code spans and
links. `WORDS` is the right column of the glossary as patterns, each with the word to use. The glossary itself and
newsfragments are not read.

The docstring of a function begins with an imperative verb. Ruff (D401) finds articles and other forms of verbs there;
this check finds the openings of questions and of relative clauses. The docstring of a class, a module or a property is
a noun phrase, so nothing is asked of its first word. An empty verb ("Hold what ...") is no opening for any of them.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
GLOSSARY: Final = "docs/explanation/glossary.md"
#: Folders whose messages and docstrings are read.
SOURCES: Final = ("snapkafka", "studies", "tools")

#: A forbidden phrase, and what to use in its place. Flags: IGNORECASE unless the pattern says otherwise.
WORDS: Final[dict[str, str]] = {
    r"\b(?:give|gives|gave|given|giving|take|takes|took|taken|taking)(?: \w+)? away\b": "assigned, revoked",
    r"\banew\b": "recreated, again",
    r"\b(?:a|the|no|each|every) repeat\b|\brepeat it\b": "duplicate; repeatable",
    r"\bpass(?:es|ed|ing)?(?: \w+)? over\b": "skip",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bstrangers?\b|\bnobody of ours\b|\bof nobody\b": "external",
    r"\bmay not be looked at\b": "unauthorized",
    r"\basks? to be spared\b": "throttled (503)",
    r"\bclear(?:s|ed|ing)? (?:\w+ )?up\b": "garbage collection",
    r"\bsew(?:s|n|ed|ing)?\b|\bseams?\b": "hook, patch",
    r"\b(?:short|long) way\b": "fast path, slow path",
    r"\bstand(?:s|ing)? aside\b|\bstood aside\b|\b(?:stand|stands|stood|standing) by\b": "disabled, absent",
    r"\bli(?:fe|ves)\b(?! of an? (?:event|table write|snapshot|marker|record)\b)": "identity, lifetime",
    r"\blasting\b": "retention",
    r"\bpre-looking\b": "pre-flight",
    r"\bscreened\b": "pre-filter",
    r"\bpatience\b": "back-off",
    r"\bon (?:its|their) way\b": "in flight",
}

#: Openings with a verb that says nothing: the noun phrase behind it is the better beginning.
EMPTY: Final = re.compile(r"(?:Hold|Describe|Return)s? (?:what|who|whom|whose|how)\b", re.IGNORECASE)
#: Openings without a verb, besides those that ruff finds.
NO_VERB: Final = re.compile(
    r"(?:is|are|was|were|does|did|has|can|may|must|will|what|who\w*|which|where|when|why|how|whether|while|if|until"
    r"|its?|they|those|these|we|our|one|all|every\w*|each|some\w*|any\w*|nobody|none|no|nothing|not"
    r"|of|in|on|at|by|for|from|with|without|as|per|after|before|below)\b",
    re.IGNORECASE,
)
#: What makes a function a property: a noun phrase describes its value.
_PROPERTIES: Final = frozenset({"property", "cached_property"})

#: Names and values in a message or docstring: code spans, quoted words, names of arguments, columns of a schema.
_CODE: Final = r"`[^`\n]*`|\"\w+\"|^\s+\w+(?:, \w+)*:(?= )|\b\w+ bigint\b"
PATTERN: Final = {word: re.compile(word, re.IGNORECASE | re.MULTILINE) for word in WORDS}


class Found(NamedTuple):
    """A forbidden word at its place."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}; use: {self.instead}"


def main(root: Path = ROOT) -> int:
    """Print each forbidden word on a line; return 1 if there is one."""
    found = list(check(root))
    for one in found:
        print(one, file=sys.stderr)
    print(f"{GLOSSARY}: {len(found)} forbidden words in messages, docstrings and docs")
    return 1 if found else 0


def check(root: Path) -> Iterator[Found]:
    """Yield each forbidden word of the checkout at `root`."""
    for path in sorted(path for folder in SOURCES for path in (root / folder).rglob("*.py")):
        if "_pb2" in path.name:  # generated
            continue
        name = str(path.relative_to(root))
        source = path.read_text("utf-8")
        for line, text in prose(source):
            yield from words(name, line, text)
        yield from openings(name, source)
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        name = str(path.relative_to(root))
        if name != GLOSSARY:
            yield from words(name, 1, plain(path.read_text("utf-8")))


def words(path: str, first: int, text: str) -> Iterator[Found]:
    """Yield the forbidden words of a text that begins at line `first`."""
    for word, pattern in PATTERN.items():
        for match in pattern.finditer(text):
            yield Found(path, first + text.count("\n", 0, match.start()), match[0], WORDS[word])


def openings(path: str, source: str) -> Iterator[Found]:
    """Yield the docstrings of a Python module that begin with an empty verb, or without one in a function."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text, line = ast.get_docstring(node) or "", getattr(node, "lineno", 1)
        if match := EMPTY.match(text):
            yield Found(path, line, match[0], "a noun phrase, or a verb that says what is done")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            match = NO_VERB.match(text)
            if match and not _is_property(node):
                yield Found(path, line, match[0], "an imperative verb")
            elif text.startswith("Return ") and node.returns and ast.unparse(node.returns) == "None":
                yield Found(path, line, "Return", "the verb of what is done: nothing is returned")


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return not names.isdisjoint(_PROPERTIES)


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstrings and messages of a Python module, without code spans."""
    tree = ast.parse(source)
    inside = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield node.lineno, re.sub(_CODE, _blank, text, flags=re.MULTILINE)


def plain(page: str) -> str:
    """Return a page with code blocks, code spans and the targets of links blanked, line for line."""
    for code in (r"^(```+|~~~+).*?^\1", r"`[^`\n]*`", r"\]\([^)\n]*\)", r"<!--.*?-->"):
        page = re.sub(code, _blank, page, flags=re.MULTILINE | re.DOTALL)
    return page


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "_", match[0])


if __name__ == "__main__":
    sys.exit(main())
