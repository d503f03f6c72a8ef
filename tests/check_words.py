"""A check that messages, docstrings and docs use the words of docs/explanation/glossary.md, and none that it forbids.

Part of `make lint`. A message is a string literal below snapkafka/ that holds two words or more; a docstring is one of
snapkafka/; a page is a Markdown file of docs/ or of the root, without its code blocks, code spans and links. `WORDS` is
the right column of the glossary as patterns, each with the word to use. The glossary itself and newsfragments are not
read. `python tests/check_words.py --rewrite` lowers `ALLOWED` to what is found.

The docstring of a function begins with an imperative verb. This check knows no verbs: it knows the words that begin
other sentences. Properties, classes and modules are noun phrases, and only the openings with an empty verb are
forbidden there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parents[1]
GLOSSARY: Final = "docs/explanation/glossary.md"

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

#: Openings of a docstring with a verb that says nothing: the noun behind it is the better beginning.
EMPTY: Final = re.compile(r"(?:Hold|Describe|Return)s? (?:what|who|whom|whose|how)\b", re.IGNORECASE)
#: First words of a sentence that does not begin with its verb.
NO_VERB: Final = frozenset(
    """
    a an the this these those that it its they their he his we our one two some somebody something every everybody
    everything each all any anyone anything both either neither nobody none no nothing not only also other another
    is are was were be been am has had does did can could may might must shall should will would
    what who whom whose which where when why how whether while if until unless since once because although
    of in on at by for from with without within to into as per after before below above between behind up down out
    over under through against about like so such there here likewise unlike
    asks begins called adds feeds hears holds raises reads returns runs sends takes tells turns writes
    """.split()
)
#: What makes a function a property: a noun phrase describes its value.
_PROPERTIES: Final = frozenset({"property", "cached_property"})

#: Names and values in a message or docstring: code spans, quoted words, names of arguments, columns of a schema.
_CODE: Final = r"`[^`\n]*`|\"\w+\"|^\s+\w+(?:, \w+)*:(?= )|\b\w+ bigint\b"
PATTERN: Final = {word: re.compile(word, re.IGNORECASE | re.MULTILINE) for word in WORDS}


#: Pages that still hold forbidden words, and how many. This list only shrinks.
ALLOWED: Final[dict[str, int]] = {}


class Found(NamedTuple):
    """A forbidden word at its place."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}; use: {self.instead}"


def main(root: Path = ROOT, allowed: Mapping[str, int] | None = None) -> int:
    """Print each forbidden word on a line, except in files that may hold as many; return 1 if there is one.

    Args:
        allowed: file -> the forbidden words that it holds; other than that many are a problem. Default: `ALLOWED`.
    """
    allowed = ALLOWED if allowed is None else allowed
    found: dict[str, list[Found]] = {path: [] for path in allowed}
    for one in check(root):
        found.setdefault(one.path, []).append(one)
    failed = {path: some for path, some in found.items() if len(some) != allowed.get(path, 0)}
    for path, some in failed.items():
        for one in some:
            print(one, file=sys.stderr)
        if path in allowed:
            print(f"{path}: ALLOWED has {allowed[path]} forbidden words, found {len(some)}", file=sys.stderr)
    count = sum(map(len, found.values()))
    print(
        f"{GLOSSARY}: {count} forbidden words in messages, docstrings and docs, {sum(allowed.values())} allowed"
    )
    return 1 if failed else 0


def check(root: Path) -> Iterator[Found]:
    """Yield each forbidden word of the checkout at `root`."""
    for path in sorted((root / "snapkafka").rglob("*.py")):
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
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(node):
            first = re.match(r"\w+", text)
            if first and first[0].lower() in NO_VERB:
                yield Found(path, line, first[0], "an imperative verb")


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


def rewrite(root: Path = ROOT) -> None:
    """Write what is found into `ALLOWED`; the diff shows whether it has shrunk."""
    counts = Counter(one.path for one in check(root))
    lines = "".join(f'\n    "{path}": {count},' for path, count in sorted(counts.items()))
    source = Path(__file__)
    text = re.sub(
        r"(?<=^ALLOWED: Final\[dict\[str, int\]\] = \{)[^}]*(?=\})",
        lines and f"{lines}\n",
        source.read_text("utf-8"),
        flags=re.MULTILINE,
    )
    source.write_text(text, "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--rewrite"]:
        rewrite()
    sys.exit(0 if sys.argv[1:] else main())
